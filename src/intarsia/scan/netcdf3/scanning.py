"""Scanning netCDF3 (CDF-1, CDF-2, CDF-5): no more than the header is read.

A variable without the record dimension is one run of bytes. Those that have it lie interleaved: a
record holds one slab of each of them, padded to 4 bytes; where there is only one such variable,
its slabs are not padded. Sizes are computed from the shapes: the header's own are too narrow for
large variables, and writers differ in them.

Variables and attributes are as xarray's scipy store gives them, or for CDF-5, which SciPy can't
read, its netCDF4 store, with two differences: names are UTF-8 (SciPy takes each byte for a letter),
and a byte-sized variable that has the records for itself can be read whoever wrote it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.array import VirtualArray
from intarsia.encoding import Encoding
from intarsia.errors import CorruptFile, FormatError, IntarsiaError, UnsupportedError
from intarsia.grid import grid_shape, strides_of, strip_shape
from intarsia.io.files import File, opened_file
from intarsia.io.paths import place_of
from intarsia.references import References, Sources
from intarsia.scan.netcdf3.header import AGAIN, Attribute, Header, Variable, read_header
from intarsia.scan.protocol import Scanned, ScannedVariable

__all__ = ["scan", "scan_groups"]

MAX_DIMS = 32
"""Of a variable; no one has more."""

MAX_CHUNKS = 1 << 27
"""Slabs, or parts of them, that the variables may lie in together: each takes memory."""


def scan(
    path: str | os.PathLike[str] | File,
    *,
    group: str | None = None,
    phony_dims: str | None = None,
    drop_variables: str | Iterable[str] = (),
    choices: str = "",
) -> Scanned:
    """Scan a netCDF3 file.

    Parameters
    ----------
    path
        Of the file, or the file, open.
    group
        The root, as there are no others.
    phony_dims
        Is for HDF5: refused.
    drop_variables
        Name, or names, of variables to leave out; whether their data are there is not looked at.
    choices
        What will be done with the file, to be kept with each source (see `Source.scan`).

    Returns
    -------
    Scanned
        Variables, dimensions and attributes as xarray's store gives them before decoding.

    Raises
    ------
    SourceError
        The file can't be had.
    FormatError
        It is not netCDF3, or broken, or cut short, or a group is asked for.
    UnsupportedError
        It has more of something than we take.

    Examples
    --------
    >>> scan("sst.nc").variables["sst"].dims  # doctest: +SKIP
    ('time', 'lat', 'lon')
    """
    dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables)
    if isinstance(path, str | os.PathLike):
        context = opened_file(place_of(path))
    else:
        context = nullcontext(path)
    with context as file:
        url = file.source.url
        try:
            if phony_dims is not None:
                raise UnsupportedError("phony_dims= is for HDF5 files, and this is netCDF3")
            names = [name for name in (group or "").split("/") if name]
            if names:
                raise FormatError(f"the file has no group {'/' + '/'.join(names)!r}: it is netCDF3")
            header = read_header(file)
            sources = Sources.of([file.source._replace(scan=choices)])
            return _scanned(header, sources, dropped)
        except IntarsiaError as error:
            raise error.located(url=url) from error.__cause__


def scan_groups(
    path: str | os.PathLike[str] | File,
    *,
    group: str | None = None,
    phony_dims: str | None = None,
    drop_variables: str | Iterable[str] = (),
    choices: Callable[[str], str] = lambda _: "",
) -> dict[str, Scanned]:
    """Scan a netCDF3 file as the one group that it is; see `scan`."""
    told: dict[str, Any] = {"group": group, "phony_dims": phony_dims}
    return {"/": scan(path, drop_variables=drop_variables, choices=choices("/"), **told)}


class _Placed(NamedTuple):
    """Where a variable lies.

    Parameters
    ----------
    variable
        Which.
    shape
        Of the whole, records included.
    slab
        Bytes of a record's part of it, or of all of it where it has no records.
    is_record
        Whether it lies in records.
    """

    variable: Variable
    shape: tuple[int, ...]
    slab: int
    is_record: bool

    @property
    def empty(self) -> bool:
        return 0 in self.shape

    def is_one_run(self, step: int) -> bool:
        """Whether its bytes follow each other, where records are so far apart."""
        return not self.is_record or step == self.slab or self.shape[0] == 1

    def pieces(self, step: int) -> int:
        """How many references it takes."""
        if self.empty or self.is_one_run(step):
            return 1
        inner = self.shape[1:]
        strip = strip_shape(inner, self.variable.dtype.itemsize)
        return self.shape[0] * prod(grid_shape(inner, strip))

    def end(self, step: int) -> int:
        """Offset after the last of its bytes, where records are so far apart."""
        more = (self.shape[0] - 1) * step if self.is_record else 0
        return self.variable.begin + more + self.slab


def _scanned(header: Header, sources: Sources, dropped: set[str]) -> Scanned:
    unlimited = [number for number, dim in enumerate(header.dimensions) if dim.length == 0]
    if len(unlimited) > 1 and header.records:
        raise CorruptFile("the header is broken: more than one dimension is that of the records")
    size = int(sources.sizes[0])
    if header.records is None:
        header = _counted(header, size)
    placed = [_placed(header, variable) for variable in header.variables]
    step = _record_step(placed)
    _check_places(placed, step, header.nbytes)
    variables: dict[str, ScannedVariable] = {}
    pieces = 0
    for one in placed:
        name = one.variable.name
        if name in dropped:
            continue
        if not one.empty and one.end(step) > size:
            reason = f"the file is cut short: it has {size} of at least {one.end(step)} bytes"
            raise CorruptFile(reason, array=name, remedy=AGAIN)
        pieces += one.pieces(step)
        if pieces > MAX_CHUNKS:
            reason = f"the variables up to this lie in more than {MAX_CHUNKS} pieces"
            raise UnsupportedError(reason, array=name, remedy="drop some with drop_variables=")
        variables[name] = ScannedVariable(
            tuple(header.dimensions[number].name for number in one.variable.dims),
            _array(sources, one, step),
            _attributes(one.variable.attributes, header.version, one.variable.dtype),
            {},
            native=True,
        )
    return Scanned(
        sources,
        variables,
        _attributes(header.attributes, header.version, None),
        {dim.name: dim.length or header.records or 0 for dim in header.dimensions},
        frozenset(header.dimensions[number].name for number in unlimited),
        "/",
    )


# -- where the bytes are -------------------------------------------------------------------------


def _counted(header: Header, size: int) -> Header:
    """The header of a file whose writer streamed, and never said how many records there are.

    There are as many as fill the file; the padding behind the last one may be lacking. The header
    is written for that, but SciPy takes it for none, and netCDF-C for billions.
    """
    placed = [_placed(header, variable) for variable in header.variables]
    records = [one for one in placed if one.is_record]
    step = _record_step(placed)
    if not step:  # no variable has any bytes that could be counted
        return replace(header, records=0)
    end = records[-1].slab
    if len(records) > 1:
        end += sum(_padded(one.slab) for one in records[:-1])
    count, rest = divmod(max(size - records[0].variable.begin, 0), step)
    if rest >= end:
        return replace(header, records=count + 1)
    if rest:
        reason = f"the file is cut short within record {count + 1}: it has {size} bytes"
        raise CorruptFile(reason, array=records[0].variable.name, remedy=AGAIN)
    return replace(header, records=count)


def _placed(header: Header, variable: Variable) -> _Placed:
    lengths = [header.dimensions[number].length for number in variable.dims]
    if len(lengths) > MAX_DIMS:
        reason = f"it has {len(lengths)} dimensions, and more than {MAX_DIMS} are not supported"
        raise UnsupportedError(reason, array=variable.name)
    if 0 in lengths[1:]:
        reason = "the header is broken: the dimension of the records is not the variable's first"
        raise CorruptFile(reason, array=variable.name, remedy=AGAIN)
    is_record = bool(lengths) and lengths[0] == 0
    inner = lengths[1:] if is_record else lengths
    shape = (header.records or 0, *inner) if is_record else tuple(inner)
    slab = prod(inner) * variable.dtype.itemsize
    if prod(max(length, 1) for length in shape) * variable.dtype.itemsize >= 1 << 63:
        reason = f"the header is broken: no file can hold an array of the shape {shape}"
        raise CorruptFile(reason, array=variable.name, remedy=AGAIN)
    return _Placed(variable, shape, slab, is_record)


def _record_step(placed: list[_Placed]) -> int:
    """Bytes from one record to the next."""
    records = [one for one in placed if one.is_record]
    if len(records) == 1:
        return records[0].slab
    return sum(_padded(one.slab) for one in records)


def _padded(nbytes: int) -> int:
    return -(-nbytes // 4) * 4


def _check_places(placed: list[_Placed], step: int, header_nbytes: int) -> None:
    """Refuse data that lie within the header or each other, and records of another order."""
    extents: list[tuple[int, int, str]] = []
    first: _Placed | None = None
    expected = 0
    for one in placed:
        variable = one.variable
        if one.empty:
            continue
        if not one.is_record:
            extents.append((variable.begin, one.end(step), variable.name))
            continue
        if first is None:
            first, expected = one, variable.begin
            extents.append((expected, expected + one.shape[0] * step, variable.name))
        if variable.begin != expected:
            reason = "the header is broken: the variables of a record do not lie side by side"
            raise CorruptFile(reason, array=variable.name, remedy=AGAIN)
        expected += _padded(one.slab)
    end, before = header_nbytes, ""
    for begin, after, name in sorted(extents):
        if begin < end:
            other = f"data of {before!r}" if before else "header"
            reason = f"the header is broken: the data begin within the {other}"
            raise CorruptFile(reason, array=name, remedy=AGAIN)
        end, before = after, name


# -- making arrays -------------------------------------------------------------------------------


def _array(sources: Sources, one: _Placed, step: int) -> VirtualArray:
    encoding = Encoding.shared((), one.variable.dtype)
    row = np.zeros((), encoding.parameters)
    name, begin = one.variable.name, one.variable.begin

    def make(shape: tuple[int, ...], chunks: tuple[int, ...], refs: References) -> VirtualArray:
        return VirtualArray.from_source(sources, 0, shape, chunks, encoding, row, refs, name=name)

    if one.empty:
        return make(one.shape, tuple(max(size, 1) for size in one.shape), References.missing())
    itemsize = encoding.stored.itemsize
    if one.is_one_run(step):
        nbytes = prod(one.shape) * itemsize
        strips = strip_shape(one.shape, itemsize)
        return make(one.shape, strips, References.contiguous(begin, nbytes))
    records, *inner = one.shape
    offsets = begin + np.arange(records, dtype=np.int64) * step
    strip = strip_shape(inner, itemsize)
    parts = [
        make((records, *part), (1, *chunk), _slabs(offsets, inner, start, part, chunk, itemsize))
        for start, part, chunk in _even(inner, strip)
    ]
    if len(parts) == 1:
        return parts[0]
    axis = next(axis for axis, size in enumerate(inner) if size != parts[0].shape[axis + 1])
    joined: Any = np.concatenate(parts, axis=axis + 1)
    return joined


type _Shape = tuple[int, ...]


def _even(shape: list[int], strip: _Shape) -> list[tuple[_Shape, _Shape, _Shape]]:
    """The parts of a slab whose strips are all as long: (first index, shape, strip) of each."""
    whole = tuple(shape)
    origin = (0,) * len(shape)
    for axis, (size, length) in enumerate(zip(shape, strip, strict=True)):
        rest = size % length
        if rest:
            before, after = whole[:axis], whole[axis + 1 :]
            start = (*origin[:axis], size - rest, *origin[axis + 1 :])
            short = (*strip[:axis], rest, *strip[axis + 1 :])
            return [
                (origin, (*before, size - rest, *after), strip),
                (start, (*before, rest, *after), short),
            ]
    return [(origin, whole, strip)]


def _slabs(
    records: npt.NDArray[np.int64],
    shape: list[int],
    start: _Shape,
    part: _Shape,
    strip: _Shape,
    itemsize: int,
) -> References:
    """References to the strips of a part of each record's slab.

    Parameters
    ----------
    records
        Where each record's slab begins.
    shape
        Of a slab.
    start, part, strip
        First index of the part, its shape, and that of its strips.
    itemsize
        Bytes of an element.
    """
    offsets = records
    strides = strides_of(shape)
    for axis, count in enumerate(grid_shape(part, strip)):
        index = start[axis] + np.arange(count, dtype=np.int64) * strip[axis]
        offsets = np.add.outer(offsets, index * strides[axis] * itemsize)
    offsets = offsets.reshape(-1)
    lengths = np.broadcast_to(np.uint64(prod(strip) * itemsize), offsets.shape)
    return References.dense(offsets, lengths)


# -- attributes ----------------------------------------------------------------------------------


def _attributes(
    attributes: dict[str, Attribute], version: int, dtype: np.dtype[Any] | None
) -> dict[str, Any]:
    """The attributes of the file, or of a variable of that type, as xarray's store gives them."""
    if version != 5:
        return {name: _as_scipy(name, found) for name, found in attributes.items()}
    values = {name: _as_netcdf4(found) for name, found in attributes.items()}
    if dtype is not None:
        values.pop("least_significant_digit", None)  # a detail of writing, for that store
        if dtype.kind == "S" and "_FillValue" in values:
            values["_FillValue"] = np.bytes_(attributes["_FillValue"].data)
    return values


def _as_scipy(name: str, attribute: Attribute) -> Any:
    """Numbers as they are stored, alone where there is one; a fill of characters stays bytes."""
    if attribute.dtype.kind != "S":
        return _numbers(attribute)
    text = attribute.data.rstrip(b"\0")
    return text if name == "_FillValue" else text.decode("utf-8", "replace")


def _as_netcdf4(attribute: Attribute) -> Any:
    """Numbers in native byte order, and text without its nulls."""
    if attribute.dtype.kind == "S":
        return attribute.data.decode("utf-8", "replace").replace("\0", "")
    values = _numbers(attribute)
    return values.astype(attribute.dtype.newbyteorder("=")) if np.ndim(values) else values


def _numbers(attribute: Attribute) -> Any:
    values = np.frombuffer(attribute.data, attribute.dtype).copy()
    return values[0] if values.size == 1 else values
