"""What Zarr v2 metadata says that is lost where a parser tells it as Zarr v3.

In v2, ``fill_value`` masks: xarray gives it as ``_FillValue``. VirtualiZarr makes v3 metadata of
it, where it only stands for missing chunks, and of kerchunk's references drops ``order`` too. So
the arrays' own ``.zarray`` is looked up again.

Filters of v2 take and give memory, and each looks at it as the type that it is told; codecs of v3
take and give elements of a type. `chain_of_v2` makes the chain of v3 in which each gets that type.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from io import BufferedReader, RawIOBase
from typing import Any, cast

import numpy as np

from intarsia.errors import FormatError, UnsupportedError
from intarsia.io.files import File, opened_file
from intarsia.scan.zarr.formats import KERCHUNK, PARQUET, ZARR, ZIPPED, Format
from intarsia.scan.zarr.places import Places

__all__ = ["Version2", "chain_of_v2", "mended_chain", "version_2"]

type Codec3 = dict[str, Any]

ARRAY_CODECS = frozenset(
    ("astype", "bitround", "delta", "fixedscaleoffset", "packbits", "quantize", "categorize")
)
"""Filters of numcodecs that take and give arrays."""


class Version2:
    """The ``.zarray`` of arrays that are of Zarr v2.

    Parameters
    ----------
    get
        Gives the text of a key, or None.
    """

    def __init__(self, get: Callable[[str], Any]) -> None:
        self._get = get

    def array(self, where: tuple[str, ...], name: str) -> dict[str, Any] | None:
        """The ``.zarray`` of one array, or None where it is not of Zarr v2."""
        told = self._get("/".join((*where, name, ".zarray")))
        if isinstance(told, str | bytes):
            told = json.loads(told)
        return cast("dict[str, Any]", told) if isinstance(told, dict) else None


def version_2(found: Format, places: Places) -> Version2 | None:
    """What looks the metadata up again, or None for formats that are not of Zarr v2."""
    place = places.place
    if found is ZARR:
        return Version2(places.text)
    if found is ZIPPED:
        return Version2(_of_zip(places).get)
    if found is KERCHUNK:
        with opened_file(place, places.access) as file:
            told: Any = json.loads(bytes(file.read(0, file.source.size)))
        return Version2(cast("dict[str, Any]", told.get("refs", told)).get)
    if found is PARQUET:
        text = places.text(".zmetadata")
        if text is None:
            raise FormatError("it has no .zmetadata", url=place)
        return Version2(cast("dict[str, Any]", json.loads(text)["metadata"]).get)
    return None


def _of_zip(places: Places) -> dict[str, bytes]:
    """The metadata of arrays in a zip file; few and small, unlike the chunks."""
    with opened_file(places.place, places.access) as file:
        try:
            with zipfile.ZipFile(BufferedReader(_Readable(file), 1 << 16)) as archive:
                names = archive.namelist()
                found = {
                    name: archive.read(name)
                    for name in names
                    if name.rpartition("/")[2] in (".zarray", "zarr.json")
                }
                _check_owned(names, found, places.place)
                return found
        except zipfile.BadZipFile as error:
            raise FormatError(f"this is no zip file ({error})", url=places.place) from error


def _check_owned(names: Iterable[str], metadata: Mapping[str, bytes], place: str) -> None:
    """Refuse chunks of no array: its metadata are lost, and parsers pass it over."""
    arrays = {
        name.rpartition("/")[0]
        for name, text in metadata.items()
        if name.endswith(".zarray") or json.loads(text).get("node_type") != "group"
    }
    for name in names:
        if _CHUNK.search(name) is None:
            continue
        above = name
        while above and above not in arrays:
            above = above.rpartition("/")[0]
        if above not in arrays:
            raise FormatError(f"it has the chunk {name}, and no array that it is of", url=place)


_CHUNK = re.compile(r"(?:^|/)\d+(?:\.\d+)*$")
"""How the keys of chunks end."""


def chain_of_v2(
    steps: Iterable[Mapping[str, Any]], order: str, dtype: np.dtype[Any], ndim: int
) -> list[Codec3]:
    """Filters and compressor of version 2 as a chain of version 3.

    Parameters
    ----------
    steps
        Their configurations, the compressor last.
    order
        ``"C"`` or ``"F"``.
    dtype, ndim
        Of the array.

    Raises
    ------
    UnsupportedError
        If that can't be said.
    """
    before: list[Codec3] = []
    if order == "F" and ndim > 1:
        axes = list(range(ndim))[::-1]
        before.append({"name": "transpose", "configuration": {"order": axes}})
    body: Codec3 | None = None
    after: list[Codec3] = []
    held = dtype  # what the next filter sees
    for step in steps:
        config = dict(step)
        name = str(config.pop("id"))
        if name in ("vlen-utf8", "vlen-bytes"):
            body = {"name": name}
        elif name in ARRAY_CODECS and not after:
            found, held = _of_arrays(name, config, held)
            before += found
        elif name in ARRAY_CODECS or name.startswith("vlen"):
            raise UnsupportedError(f"its filter {name!r} is not read")
        else:
            after.append({"name": f"numcodecs.{name}", "configuration": config})
    endian = "big" if held.byteorder == ">" else "little"
    return [*before, body or {"name": "bytes", "configuration": {"endian": endian}}, *after]


def mended_chain(codecs: list[Codec3], zarray: Mapping[str, Any], ndim: int) -> list[Codec3]:
    """The chain of version 3 that a parser made of a ``.zarray``, as that meant it.

    Parameters
    ----------
    codecs
        What the parser made.
    zarray
        What it made that of.
    ndim
        Of the array.

    Raises
    ------
    UnsupportedError
        If that can't be said.
    """
    steps: list[Any] = [*(zarray.get("filters") or ())]
    if any(isinstance(step, dict) and step.get("id") in ARRAY_CODECS for step in steps):
        compressor: Any = zarray.get("compressor") or []
        steps += [compressor] if isinstance(compressor, dict) else compressor
        return chain_of_v2(steps, str(zarray.get("order")), np.dtype(zarray["dtype"]), ndim)
    if (
        zarray.get("order") == "F"
        and ndim > 1
        and all(c.get("name") != "transpose" for c in codecs)
    ):
        axes = list(range(ndim))[::-1]
        return [{"name": "transpose", "configuration": {"order": axes}}, *codecs]
    return codecs


def _of_arrays(
    name: str, config: dict[str, Any], held: np.dtype[Any]
) -> tuple[list[Codec3], np.dtype[Any]]:
    """A filter that takes and gives arrays, and what it makes of elements of the type `held`."""
    if name == "bitround":  # which is not undone
        return [], held
    if name == "packbits" and held == np.bool_:
        return [{"name": "numcodecs.packbits"}], np.dtype("u1")
    if name in ("packbits", "categorize"):
        raise UnsupportedError(f"its filter {name!r} is not read for elements of the type {held}")
    one, other = ("decode_dtype", "encode_dtype") if name == "astype" else ("dtype", "astype")
    given = np.dtype(config.get(one) or held)
    stored = np.dtype(config.get(other) or given)
    alike = given.itemsize == held.itemsize and {given.kind, held.kind} <= set("iumM")
    alike &= given.itemsize == 1 or given.isnative == held.isnative
    if given != held and not alike:
        raise UnsupportedError(f"its filter {name!r} gives the type {given}, which is not {held}")
    if name == "quantize":  # which is not undone
        if stored == given:
            return [], stored
        name, config, one, other = "astype", {}, "decode_dtype", "encode_dtype"
    config |= {one: given.str, other: stored.str}
    return [{"name": f"numcodecs.{name}", "configuration": config}], stored


class _Readable(RawIOBase):
    """A `File` as Python's files are."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._at, self._file.source.size)[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), max(self._file.source.size - self._at, 0))
        if length:
            buffer[:length] = self._file.read(self._at, length)
            self._at += length
        return length
