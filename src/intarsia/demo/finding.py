"""What one set of attributes gets wrong, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia.demo.oneset import Refused
from intarsia.demo.verify import Outcome

LAST_BITS = 1e-4
"""°C: what differs by less is arithmetic in another type, and not counted as wrong."""


@dataclass(frozen=True, slots=True)
class Finding:
    """How the picture of one set of attributes differs from the right one.

    Parameters
    ----------
    refused
        Why there is no picture; "" if there is one.
    share
        Fraction of all values that are wrong.
    largest
        The largest error in °C, of values that are there in both.
    lost, invented
        How many values are missing there and not here, and the other way round.
    """

    refused: str
    share: float = 0.0
    largest: float = 0.0
    lost: int = 0
    invented: int = 0

    @property
    def text(self) -> str:
        """In a phrase: ``refused``, or ``67 % wrong, by up to 6.0 °C``."""
        if self.refused:
            return "refused"
        return f"{self._share} {self._done}{self._by}"

    @property
    def title(self) -> str:
        """In a sentence."""
        if self.refused:
            return "one set of attributes can't describe the files"
        verbs = {"wrong": "gets", "lost": "loses", "invented": "invents"}
        wrong = " wrong" if self._done == "wrong" else ""
        text = f"{verbs[self._done]} {self._share} of the values{wrong}"
        return f"one set of attributes {text}{self._by}"

    @property
    def _share(self) -> str:
        return f"{100 * self.share:.0f} %"

    @property
    def _done(self) -> str:
        """What happens to the values: they are lost, or invented, or else just wrong."""
        if self.largest or (self.lost and self.invented):
            return "wrong"
        return "lost" if self.lost else "invented" if self.invented else "wrong"

    @property
    def _by(self) -> str:
        return f", by up to {self.largest:.1f} °C" if self.largest else ""


def found(outcome: Outcome) -> Finding:
    """Compare the picture of one set of attributes with xarray reading each file on its own."""
    if isinstance(outcome.one_set, Refused):
        return Finding(outcome.one_set.reason)
    picture = outcome.one_set.astype(np.float64)
    right = outcome.alone.astype(np.float64)
    missing, absent = np.isnan(picture), np.isnan(right)
    both = ~missing & ~absent
    off = np.abs(np.where(both, picture, 0) - np.where(both, right, 0))
    return Finding(
        "",
        float(((missing != absent) | (off > LAST_BITS)).mean()),
        float(off[off > LAST_BITS].max(initial=0)),
        int((missing & ~absent).sum()),
        int((absent & ~missing).sum()),
    )
