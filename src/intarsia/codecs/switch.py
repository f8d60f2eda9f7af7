"""The Zarr codec `intarsia.switch`: chunks that say, part by part, how they are encoded.

An array of unlike files has no one chain of codecs. `switch` has a table of *cases*, and each chunk
a header that names, for each of its parts, the case and the parameters that this part's file has
(see `intarsia.codecs.chunks` and ``spec/switch.md``). It is an array -> bytes codec, and the only
one that such an array has, so that a small selection fetches the parts it needs and no others.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt
from zarr.abc.codec import ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin
from zarr.abc.store import OffsetByteRequest, RangeByteRequest
from zarr.core.common import concurrent_map
from zarr.core.config import config

from intarsia.codecs.assemble import Chosen, assemble, decode_chunk, meeting, whole
from intarsia.codecs.cases import CaseTable, merge_tables
from intarsia.codecs.cases_types import entries
from intarsia.codecs.chunks import HEAD, Parts, header_nbytes, pack, record_type, unpack
from intarsia.codecs.filters import fletcher32
from intarsia.encoding import Encoding
from intarsia.errors import UnsupportedError, WrongLength

if TYPE_CHECKING:
    from zarr.abc.store import ByteGetter, ByteRequest
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer
    from zarr.core.dtype.wrapper import TBaseDType, TBaseScalar, ZDType

__all__ = ["SwitchCodec", "merge_tables"]

NAME = "intarsia.switch"
MAX_GAP = 1 << 12
"""Bytes of unwanted parts that are fetched to save a request."""
WHOLE_BYTES = 1 << 16
"""Chunks that decode to at most so many bytes are fetched as they are, by one request."""
INLINE_BYTES = 1 << 18
"""Chunks of more bytes are decoded in another thread than the event loop's."""

type Fetches = Generator[list[ByteRequest | None], list[Buffer | None], NDBuffer | None]


@dataclass(frozen=True)
class SwitchCodec(ArrayBytesCodecPartialDecodeMixin, ArrayBytesCodec):
    """Decode chunks whose header says how.

    Parameters
    ----------
    cases
        The cases there are, compiled.
    """

    cases: CaseTable

    def __init__(self, *, cases: CaseTable | Mapping[str, Any]) -> None:
        """Compile the cases.

        Parameters
        ----------
        cases
            Key -> case, as in a configuration; or such a table, compiled.

        Raises
        ------
        ValueError
            If one is refused, with the reason.
        """
        table = cases if isinstance(cases, CaseTable) else CaseTable.from_json(cases)
        object.__setattr__(self, "cases", table)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make the codec that array metadata describes.

        Raises
        ------
        ValueError
            If its configuration is refused, with the reason.
        """
        codec = entries(data, NAME, ("name", "configuration"))
        if codec["name"] != NAME:
            raise ValueError(f"the codec is {codec['name']!r}, not {NAME!r}")
        return cls(cases=entries(codec["configuration"], NAME, ("cases",))["cases"])

    def to_dict(self) -> dict[str, Any]:
        """The codec as array metadata has it."""
        return {"name": NAME, "configuration": {"cases": self.cases.json()}}

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        """Check that every case gives values of the array's type.

        Raises
        ------
        ValueError
            If one gives values of another type.
        """
        wanted = _native(array_spec.dtype)
        for key, encoding in zip(self.cases.json(), self.cases.encodings, strict=True):
            if encoding.dtype != wanted:
                raise ValueError(f"case {key!r} gives {encoding.dtype}, the array has {wanted}")
        return self

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Refuse: headers and parts have any length."""
        raise NotImplementedError

    # -- decoding --------------------------------------------------------------------------------

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        dtype = chunk_spec.dtype.to_native_dtype()
        data = _bytes(chunk_data)
        decoded = decode_chunk(data, chunk_spec.shape, self.cases, dtype, chunk_spec.fill_value)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(decoded)

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        if len(chunk_data) <= INLINE_BYTES:
            return self._decode_sync(chunk_data, chunk_spec)
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)

    def _decode_partial_sync(
        self, byte_getter: Any, selection: Any, chunk_spec: ArraySpec
    ) -> NDBuffer | None:
        fetches = self._decode_partial(selection, chunk_spec)
        requests = next(fetches)
        while True:
            found = [
                byte_getter.get_sync(prototype=chunk_spec.prototype, byte_range=request)
                for request in requests
            ]
            try:
                requests = fetches.send(found)
            except StopIteration as done:
                return done.value

    async def _decode_partial_single(
        self, byte_getter: ByteGetter, selection: Any, chunk_spec: ArraySpec
    ) -> NDBuffer | None:
        fetches = self._decode_partial(selection, chunk_spec)
        requests = next(fetches)
        limit: int = config.get("async.concurrency")

        async def get(request: ByteRequest | None) -> Buffer | None:
            return await byte_getter.get(chunk_spec.prototype, request)

        def send(found: list[Buffer | None]) -> list[ByteRequest | None] | NDBuffer | None:
            try:
                return fetches.send(found)
            except StopIteration as done:
                return done.value

        while True:
            found = await concurrent_map([(request,) for request in requests], get, limit)
            size = sum(len(buffer) for buffer in found if buffer is not None)
            answer = send(found) if size <= INLINE_BYTES else await asyncio.to_thread(send, found)
            if not isinstance(answer, list):
                return answer
            requests = answer

    def _decode_partial(self, selection: Any, chunk_spec: ArraySpec) -> Fetches:
        """Decode a selection; asks for bytes by what it yields."""
        shape, make = chunk_spec.shape, chunk_spec.prototype.nd_buffer.from_numpy_array
        dtype, fill = chunk_spec.dtype.to_native_dtype(), chunk_spec.fill_value
        box = _box_of(selection, shape) if prod(shape) * dtype.itemsize > WHOLE_BYTES else None
        if box is None:
            (everything,) = yield [None]
            if everything is None:
                return None
            return self._decode_sync(everything, chunk_spec)[selection]
        short = record_type(len(shape), True).itemsize + int(self.cases.widths.max())
        (start,) = yield [RangeByteRequest(0, HEAD + short)]
        if start is None:
            return None
        header = _bytes(start)
        size = header_nbytes(header)
        if len(header) < size:
            (rest,) = yield [RangeByteRequest(len(header), size)]
            if rest is None:
                return None
            header = memoryview(b"".join((header, _bytes(rest))))
        parts = unpack(header, shape, self.cases)
        if parts.covers(shape):
            rest = None
            if parts.nbytes[0]:
                (rest,) = yield [OffsetByteRequest(size)]
            data = memoryview(b"") if rest is None else _bytes(rest)
            return make(np.asarray(whole(parts, data, shape, self.cases, dtype)[selection]))
        numbers = meeting(parts, box.chosen)
        runs = _runs(parts, numbers, shape)
        found: Sequence[Buffer | None] = []
        if runs:
            found = yield [RangeByteRequest(begin, end) for begin, end, _ in runs]
        buffers: dict[int, memoryview] = {}
        for (begin, end, members), buffer in zip(runs, found, strict=True):
            data = memoryview(b"") if buffer is None else _bytes(buffer)
            if len(data) != end - begin:
                raise WrongLength(f"{len(data)} bytes of {end - begin} could be had")
            for number, offset, length in members:
                buffers[number] = data[offset - begin : offset - begin + length]
        several = [buffers.get(number, memoryview(b"")) for number in numbers.tolist()]
        found_box = assemble(parts, numbers, several, self.cases, (box.low, box.high), dtype, fill)
        return make(np.asarray(found_box[box.inner]))

    # -- encoding --------------------------------------------------------------------------------

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        encoding = self._encodable()
        values = chunk_data.as_numpy_array()
        row = np.zeros(1, encoding.parameters)
        row["raw_fill"] = chunk_spec.fill_value
        data = np.ascontiguousarray(values, encoding.stored).tobytes()
        elements = max(values.size, 1)
        for codec in encoding.filters:
            data = _filtered(codec.name, codec.config, data)
        one, ndim = np.ones(1, np.int64), values.ndim
        strides = [int(np.prod(values.shape[dim + 1 :])) for dim in range(ndim)]
        parts = Parts(
            self.cases.keys[:1],
            0 * one,
            0 * one,
            0 * one,
            elements * one,
            0 * one,
            np.array([strides], np.int64).reshape(1, ndim),
            np.zeros((1, ndim), np.int64),
            np.array([values.shape], np.int64).reshape(1, ndim),
            len(data) * one,
            row.nbytes * one,
            row.tobytes(),
        )
        return chunk_spec.prototype.buffer.from_bytes(pack(parts, values.shape) + data)

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        return self._encode_sync(chunk_data, chunk_spec)

    def _encodable(self) -> Encoding:
        """The one case, where values can be written with it."""
        read_only = "stores of references are read-only"
        if len(self.cases.encodings) != 1:
            raise UnsupportedError(
                f"nothing says which of {len(self.cases.encodings)} cases to encode with",
                remedy=read_only,
            )
        (encoding,) = self.cases.encodings
        if encoding.steps or any(codec.name not in _WRITTEN for codec in encoding.filters):
            raise UnsupportedError(f"values can't be encoded as {encoding}", remedy=read_only)
        return encoding


_WRITTEN = ("zlib", "fletcher32", "shuffle")
"""Filters that `_filtered` applies."""


def _filtered(name: str, configuration: Mapping[str, Any], data: bytes) -> bytes:
    """Apply one filter, as HDF5 would."""
    if name == "zlib":
        return zlib.compress(data)
    if name == "fletcher32":
        return data + fletcher32(data).to_bytes(4, "little")
    size: int = configuration["elementsize"]
    whole = len(data) - len(data) % size
    planes = np.frombuffer(data, np.uint8, whole).reshape(-1, size)
    return planes.T.tobytes() + data[whole:]


def _native(dtype: ZDType[TBaseDType, TBaseScalar]) -> np.dtype[Any]:
    return cast("np.dtype[Any]", dtype.to_native_dtype()).newbyteorder("=")


def _bytes(buffer: Buffer) -> memoryview:
    return memoryview(np.ascontiguousarray(buffer.as_numpy_array(), np.uint8))


def _runs(
    parts: Parts, numbers: npt.NDArray[Any], shape: Sequence[int]
) -> list[tuple[int, int, list[tuple[int, int, int]]]]:
    """What to fetch for some parts: (begin, end, [(part, offset, length)])."""
    offsets, lengths = parts.offsets(shape).tolist(), parts.nbytes.tolist()
    runs: list[tuple[int, int, list[tuple[int, int, int]]]] = []
    for number in numbers.tolist():
        offset, length = offsets[number], lengths[number]
        if length == 0:
            continue
        if runs and offset - runs[-1][1] <= MAX_GAP:
            begin, _, members = runs[-1]
            runs[-1] = begin, offset + length, [*members, (number, offset, length)]
        else:
            runs.append((offset, offset + length, [(number, offset, length)]))
    return runs


class _Box(NamedTuple):
    """The box around a selection of a chunk.

    Parameters
    ----------
    low, high
        Its first corner, and the one after its last.
    inner
        The selection, within the box.
    chosen
        For each dimension, the indices that are selected, ascending.
    """

    low: list[int]
    high: list[int]
    inner: tuple[Any, ...]
    chosen: list[Chosen]


def _box_of(selection: Any, shape: Sequence[int]) -> _Box | None:
    """The box around a selection.

    Returns
    -------
    _Box or None
        None where it is the whole chunk, or a kind of selection that has no box.
    """
    if not isinstance(selection, tuple) or len(cast("Any", selection)) != len(shape):
        return None
    box = _Box([], [], (), [])
    inner: list[Any] = []
    for item, size in zip(cast("tuple[Any, ...]", selection), shape, strict=True):
        indices: Chosen
        if isinstance(item, slice):
            indices = range(size)[cast("slice[Any, Any, Any]", item)]
            if not len(indices) or indices.step < 0:
                return None
            inner.append(slice(0, indices[-1] - indices[0] + 1, indices.step))
        elif isinstance(item, int | np.integer):
            index = int(cast("int", item))
            indices = range(index, index + 1)
            inner.append(0)
        elif isinstance(item, np.ndarray):
            array = cast("npt.NDArray[Any]", item)
            if array.dtype == bool and array.ndim == 1 and len(array) == size:
                array = np.flatnonzero(array)
            if array.dtype.kind not in "iu" or not array.size:
                return None
            indices = np.unique(array)
            inner.append(array - indices[0])
        else:
            return None
        if not 0 <= indices[0] <= indices[-1] < size:
            return None
        box.low.append(int(indices[0]))
        box.high.append(int(indices[-1]) + 1)
        box.chosen.append(indices)
    if prod(len(indices) for indices in box.chosen) == prod(shape):
        return None
    return box._replace(inner=tuple(inner))
