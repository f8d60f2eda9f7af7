"""A report derived from what virtual arrays are made of, after any operations on them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from intarsia.combine.difference import SHOWN, Difference
from intarsia.combine.frozen import freeze
from intarsia.combine.report import Report
from intarsia.combine.stored import (
    filter_keys,
    plain,
    show_filters,
    show_filters_long,
    show_numbers,
    show_scale_offset,
    show_scale_offset_long,
    show_types,
)
from intarsia.combine.table import TABLE
from intarsia.encoding import RAW_FILL, Encoding, unique_rows

__all__ = ["Part", "report_from_parts"]


class Part(NamedTuple):
    """The pieces of one variable that share an encoding.

    Parameters
    ----------
    variable
        Its name.
    encoding
        How the pieces are decoded.
    parameters
        Structured array of type ``encoding.parameters``, shape (n,): a row for each piece.
    urls
        Name of the source of each piece. Indexed only as far as needed for examples and counts.
    chunks
        Chunk shape of each piece, shape (n, ndim) or (1, ndim); None for pieces without chunks.
    holes
        Whether each piece has chunks that were never written, shape (n,); None for no piece. Only
        then does it matter what stands in their place.
    """

    variable: str
    encoding: Encoding
    parameters: np.ndarray[Any, Any]
    urls: Sequence[str]
    chunks: np.ndarray[Any, Any] | None = None
    holes: np.ndarray[Any, Any] | None = None


def report_from_parts(
    parts: Iterable[Part], *, notes: Mapping[str, Iterable[str]] | None = None
) -> Report:
    """Tell what differs between the pieces of virtual arrays.

    Parameters
    ----------
    parts
        Of all variables, in any order; pieces without a source have ``""`` for it.
    notes
        The arrays' notes by variable.

    Returns
    -------
    Report
        Differences of codecs, checksums, chunks, byte order, packing, fills and types among the
        pieces that are there.
    """
    variables: dict[str, list[Part]] = {}
    for part in parts:
        if len(part.parameters):
            variables.setdefault(part.variable, []).append(part)
    found = [
        difference
        for name, members in variables.items()
        for difference in _Pieces(name, members).differences()
    ]
    places = {kind: place for place, kind in enumerate(TABLE)}
    found.sort(key=lambda difference: places[difference.kind])
    urls = {url for members in variables.values() for part in members for url in part.urls}
    kept = {name: tuple(lines) for name, lines in (notes or {}).items()}
    return Report(len(urls - {""}), tuple(found), (), kept)


class _Pieces:
    """The pieces of one variable, numbered through its parts."""

    def __init__(self, name: str, parts: list[Part]) -> None:
        self.name = name
        self.parts = parts
        self.starts = np.cumsum([0, *(len(part.parameters) for part in parts)])
        self.distinct = [unique_rows(part.parameters) for part in parts]

    def differences(self) -> Iterator[Difference]:
        """Find all of them."""
        yield from self._by_encoding("codec", _codec, show_filters, show_filters_long)
        yield from self._by_encoding("checksum", _checksum, str)
        yield from self._by_encoding("byte-order", _byte_order, str)
        yield from self._by_encoding("stored-dtype", _stored, str)
        yield from self._by_encoding("dtype", _decoded, str)
        yield from self._raw_fills()
        yield from self._by_row(
            "scale-offset", _scale_offset, show_scale_offset, show_scale_offset_long
        )
        yield from self._by_row("fill", _fills, show_numbers)
        yield from self._by_encoding("packing-types", _types, show_types)
        yield from self._chunks()

    def url(self, piece: int) -> str:
        """Name of the source of a piece."""
        number = int(np.searchsorted(self.starts, piece, side="right")) - 1
        return self.parts[number].urls[piece - int(self.starts[number])]

    def _by_encoding(
        self,
        kind: str,
        key: Callable[[Encoding], Hashable],
        show: Callable[[Any], str],
        long: Callable[[Any], str] | None = None,
    ) -> Iterator[Difference]:
        groups: dict[Hashable, list[np.ndarray[Any, Any]]] = {}
        for number, part in enumerate(self.parts):
            value = key(part.encoding)
            if value is not None:
                groups.setdefault(value, []).append(self._pieces_of(number))
        yield from self._found(kind, groups, show, long)

    def _by_row(
        self,
        kind: str,
        key: Callable[[Encoding, Mapping[str, Any]], Hashable],
        show: Callable[[Any], str],
        long: Callable[[Any], str] | None = None,
    ) -> Iterator[Difference]:
        groups: dict[Hashable, list[np.ndarray[Any, Any]]] = {}
        for number, part in enumerate(self.parts):
            rows, inverse = self.distinct[number]
            names = part.encoding.parameters.names or ()
            order = np.argsort(inverse, kind="stable")
            ends = np.cumsum(np.bincount(inverse, minlength=len(rows)))
            for place, members in enumerate(np.split(order, ends[:-1])):
                row = {name: rows[name][place] for name in names}
                value = key(part.encoding, row)
                groups.setdefault(value, []).append(members + int(self.starts[number]))
        yield from self._found(kind, groups, show, long)

    def _raw_fills(self) -> Iterator[Difference]:
        groups: dict[Hashable, list[np.ndarray[Any, Any]]] = {}
        for number, part in enumerate(self.parts):
            if part.holes is not None and part.holes.any():
                pieces: np.ndarray[Any, Any] = np.flatnonzero(part.holes)
                fills = part.parameters[RAW_FILL][pieces]
                raw = np.ascontiguousarray(fills).view(np.dtype((np.void, fills.itemsize)))
                _, first, inverse = np.unique(raw, return_index=True, return_inverse=True)
                for place, at in enumerate(first.tolist()):
                    members = pieces[inverse.reshape(-1) == place] + int(self.starts[number])
                    groups.setdefault(plain(freeze(fills[at])), []).append(members)
        yield from self._found("raw-fill", groups, str, None)

    def _chunks(self) -> Iterator[Difference]:
        groups: dict[Hashable, list[np.ndarray[Any, Any]]] = {}
        for number, part in enumerate(self.parts):
            if part.chunks is None:
                continue
            shapes = np.broadcast_to(part.chunks, (len(part.parameters), part.chunks.shape[1]))
            distinct, inverse = np.unique(shapes, axis=0, return_inverse=True)
            for place, shape in enumerate(distinct.tolist()):
                members = np.flatnonzero(inverse.reshape(-1) == place) + int(self.starts[number])
                groups.setdefault(tuple(shape), []).append(members)
        yield from self._found("chunks", groups, str, None)

    def _pieces_of(self, number: int) -> np.ndarray[Any, Any]:
        pieces: np.ndarray[Any, Any] = np.arange(
            int(self.starts[number]), int(self.starts[number + 1])
        )
        return pieces

    def _found(
        self,
        kind: str,
        groups: Mapping[Hashable, list[np.ndarray[Any, Any]]],
        show: Callable[[Any], str],
        long: Callable[[Any], str] | None,
    ) -> Iterator[Difference]:
        """Count sources for as many values as are shown; the others are only counted."""
        if len(groups) < 2:
            return
        firsts = {value: min(int(some.min()) for some in found) for value, found in groups.items()}
        counted = [
            (value, firsts[value], self._sources(groups[value]) if place < SHOWN else 0)
            for place, value in enumerate(sorted(firsts, key=firsts.__getitem__))
        ]
        yield Difference.found(kind, self.name, counted, self.url, show, long)

    def _sources(self, found: list[np.ndarray[Any, Any]]) -> int:
        return len({self.url(int(piece)) for some in found for piece in some})


def _codec(encoding: Encoding) -> Hashable:
    return tuple(key for key in filter_keys(encoding.filters) if key[0] != "fletcher32")


def _checksum(encoding: Encoding) -> Hashable:
    has = any(name == "fletcher32" for name, _ in filter_keys(encoding.filters))
    return "checksums" if has else "none"


def _byte_order(encoding: Encoding) -> Hashable:
    return {"<": "little-endian", ">": "big-endian"}.get(encoding.stored.str[0])


def _stored(encoding: Encoding) -> Hashable:
    return encoding.stored.newbyteorder("=").name


def _decoded(encoding: Encoding) -> Hashable:
    """Tell the type of a file's own values: before the cast that joins them with others'."""
    steps, stored = encoding.steps, encoding.stored
    if not steps or steps[-1].name != "cast":
        return encoding.dtype.name
    cast = encoding.dtype
    signs = cast.itemsize == stored.itemsize and {cast.kind, stored.kind} == {"i", "u"}
    if len(steps) == 1 and (signs or cast.kind == "b"):
        return cast.name  # that is decoding: _Unsigned, or a bool
    return Encoding(encoding.filters, stored, steps[:-1], encoding.parameters).dtype.name


def _scale_offset(encoding: Encoding, row: Mapping[str, Any]) -> Hashable:
    return plain(freeze(row.get("scale"))), plain(freeze(row.get("offset")))


def _fills(encoding: Encoding, row: Mapping[str, Any]) -> Hashable:
    return tuple(plain(freeze(value)) for name, value in row.items() if name.startswith("fill_"))


def _types(encoding: Encoding) -> Hashable:
    fields = encoding.parameters.fields or {}
    types = tuple(
        fields[name][0].newbyteorder("=").name if name in fields else None
        for name in ("scale", "offset")
    )
    return None if types == (None, None) else types
