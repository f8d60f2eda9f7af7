"""Plain summaries of opened sources: what combining has to know about each file, and no more.

A summary holds no array but small index coordinates, no xarray object and no open file. Equal parts
are interned by a `Summarizer`, so ten thousand files of one layout share one `VariableSummary` per
variable, and comparing them is comparing identities.

Attribute and packing values are frozen (see `intarsia.combine.frozen`): hashable, and compared bit
for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from intarsia.combine.frozen import Content, freeze
from intarsia.encoding import Codec

__all__ = ["Packing", "SourceSummary", "Summarizer", "VariableSummary"]


class Packing(NamedTuple):
    """How a variable's numbers were packed, as decoding found it (every member frozen)."""

    scale: Hashable = None
    offset: Hashable = None
    fills: tuple[Hashable, ...] = ()
    unsigned: Hashable = None


class VariableSummary(NamedTuple):
    """One variable of one source, decoded, as combining sees it. Made by `Summarizer.variable`.

    Parameters
    ----------
    dims, shape, dtype
        Of the decoded variable, in native byte order.
    attrs
        ``(name, frozen value)`` pairs of the attributes left after decoding, sorted by name.
    is_coordinate, is_index
        Whether it is a coordinate, and whether an index is built from it.
    stored
        Type of the elements in the file, byte order included, or None where they are not known.
    filters
        The bytes -> bytes filters in the order of the writer: codecs, or strings.
    chunks
        Chunk shape, or None.
    layout
        ``"chunked"``, ``"contiguous"``, ``"compact"``, ``"external"``, ``"unwritten"`` (no storage
        was allocated), or None.
    skipped_filters
        Whether some chunk skips some filter (HDF5's filter mask).
    padded
        Whether the dataset is shorter than its unlimited dimension.
    packing
        See `Packing`; what decoding used, not what is left in `attrs`.
    raw_fill
        Frozen stored value of elements that were never written.
    units, calendar
        Those that decoding of times used (xarray: ``Variable.encoding``), else None.
    grid_mapping
        The ``grid_mapping`` attribute, wherever decoding left it.
    meanings
        Numbers and names of an enumeration, sorted; None where the file names none.
    content
        Values of a small index coordinate, or a digest of a static variable, else None.
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    units: str | None
    packing: Packing | None
    content: Content | None
    dtype: np.dtype[Any]
    attrs: tuple[tuple[str, Hashable], ...]
    is_coordinate: bool
    is_index: bool
    stored: np.dtype[Any] | None
    filters: tuple[Codec | str, ...]
    chunks: tuple[int, ...] | None
    layout: str | None
    skipped_filters: bool
    padded: bool
    raw_fill: Hashable
    calendar: str | None
    grid_mapping: str | None
    meanings: tuple[tuple[int, str], ...] | None

    @property
    def steady(self) -> Hashable:
        """All of it but what is often different in every file: shape, units, packing, content."""
        return self[0], self[5:]

    def attr(self, name: str) -> Hashable:
        """Get the frozen attribute `name`, or None."""
        for key, value in self.attrs:
            if key == name:
                return value
        return None


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """One opened source.

    Parameters
    ----------
    url
        Path or URL, as messages should name it.
    variables
        By name, in the order of the dataset.
    attrs
        Global attributes: ``(name, frozen value)`` pairs, sorted by name.
    sizes
        Length of each dimension, also of those no variable has.
    """

    url: str
    variables: Mapping[str, VariableSummary]
    attrs: tuple[tuple[str, Hashable], ...] = ()
    sizes: Mapping[str, int] | None = None

    def lengths(self) -> Mapping[str, int]:
        """Length of each dimension: `sizes`, or as the variables' shapes say."""
        if self.sizes is not None:
            return self.sizes
        return dict(_lengths(self.variables.values()))


class Summarizer:
    """Builds summaries, interning equal parts: one per open.

    Nothing in the arguments is an xarray object; attributes are mappings of what netCDF
    attributes hold.

    Examples
    --------
    >>> import numpy as np
    >>> make = Summarizer()
    >>> sst = make.variable(("time", "lat"), (31, 180), np.dtype("f4"), attrs={"units": "K"},
    ...                     stored=np.dtype("<i2"), filters=("shuffle", "zlib"), chunks=(1, 180),
    ...                     layout="chunked", scale=np.float64(0.01), fills=(np.int16(-999),))
    >>> lat = make.index("lat", np.linspace(-89.5, 89.5, 180), attrs={"units": "degrees_north"})
    >>> summary = make.source("2020-01.nc", {"sst": sst, "lat": lat}, attrs={"title": "SST"})
    """

    def __init__(self) -> None:
        self._parts: dict[Any, Any] = {}
        # by id of the array that the content keeps alive, so that no other can have that id
        self._contents: dict[int, Content] = {}
        self._known: dict[Hashable, VariableSummary] = {}
        self._once: dict[Hashable, Any] = {}

    def source(
        self,
        url: str,
        variables: Mapping[str, VariableSummary],
        *,
        attrs: Mapping[str, Any] | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> SourceSummary:
        """Summarise one source from the summaries of its variables."""
        frozen = self._attrs(attrs or {})
        return SourceSummary(url, variables, frozen, None if sizes is None else dict(sizes))

    def variable(
        self,
        dims: Iterable[str],
        shape: Iterable[int],
        dtype: np.dtype[Any],
        *,
        attrs: Mapping[str, Any] | None = None,
        is_coordinate: bool = False,
        is_index: bool = False,
        stored: np.dtype[Any] | None = None,
        filters: Iterable[Codec | str] = (),
        chunks: Iterable[int] | None = None,
        layout: str | None = None,
        skipped_filters: bool = False,
        padded: bool = False,
        scale: Any = None,
        offset: Any = None,
        fills: Iterable[Any] = (),
        unsigned: Any = None,
        raw_fill: Any = None,
        units: str | None = None,
        calendar: str | None = None,
        grid_mapping: str | None = None,
        meanings: Iterable[tuple[int, str]] | None = None,
        values: np.ndarray[Any, Any] | None = None,
        digest: Hashable = None,
    ) -> VariableSummary:
        """Summarise one variable. Only `dims`, `shape` and `dtype` have to be known.

        Parameters
        ----------
        dims, shape, dtype, is_coordinate, is_index, stored, filters, chunks, layout
        skipped_filters, padded, units, calendar
            See `VariableSummary`.
        attrs
            Attributes left after decoding.
        scale, offset, fills, unsigned, raw_fill
            What decoding used, as typed NumPy scalars (``unsigned`` as the attribute has it); None
            or empty where there is none.
        grid_mapping
            By default ``attrs["grid_mapping"]``.
        meanings
            ``(number, name)`` pairs of an enumeration.
        values
            Values of a small index coordinate, kept by reference. Not copied, not changed.
        digest
            Instead of `values`: anything hashable that tells different values apart.

        Returns
        -------
        VariableSummary
            The same object for equal arguments.
        """
        attrs = attrs or {}
        if grid_mapping is None:
            name = attrs.get("grid_mapping")
            grid_mapping = name if isinstance(name, str) else None
        fills = tuple(freeze(fill) for fill in fills)
        packing = None
        if scale is not None or offset is not None or fills or unsigned is not None:
            packing = Packing(freeze(scale), freeze(offset), fills, freeze(unsigned))
        content = None
        if values is not None:
            content = self._content(values)
        elif digest is not None:
            content = Content(digest)
        summary = VariableSummary(
            dims=tuple(dims),
            shape=tuple(shape),
            units=units,
            packing=packing,
            content=content,
            dtype=dtype,
            attrs=self._attrs(attrs),
            is_coordinate=is_coordinate,
            is_index=is_index,
            stored=stored,
            filters=tuple(filters),
            chunks=None if chunks is None else tuple(chunks),
            layout=layout,
            skipped_filters=skipped_filters,
            padded=padded,
            raw_fill=freeze(raw_fill),
            calendar=calendar,
            grid_mapping=grid_mapping,
            meanings=None if meanings is None else tuple(sorted(meanings)),
        )
        return self._parts.setdefault(summary, summary)

    def known(
        self,
        key: Hashable,
        build: Callable[[], VariableSummary],
        values: np.ndarray[Any, Any] | None = None,
    ) -> VariableSummary:
        """Summarise variables that are alike once.

        Parameters
        ----------
        key
            Tells what differs between variables, but for `values`; cheaper than a summary.
        build
            Calls `variable`, without values, where the key is new.
        values
            As for `variable`.

        Returns
        -------
        VariableSummary
            The same object for equal arguments.
        """
        summary = self._known.get(key)
        if summary is None:
            summary = self._known[key] = build()
        if values is None:
            return summary
        summary = summary._replace(content=self._content(values))
        return self._parts.setdefault(summary, summary)

    def once[T](self, key: Hashable, find: Callable[[], T]) -> T:
        """Find something out once.

        Parameters
        ----------
        key
            What it depends on: identities of objects that live, unchanged, as long as this is used.
        find
            Called where the key is new.
        """
        found = self._once.get(key)
        if found is None:
            found = self._once[key] = find()
        return found

    def index(
        self, name: str, values: np.ndarray[Any, Any], *, dim: str | None = None, **options: Any
    ) -> VariableSummary:
        """Summarise a one-dimensional index coordinate from its values.

        Parameters
        ----------
        name
            Its name, by default also that of its dimension.
        values
            One-dimensional.
        dim
            The dimension, where it has another name.
        **options
            As for `variable`.
        """
        return self.variable(
            (dim or name,),
            values.shape,
            values.dtype,
            is_coordinate=True,
            is_index=True,
            values=values,
            **options,
        )

    def intern(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Get the first array seen whose type, shape and bits are those of `values`.

        Coordinates that are the same object are compared by xarray without looking at them.
        """
        kept = self._content(values).values
        return values if kept is None else kept

    def _content(self, values: np.ndarray[Any, Any]) -> Content:
        known = self._contents.get(id(values))
        if known is not None:
            return known
        content = Content.of(values)
        content = self._parts.setdefault(content, content)
        if content.values is values:
            self._contents[id(values)] = content
        return content

    def _attrs(self, attrs: Mapping[str, Any]) -> tuple[tuple[str, Hashable], ...]:
        if not attrs:
            return ()
        frozen = tuple(sorted([(name, freeze(value)) for name, value in attrs.items()], key=_name))
        return self._parts.setdefault(frozen, frozen)


_name = itemgetter(0)


def _lengths(variables: Iterable[VariableSummary]) -> Iterator[tuple[str, int]]:
    for variable in variables:
        yield from zip(variable.dims, variable.shape, strict=True)
