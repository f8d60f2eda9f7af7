"""The fallback decoder: the HDF5 library itself, for filters and datatypes that only it knows.

A chunk is put as it is into the one chunk of a dataset in memory that has the creation properties
of the dataset it comes from, and read back from there. That serves szip, lzf, scaleoffset, nbit,
integers and floats of odd precision, and plug-in filters that are not in `intarsia.codecs.plugins`
(blosc2, zfp, sz, ...). It is slower than `intarsia.codecs.filters` (20 to 60 microseconds per
chunk), and one thread at a time decodes, for the HDF5 library has one lock.

The library trusts a chunk to decode to the length it should have: where a corrupt one does not, it
returns whatever the memory held, or crashes. So filters at the end of a pipeline that need no
library are undone here, which is strict, what the library's own filters are given is measured
first, and what plug-ins return is measured after. That keeps wrong values out. It does not keep a
plug-in from crashing on broken chunks or parameters, as it would with any reader: zfp, sz, sz3,
sperr and snappy do, which is why stores have no cases with them.

`hdf5_codec` makes the codec that stands for the whole pipeline of a dataset. Its configuration:

``pipeline``
    ``(id, flags, cd_values, name)`` of each filter, in the order of writing.
``datatype``
    The datatype in HDF5's own encoding (``H5Tencode``), in hexadecimal.
``chunk_shape``
    Shape of the dataset's chunks.
``fill``
    The fill value's bytes in hexadecimal, where a filter depends on it (scaleoffset), else None.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import threading
from collections.abc import Buffer, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5i, h5s, h5t  # pyright: ignore[reportAttributeAccessIssue]

from intarsia.codecs.filters import undo
from intarsia.codecs.hdf5_filters import (
    FLETCHER32,
    LZF,
    NBIT,
    SCALEOFFSET,
    SHUFFLE,
    SZIP,
    Filter,
    filter_name,
    native_codec,
    remedy_for,
    unavailable,
)
from intarsia.codecs.hdf5_memory import one_chunk
from intarsia.codecs.lzf import lzf_length, unlzf
from intarsia.encoding import Codec
from intarsia.errors import CorruptChunk, UnsupportedVariable, WrongLength
from intarsia.forks import after_fork

__all__ = ["decode", "hdf5_codec", "prepare"]

LARGE, MAX_RATIO = 1 << 27, 4096
"""Chunks of more bytes than the first are not compressed more than the second."""
_GROWN = 64 << 20
"""Size in bytes past which the file in memory is made anew."""


def hdf5_codec(
    pipeline: Sequence[Filter],
    datatype: bytes,
    chunk_shape: Sequence[int],
    fill: bytes | None = None,
) -> Codec:
    """Make the codec of a whole pipeline; see the module for its configuration."""
    depends = any(number == SCALEOFFSET for number, _, _, _ in pipeline)
    return Codec.make(
        "hdf5",
        pipeline=tuple(pipeline),
        datatype=datatype.hex(),
        chunk_shape=tuple(chunk_shape),
        fill=fill.hex() if depends and fill is not None else None,
    )


def prepare(codec: Codec) -> None:
    """Raise `UnsupportedVariable` where the library at hand can't decode what `codec` says."""
    _decoder(codec)


def decode(
    codec: Codec,
    chunk: Buffer,
    filter_mask: int,
    dtype: npt.DTypeLike,
    chunk_shape: Sequence[int] | None = None,
) -> npt.NDArray[Any]:
    """Decode one chunk with the HDF5 library.

    Parameters
    ----------
    codec
        From `hdf5_codec`.
    chunk
        The stored bytes.
    filter_mask
        HDF5's own: bit ``i`` says that filter ``i`` of the pipeline was skipped.
    dtype
        Type of the values wanted, byte order included. The library converts where the stored
        type differs, as it does for integers of odd precision.
    chunk_shape
        Shape of the result; by default the codec's.

    Raises
    ------
    CorruptChunk
        A filter fails on the bytes.
    ChecksumMismatch
        The pipeline ends with fletcher32, and the checksum is wrong.
    WrongLength
        The chunk decodes to another number of bytes.
    UnsupportedVariable
        The library lacks a filter.
    """
    decoder = _decoder(codec)
    shape = decoder.shape if chunk_shape is None else tuple(chunk_shape)
    out = decoder.decode(chunk, filter_mask, np.dtype(dtype))
    return out if shape == decoder.shape else out.reshape(shape)


class _Decoder:
    """Files in memory, with a dataset of one chunk, for each set of filters to be undone."""

    def __init__(self, codec: Codec) -> None:
        config = codec.config
        self.shape: tuple[int, ...] = config["chunk_shape"]
        self._type = h5t.decode(bytes.fromhex(config["datatype"]))
        pipeline: tuple[Filter, ...] = config["pipeline"]
        self._pipeline = pipeline
        _require_lengths(pipeline)
        self._native = [native_codec(entry, self._type.get_size()) for entry in pipeline]
        self._lock = threading.Lock()
        # filters at the end that need no library are always undone without it
        left = 0
        for index, native in enumerate(self._native):
            if native is None and (pipeline[index][0] != LZF or self._known_before(index, 0)):
                left = index + 1
        self._inner = pipeline[:left]
        missing = unavailable(self._inner)
        if missing:
            names = ", ".join(filter_name(number, name) for number, _, _, name in missing)
            raise UnsupportedVariable(
                f"the HDF5 library lacks the filter {names}", remedy=remedy_for(missing)
            )
        self._nbytes = self._type.get_size() * prod(self.shape)
        self._origin = (0,) * len(self.shape)
        self._fill: str | None = config["fill"]
        self._mtypes: dict[np.dtype[Any], Any] = {}
        self._datasets: dict[int, Any] = {}
        self._count = 0
        self._verify()

    def _dataset(self, filter_mask: int) -> Any:
        """Make the dataset that lacks the filters in `filter_mask`.

        A mask could be given with the chunk instead, but HDF5 2.0 reads a chunk that was just
        written as if it had none.
        """
        filter_mask &= (1 << len(self._inner)) - 1
        dataset = self._datasets.get(filter_mask)
        if dataset is None:
            filters = [f for i, f in enumerate(self._inner) if not filter_mask >> i & 1]
            fill = None
            if self._fill is not None:
                fill = np.frombuffer(bytes.fromhex(self._fill), self._type.dtype)[:1].reshape(())
            dataset = one_chunk(self._type, self.shape, filters, fill, self._nbytes)
            self._datasets[filter_mask] = dataset
        return dataset

    def _verify(self) -> None:
        """Refuse where the library derived other filter parameters than the file has.

        Filters derive parameters when a dataset is created, from the datatype, the chunk shape and
        the fill value. An undefined fill value, for one, can't be asked for through h5py. Plug-in
        filters have those of the file.
        """
        try:
            creation = self._dataset(0).get_create_plist()
        except (OSError, RuntimeError, ValueError) as error:
            names = ", ".join(filter_name(number, name) for number, _, _, name in self._inner)
            raise UnsupportedVariable(
                f"the HDF5 library can't make a dataset with the filters {names} ({error})"
            ) from error
        ours = creation.get_nfilters() - len(self._inner)  # before those of the file
        for index, (number, _, values, name) in enumerate(self._inner):
            derived = tuple(creation.get_filter(ours + index)[2])
            if derived != values:
                raise UnsupportedVariable(
                    f"the HDF5 library does not reproduce the parameters of the filter "
                    f"{filter_name(number, name)} ({derived}, the file has {values})"
                )

    def decode(self, chunk: Buffer, filter_mask: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        chunk, filter_mask, last = self._peel(chunk, filter_mask)
        self._measure(memoryview(chunk).cast("B"), filter_mask, last)
        out = np.empty(self.shape, dtype)  # there is room for it only now
        with self._lock:
            try:
                dataset = self._dataset(filter_mask)
                dataset.write_direct_chunk(self._origin, chunk)
                dataset.read(h5s.ALL, h5s.ALL, out, self._mtype(out.dtype))
            except (OSError, RuntimeError, ValueError) as error:
                raise CorruptChunk(f"the HDF5 library can't decode the chunk ({error})") from error
            self._count += 1
            if self._count % 1024 == 0 and h5i.get_file_id(dataset).get_filesize() > _GROWN:
                self._datasets.clear()
        return out

    def _peel(self, chunk: Buffer, filter_mask: int) -> tuple[Buffer, int, int]:
        """Undo the filters at the end of the pipeline that need no library.

        Returns
        -------
        chunk, filter_mask, last
            What is left to the library, with what was undone marked as skipped, and the index of
            the last filter it has to undo, or -1.
        """
        filter_mask &= (1 << len(self._pipeline)) - 1
        for index in reversed(range(len(self._pipeline))):
            if filter_mask >> index & 1:
                continue
            number, _, _, _ = self._pipeline[index]
            native = self._native[index]
            # The filters before one make at most a little more of the chunk, never twice it.
            most = 2 * self._nbytes + 1024
            if native is not None:
                chunk = undo(native)(chunk, most, exact=False)
            elif number == LZF and (
                index >= len(self._inner) or not self._known_before(index, filter_mask)
            ):
                # What another filter of the library gets from it has to be measured.
                chunk = unlzf(memoryview(chunk).cast("B"), most)
            else:
                return chunk, filter_mask, index
            filter_mask |= 1 << index
        return chunk, filter_mask, -1

    def _known_before(self, last: int, filter_mask: int) -> bool:
        """Whether the filters before one make as many bytes of a chunk, whatever it holds."""
        before = [f for i, f in enumerate(self._pipeline[:last]) if not filter_mask >> i & 1]
        return all(number in (SHUFFLE, FLETCHER32) for number, _, _, _ in before)

    def _measure(self, chunk: memoryview, filter_mask: int, last: int) -> None:
        """Refuse a chunk whose length, or the length it decodes to, can't be right."""
        before = [f for i, f in enumerate(self._pipeline[:last]) if not filter_mask >> i & 1]
        expected = self._nbytes + 4 * sum(number == FLETCHER32 for number, _, _, _ in before)
        if last < 0:
            found = len(chunk)
        elif not self._known_before(last, filter_mask):
            return
        else:
            number, _, values, _ = self._pipeline[last]
            found = decoded_length(number, values, chunk, expected)
        if found < 0:
            raise WrongLength(f"the chunk of {len(chunk)} bytes is cut short")
        if found != expected:
            raise WrongLength(f"the chunk decodes to {found} bytes, expected {expected}")
        if expected > max(LARGE, MAX_RATIO * len(chunk)):
            raise CorruptChunk(f"{len(chunk)} bytes are too few for a chunk of {expected}")

    def _mtype(self, dtype: np.dtype[Any]) -> Any:
        mtype = self._mtypes.get(dtype)
        if mtype is None:
            mtype = self._mtypes[dtype] = h5t.py_create(dtype)
        return mtype


def _require_lengths(pipeline: Sequence[Filter]) -> None:
    """Refuse filters of elements after others that make them bytes of any length.

    HDF5 itself does not read back what it writes with szip after a compressor.
    """
    for index, (number, _, _, name) in enumerate(pipeline):
        before = [entry for entry in pipeline[:index] if entry[0] not in (SHUFFLE, FLETCHER32)]
        if number in (SZIP, NBIT, SCALEOFFSET) and before:
            other = filter_name(before[-1][0], before[-1][3])
            raise UnsupportedVariable(
                f"the filter {filter_name(number, name)} after {other}, which the HDF5 library "
                "does not read reliably"
            )


@lru_cache(maxsize=64)
def _decoder(codec: Codec) -> _Decoder:
    return _Decoder(codec)


# A lock held by another thread at a fork would stay held in the child for ever.
after_fork(_decoder.cache_clear)


def decoded_length(number: int, values: tuple[int, ...], chunk: memoryview, expected: int) -> int:
    """Bytes that a filter would make of `chunk`, as far as its stored form tells.

    Parameters
    ----------
    number, values
        The filter and its parameters.
    chunk
        Its input.
    expected
        What it has to make, returned for filters whose form does not tell.

    Returns
    -------
    int
        -1 where the input is shorter than what it says of itself.
    """
    if number == LZF:
        return lzf_length(chunk)
    if number == SZIP:
        return int.from_bytes(chunk[:4], "little") if len(chunk) > 4 else -1
    if number == NBIT:
        return expected if len(chunk) >= _nbit_length(values, expected) else -1
    if number == SCALEOFFSET:
        if len(chunk) < _SCALEOFFSET_HEADER:
            return -1
        bits = int.from_bytes(chunk[:4], "little")
        elements, size = values[2], values[4]
        stored = (elements * bits + 7) // 8
        enough = bits <= 8 * size and len(chunk) >= _SCALEOFFSET_HEADER + stored
        return elements * size if enough else -1
    return expected


_SCALEOFFSET_HEADER = 21


def _nbit_length(values: tuple[int, ...], expected: int) -> int:
    """Bytes that nbit stores, for the atomic types: class 1, size, order, precision, offset."""
    if len(values) < 8 or values[3] != 1:
        return 0
    if values[1]:  # the precision is that of the type: nothing is packed
        return expected
    return (values[2] * values[6] + 7) // 8


LIBRARY = f"HDF5 {h5py.version.hdf5_version}"
"""The library at hand, for messages."""
