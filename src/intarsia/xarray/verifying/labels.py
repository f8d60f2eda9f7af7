"""Labels of dimensions: looked up, compared, and told."""

# pandas' signatures are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

type Array = npt.NDArray[Any]


class Labels:
    """The coordinates of one group that are named like their only dimension.

    Parameters
    ----------
    values
        Labels by dimension.
    tolerance
        Labels that differ by at most this much are the same; None for none.
    """

    def __init__(self, values: Mapping[str, Array], tolerance: Any = None) -> None:
        self._values = dict(values)
        self.tolerance = tolerance
        self._indexes: dict[str, pd.Index] = {}

    def of(self, dim: str, size: int) -> Array | None:
        """Labels of a dimension, or None where it has none, or not as many."""
        found = self._values.get(dim)
        return found if found is not None and len(found) == size else None

    def _index(self, dim: str) -> pd.Index:
        index = self._indexes.get(dim)
        if index is None:
            index = self._indexes[dim] = pd.Index(self._values[dim])
        return index

    def repeat(self, dim: str) -> bool:
        """Whether a dimension has a label twice."""
        return dim in self._values and not self._index(dim).is_unique

    def find(self, dim: str, size: int, labels: Array) -> Array | None:
        """Positions of labels along a dimension of a size, -1 for those that are not there.

        Returns
        -------
        ndarray or None
            None where the dimension has no labels, or the same one twice.
        """
        mine = self.of(dim, size)
        if mine is None or self.repeat(dim):
            return None
        index = self._index(dim)
        cast = _cast(labels, mine.dtype)
        if cast is None:
            return np.full(len(labels), -1)
        found = index.get_indexer(pd.Index(cast))
        if _applies(self.tolerance, mine) and index.is_monotonic_increasing:
            found = index.get_indexer(pd.Index(cast), "nearest", tolerance=self.tolerance)
        return np.asarray(found)

    def among(self, dim: str, labels: Array) -> Array:
        """Positions along a dimension whose labels are among some labels."""
        index = self._index(dim)
        cast = _cast(labels, self._values[dim].dtype)
        inside: Any = index.isin(pd.Index([] if cast is None else cast))
        return np.flatnonzero(inside)

    def __reduce__(self) -> tuple[Any, ...]:
        return Labels, (self._values, self.tolerance)


def same_labels(mine: Array, theirs: Array, tolerance: Any = None) -> npt.NDArray[np.bool_]:
    """Where labels are the same: equal, both missing, or as close as the tolerance says.

    Examples
    --------
    >>> same_labels(np.array([0.0, 1.0]), np.array([0, 2]))
    array([ True, False])
    """
    cast = _cast(theirs, mine.dtype)
    if cast is None:
        return np.zeros(mine.shape, bool)
    if mine.dtype.kind == "O":
        pairs = zip(mine.tolist(), cast.tolist(), strict=True)
        return np.array([a is b or bool(a == b) for a, b in pairs], bool)
    same: Any = (mine == cast) | ((mine != mine) & (cast != cast))
    if _applies(tolerance, mine):
        same |= np.abs(mine - cast) <= tolerance
    return np.asarray(same)


def _cast(labels: Array, dtype: np.dtype[Any]) -> Array | None:
    """Labels of a source as those of the whole are typed; None where they are of another kind."""
    if labels.dtype == dtype:
        return labels
    alike = (set("iufb"), set("USOT"), set("MO"), set("m"), set("c"))
    if not any(labels.dtype.kind in kinds and dtype.kind in kinds for kinds in alike):
        return None
    if dtype.kind in "US":
        dtype = np.dtype(dtype.kind)  # of any length
    try:
        return labels.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        return None


def _applies(tolerance: Any, labels: Array) -> bool:
    """Whether a tolerance is one for such labels: a duration for times, a number for numbers."""
    if tolerance is None:
        return False
    duration = isinstance(tolerance, np.timedelta64)
    return labels.dtype.kind in ("mM" if duration else "iuf")


def text_of(value: Any) -> str:
    """One value, as short as tells it exactly.

    Examples
    --------
    >>> text_of(np.datetime64("2020-01-03", "ns")), text_of(np.float32(0.1)), text_of("a")
    ('2020-01-03', '0.1', "'a'")
    """
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value, unit="auto"))
    if isinstance(value, np.timedelta64 | np.number | np.bool_):
        return str(value)
    if isinstance(value, str):
        return repr(str(value))
    return repr(bytes(value)) if isinstance(value, bytes) else str(value)
