"""What Zarr v2 metadata says that is lost where a parser tells it as Zarr v3.

In v2, ``fill_value`` masks: xarray gives it as ``_FillValue``. VirtualiZarr makes v3 metadata of
it, where it only stands for missing chunks, and of kerchunk's references drops ``order`` too. So
the arrays' own ``.zarray`` is looked up again.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from io import BufferedReader, RawIOBase
from typing import Any, cast

from intarsia.errors import FormatError
from intarsia.io.files import File, opened_file
from intarsia.scan.virtualizarr_formats import KERCHUNK, PARQUET, ZARR, ZIPPED, Format
from intarsia.scan.virtualizarr_places import Places

__all__ = ["Version2", "version_2"]


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
                return {
                    name: archive.read(name)
                    for name in archive.namelist()
                    if name.rpartition("/")[2] == ".zarray"
                }
        except zipfile.BadZipFile as error:
            raise FormatError(f"this is no zip file ({error})", url=places.place) from error


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
