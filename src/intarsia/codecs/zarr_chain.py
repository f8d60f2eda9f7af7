"""Chains of Zarr codecs that have no faster way here: run codec by codec on one chunk.

The filter ``zarr`` stands for a whole chain, as the metadata of a Zarr v3 array has it, from the
stored bytes to the elements of a chunk. zarr's own codec objects do the work, and numcodecs' and
imagecodecs' behind them; those of TIFF that put samples in order are done here.

Compressed streams that could grow without end are held to what the chunk may decode to (see
`intarsia.codecs.zarr_bounds`). Which codecs a store may name is told in
`intarsia.codecs.zarr_names`.
"""

# zarr's codecs and dtypes are generic in ways that only their own code can tell.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from intarsia.codecs.tiff import FLOATPRED, floats, unchunky, undelta
from intarsia.codecs.zarr_bounds import PICTURES, bounded, pictured
from intarsia.codecs.zarr_names import IMAGECODECS
from intarsia.encoding import Codec
from intarsia.errors import ChunkError, CorruptChunk, UnsupportedVariable, WrongLength
from intarsia.forks import after_fork

__all__ = [
    "decode",
    "decode_objects",
    "metadata_json",
    "prepare",
    "quietly",
    "zarr_filter",
]

type Array = npt.NDArray[Any]


def zarr_filter(
    codecs: list[dict[str, Any]], shape: tuple[int, ...], dtype: npt.DTypeLike
) -> Codec:
    """The filter that stands for a chain.

    Parameters
    ----------
    codecs
        As the metadata of a Zarr v3 array has them.
    shape
        Of a chunk.
    dtype
        Of the decoded elements.
    """
    text = json.dumps(codecs, sort_keys=True, separators=(",", ":"))
    return Codec.make("zarr", codecs=text, shape=tuple(shape), dtype=np.dtype(dtype).str)


class _Stage(NamedTuple):
    """One codec, what its decoded side looks like, and how it is undone."""

    name: str
    undo: Callable[[Any], Any]


def prepare(codec: Codec) -> None:
    """Make what decodes chunks of this filter.

    Raises
    ------
    UnsupportedVariable
        If a codec is not installed, or can't be what it is told to be.
    """
    config = codec.config
    _stages(config["codecs"], tuple(config["shape"]), config["dtype"])


def decode(codec: Codec, chunk: Any, stored: np.dtype[Any]) -> Array:
    """Elements of one chunk, in C order.

    Parameters
    ----------
    codec
        From `zarr_filter`.
    chunk
        The stored bytes.
    stored
        Type of the result, which differs from that of the filter in byte order at most.

    Raises
    ------
    CorruptChunk, WrongLength
        If the bytes are not such a chunk.
    """
    config = codec.config
    shape = tuple(config["shape"])
    values = _run(_stages(config["codecs"], shape, config["dtype"]), chunk, shape)
    try:
        return values.astype(stored, copy=False)
    except (TypeError, ValueError) as error:  # of text, where numbers are expected
        raise CorruptChunk(f"it holds {values.dtype}, which is no {stored}") from error


def metadata_json(metadata: Any) -> dict[str, Any]:
    """The JSON that zarr writes of metadata, read again: what a reader of the store sees."""
    from zarr.core.buffer import default_buffer_prototype

    with quietly():
        buffers = metadata.to_buffer_dict(prototype=default_buffer_prototype())
    return json.loads(buffers["zarr.json"].to_bytes())


def decode_objects(
    codecs: list[dict[str, Any]], shape: tuple[int, ...], dtype: Any, chunk: Any
) -> Array:
    """Elements of one chunk of a type that NumPy has no bytes for (strings of any length).

    Parameters
    ----------
    codecs, shape
        As for `zarr_filter`.
    dtype
        The type as zarr has it (``metadata.data_type``).
    chunk
        The stored bytes.
    """
    return _run(_made(codecs, shape, dtype), chunk, shape)


def _run(stages: tuple[_Stage, ...], chunk: Any, shape: tuple[int, ...]) -> Array:
    value: Any = memoryview(chunk).cast("B")
    for stage in stages:
        try:
            with np.errstate(all="ignore"):  # numcodecs' delta casts what it hasn't set yet
                value = stage.undo(value)
        except ChunkError:
            raise
        except Exception as error:  # codecs of many libraries, each with errors of its own
            text = next(iter(str(error).splitlines()), "")
            raise CorruptChunk(
                f"the codec {stage.name} can't decode it ({type(error).__name__}: {text})"
            ) from error
    values = np.asarray(value)
    if values.size != prod(shape):
        raise WrongLength(f"the chunk holds {values.size} elements, expected {prod(shape)}")
    return np.ascontiguousarray(values).reshape(-1)


@lru_cache(maxsize=256)
def _stages(text: str, shape: tuple[int, ...], dtype: str) -> tuple[_Stage, ...]:
    from zarr.dtype import parse_dtype

    return _made(json.loads(text), shape, parse_dtype(np.dtype(dtype), zarr_format=3))


def _made(codecs: list[dict[str, Any]], shape: tuple[int, ...], dtype: Any) -> tuple[_Stage, ...]:
    """The stages of a chain, in the order of decoding."""
    with quietly():
        return _quietly_made(codecs, shape, dtype)


def _quietly_made(
    codecs: list[dict[str, Any]], shape: tuple[int, ...], dtype: Any
) -> tuple[_Stage, ...]:
    from zarr.core.array_spec import ArrayConfig, ArraySpec
    from zarr.core.buffer import default_buffer_prototype

    config = ArrayConfig.from_dict({})
    spec = ArraySpec(shape, dtype, dtype.default_scalar(), config, default_buffer_prototype())
    stages: list[_Stage] = []
    nbytes: int | None = None  # of what the next codec of bytes decodes to, where it is known
    exact = True  # or at most so many
    names = [str(told["name"]) for told in codecs]
    if FLOATPRED in names:  # it is of bytes, and not of elements
        native = np.dtype(dtype.to_native_dtype())
        if not shape:
            raise UnsupportedVariable(f"{FLOATPRED} is for rows of elements")
        chunky = names[:3] == [FLOATPRED, "transpose", "ChunkyCodec"]
        if not chunky and names[:2] != [FLOATPRED, "bytes"]:
            raise UnsupportedVariable(f"{FLOATPRED} stands elsewhere than TIFF has it")
        stages.append(_Stage(FLOATPRED, floats(native, shape, chunky=chunky)))
        nbytes = prod(shape) * native.itemsize
        codecs, names = codecs[3 if chunky else 2 :], names[3 if chunky else 2 :]
    for name, told in zip(names, codecs, strict=True):
        if name == "HorizontalDeltaCodec":
            stages.append(_Stage(name, undelta))
        elif name == "ChunkyCodec":
            order = cast("dict[str, Any]", told.get("configuration") or {}).get("endian")
            native = np.dtype(spec.dtype.to_native_dtype())
            stored = native.newbyteorder(">" if order == "big" else "<")
            stages.append(_Stage(name, unchunky(stored, spec.shape)))
            nbytes = prod(spec.shape) * stored.itemsize
        else:
            stage, spec, size = _of_zarr(name, told, spec, nbytes, exact)
            if size is None and nbytes is not None:  # as for `intarsia.codecs.filters`
                size, exact = 2 * nbytes + 1024, False
            nbytes = size
            stages.append(stage)
    return tuple(reversed(stages))


def _of_zarr(
    name: str, told: dict[str, Any], spec: Any, nbytes: int | None, exact: bool
) -> tuple[_Stage, Any, int | None]:
    """A codec of zarr's registry; what the codec after it sees, and in how many bytes."""
    from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec
    from zarr.registry import get_codec_class

    try:
        codec: Any = get_codec_class(name).from_dict(dict(told)).evolve_from_array_spec(spec)
        if isinstance(codec, ArrayArrayCodec):
            return _Stage(name, _array_stage(codec, spec)), codec.resolve_metadata(spec), None
        if isinstance(codec, ArrayBytesCodec):
            native = np.dtype(spec.dtype.to_native_dtype())
            known = name == "bytes" and not native.hasobject and native.kind != "T"
            size = prod(spec.shape) * native.itemsize if known else None
            return _Stage(name, _bytes_stage(codec, spec)), spec, size
        if name in PICTURES:
            undo = pictured(codec._codec, spec.shape, spec.dtype.to_native_dtype())
        else:
            undo = bounded(name, codec, nbytes, exact) or _raw_stage(codec, spec)
        return _Stage(name, undo), spec, codec_size(name, nbytes)
    except Exception as error:  # what is asked for is the file's, and may be anything
        text = next(iter(str(error).splitlines()), "")
        raise UnsupportedVariable(
            f"the Zarr codec {name!r} is not to be had ({type(error).__name__}: {text})",
            remedy="pip install 'intarsia[formats]'"
            if name.startswith(IMAGECODECS)
            else "install the package that has it",
        ) from error


def codec_size(name: str, nbytes: int | None) -> int | None:
    """How many bytes a codec makes of `nbytes`, where that is known."""
    if nbytes is None:
        return None
    short = name.removeprefix("numcodecs.")
    if short == "shuffle":
        return nbytes
    if short in ("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"):
        return nbytes + 4
    return None


def _array_stage(codec: Any, spec: Any) -> Callable[[Any], Any]:
    def undo(values: Array) -> Array:
        return _sync(
            codec, spec.prototype.nd_buffer.from_numpy_array(values), spec
        ).as_numpy_array()

    return undo


def _bytes_stage(codec: Any, spec: Any) -> Callable[[Any], Any]:
    def undo(data: Any) -> Array:
        return _sync(codec, spec.prototype.buffer.from_bytes(data), spec).as_numpy_array()

    return undo


def _raw_stage(codec: Any, spec: Any) -> Callable[[Any], Any]:
    def undo(data: Any) -> Any:
        return _sync(codec, spec.prototype.buffer.from_bytes(data), spec).to_bytes()

    return undo


def _sync(codec: Any, data: Any, spec: Any) -> Any:
    """One codec undone, in this thread where the codec can."""
    undo = getattr(codec, "_decode_sync", None)
    if undo is not None:
        return undo(data, spec)
    from zarr.core.sync import sync

    return sync(codec._decode_single(data, spec))


class _Quiet:
    """How many are at work without warnings, and what puts the filters back after the last."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.saved: warnings.catch_warnings[None] | None = None


_quiet = _Quiet()


@contextmanager
def quietly() -> Generator[None]:
    """Without the warnings of codecs that they are in no specification: the files have them.

    Filters of warnings belong to all threads, so the last one to leave puts them back.
    """
    with _quiet.lock:
        if not _quiet.depth:
            _quiet.saved = warnings.catch_warnings(action="ignore")
            _quiet.saved.__enter__()
        _quiet.depth += 1
    try:
        yield
    finally:
        with _quiet.lock:
            _quiet.depth -= 1
            if not _quiet.depth and _quiet.saved is not None:
                _quiet.saved.__exit__(None, None, None)
                _quiet.saved = None


@after_fork
def _after_fork() -> None:
    """A lock held by another thread at the fork would never be released in the child."""
    _quiet.lock = threading.Lock()
