"""How stored bytes become values: chains of codecs whose parameters are left open.

An array of ten thousand files has few *encodings* (cases) and many references. What varies from
file to file without changing the chain (a scale, an offset, a fill) is a *parameter*: a row of a
structured array beside the encoding, so that chunks of many files are decoded in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

RAW_FILL = "raw_fill"
"""The parameter every encoding has: the stored value of elements that were never written."""


class Codec(NamedTuple):
    """One step of a chain, by name and configuration; hashable, comparable, JSON-like.

    Parameters
    ----------
    name
        The codec's name, for example ``"zlib"`` or ``"mask"``.
    configuration
        Sorted ``(key, value)`` pairs. Values are strings, integers, booleans, ``None`` or tuples
        of those.
    """

    name: str
    configuration: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def make(cls, name: str, **configuration: Any) -> Codec:
        """Build a codec from keyword arguments.

        Examples
        --------
        >>> Codec.make("shuffle", elementsize=4)
        Codec(name='shuffle', configuration=(('elementsize', 4),))
        """
        return cls(name, tuple(sorted(configuration.items())))

    @property
    def config(self) -> dict[str, Any]:
        """The configuration as a dictionary."""
        return dict(self.configuration)

    def __str__(self) -> str:
        if not self.configuration:
            return self.name
        inside = ", ".join(f"{key}={value}" for key, value in self.configuration)
        return f"{self.name}({inside})"


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the bytes of a chunk become values.

    Parameters
    ----------
    filters
        bytes -> bytes codecs in the order in which the writer applied them; they are undone last
        to first. Bit ``i`` of a chunk's filter mask says that ``filters[i]`` was skipped.
    stored
        Type of the stored elements, byte order included.
    steps
        array -> array codecs, in decoding order.
    parameters
        Structured type of one row of parameters. Its first field is ``raw_fill``, of type
        `stored`; the others are named by the steps (``fill_0``, ``scale``, ``offset``).
    """

    filters: tuple[Codec, ...]
    stored: np.dtype[Any]
    steps: tuple[Codec, ...] = ()
    parameters: np.dtype[Any] = field(default_factory=lambda: np.dtype([]))
    _hash: int = field(init=False, repr=False, compare=False)  # asked for once per file

    def __post_init__(self) -> None:
        names = self.parameters.names or ()
        if not names:
            object.__setattr__(self, "parameters", np.dtype([(RAW_FILL, self.stored)]))
        elif names[0] != RAW_FILL or self.parameters[0] != self.stored:
            raise ValueError(
                f"the first parameter must be {RAW_FILL!r} of type {self.stored}, "
                f"got {self.parameters}"
            )
        parts = (self.filters, self.stored, self.steps, self.parameters)
        object.__setattr__(self, "_hash", hash(parts))

    @classmethod
    def shared(
        cls,
        filters: tuple[Codec, ...],
        stored: np.dtype[Any],
        steps: tuple[Codec, ...] = (),
        parameters: np.dtype[Any] | None = None,
    ) -> Encoding:
        """The same object for the same arguments: what thousands of files should point to."""
        return _shared(filters, stored, steps, parameters)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared, (self.filters, self.stored, self.steps, self.parameters)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the decoded values, in native byte order."""
        return _decoded(self.stored, self.steps)

    def cast(self, dtype: np.dtype[Any]) -> Encoding:
        """The same encoding followed by ``astype(dtype)``."""
        if dtype == self.dtype:
            return self
        step = Codec.make("cast", dtype=np.dtype(dtype).str)
        return _shared(self.filters, self.stored, (*self.steps, step), self.parameters)

    def extend(self, steps: Sequence[Codec], parameters: Mapping[str, np.dtype[Any]]) -> Encoding:
        """The same encoding followed by `steps`, with further parameters of the given types."""
        return _extended(self, tuple(steps), tuple(parameters.items()))

    def __str__(self) -> str:
        filters = " > ".join(str(codec) for codec in self.filters) or "none"
        steps = " > ".join(str(codec) for codec in self.steps)
        return f"{self.stored.str} [{filters}]" + (f" > {steps}" if steps else "")


@lru_cache(maxsize=4096)
def _shared(
    filters: tuple[Codec, ...],
    stored: np.dtype[Any],
    steps: tuple[Codec, ...],
    parameters: np.dtype[Any] | None,
) -> Encoding:
    if parameters is None:
        return Encoding(filters, stored, steps)
    return Encoding(filters, stored, steps, parameters)


@lru_cache(maxsize=4096)
def _extended(
    encoding: Encoding, steps: tuple[Codec, ...], parameters: tuple[tuple[str, np.dtype[Any]], ...]
) -> Encoding:
    fields = [(name, encoding.parameters[name]) for name in encoding.parameters.names or ()]
    fields += [(name, np.dtype(dtype)) for name, dtype in parameters]
    chain = (*encoding.steps, *steps)
    return _shared(encoding.filters, encoding.stored, chain, np.dtype(fields))


@lru_cache(maxsize=4096)
def _decoded(stored: np.dtype[Any], steps: tuple[Codec, ...]) -> np.dtype[Any]:
    for step in reversed(steps):
        dtype = step.config.get("dtype")
        if dtype is not None:
            return np.dtype(dtype).newbyteorder("=")
    return stored.newbyteorder("=")


class Case(NamedTuple):
    """An encoding with the parameter rows that segments point into.

    Parameters
    ----------
    encoding
        The chain.
    rows
        Structured array of type ``encoding.parameters``, one row per distinct set of parameters.
    """

    encoding: Encoding
    rows: np.ndarray[Any, np.dtype[Any]]


def merge_cases(
    groups: Sequence[tuple[Case, ...]],
) -> tuple[tuple[Case, ...], list[list[tuple[int, int]]]]:
    """Unite the cases of several arrays.

    Returns
    -------
    cases
        The united cases. Equal encodings become one case whose rows are concatenated.
    places
        For each group, for each of its cases: (index of the united case, offset of its first row).
    """
    index: dict[Encoding, int] = {}
    rows: list[list[np.ndarray[Any, Any]]] = []
    lengths: list[int] = []
    places: list[list[tuple[int, int]]] = []
    known: dict[tuple[int, int], tuple[int, int]] = {}
    for group in groups:
        place: list[tuple[int, int]] = []
        for case in group:
            # the same rows, seen again (slices of one array joined anew), are not repeated
            key = (id(case.encoding), id(case.rows))
            found = known.get(key)
            if found is None:
                number = index.setdefault(case.encoding, len(index))
                if number == len(rows):
                    rows.append([])
                    lengths.append(0)
                found = known[key] = (number, lengths[number])
                rows[number].append(case.rows)
                lengths[number] += len(case.rows)
            place.append(found)
        places.append(place)
    cases = tuple(
        Case(encoding, _stacked(parts, encoding.parameters))
        for encoding, parts in zip(index, rows, strict=True)
    )
    return cases, places


def _stacked(parts: Sequence[np.ndarray[Any, Any]], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Rows one after the other; NumPy would promote the fields of each part anew."""
    if len(parts) == 1:
        return parts[0]
    return np.frombuffer(bytearray().join([part.tobytes() for part in parts]), dtype)


def unique_rows(rows: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Distinct parameter rows, compared byte for byte (NaN and -0.0 are values like others).

    Returns
    -------
    distinct, inverse
        ``distinct[inverse]`` is `rows` again.
    """
    packed = np.ascontiguousarray(rows).view(np.dtype((np.void, max(rows.dtype.itemsize, 1))))
    _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
    return rows[first], inverse.reshape(-1)
