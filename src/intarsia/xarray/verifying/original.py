"""Reading a source again with its own library, as it was opened when it was scanned."""

# Parts of h5py's, xarray's and pandas' signatures are untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import json
import warnings
from collections.abc import Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Literal, cast

import h5py
import numpy as np
import numpy.typing as npt
import xarray as xr

from intarsia.array import VirtualArray
from intarsia.codecs.hdf5_filters import plugins_loaded
from intarsia.encoding import Codec
from intarsia.errors import IntarsiaError, shown
from intarsia.io.paths import is_url
from intarsia.references import MISSING, STORED, Source
from intarsia.scan.dispatch import scan
from intarsia.scan.hdf5.dimensions import COLLIDING
from intarsia.scan.zarr.formats import HEAD, format_of
from intarsia.segments import COUNT, FORM, PAGE, REF, Segments
from intarsia.xarray.verifying.fetching import NotCopied, here
from intarsia.xarray.verifying.pieces import Extent, Segment

type Array = npt.NDArray[Any]

CODERS: dict[str, Any] = {
    "CFDatetimeCoder": xr.coders.CFDatetimeCoder,
    "CFTimedeltaCoder": xr.coders.CFTimedeltaCoder,
}
"""Classes that xarray takes for an argument, by the name under which they are recorded."""

MAGIC = (b"\x89HDF\r\n\x1a\n", b"CDF")
"""What the files begin with that have their own library here."""

DECODERS = frozenset(
    (
        "mask_and_scale",
        "decode_times",
        "decode_timedelta",
        "use_cftime",
        "concat_characters",
        "decode_coords",
        "group",
        "phony_dims",
    )
)


class Unreadable(Exception):
    """The source's own library can't give what is to be compared; the message says why."""


def arguments_of(choices: str) -> dict[str, Any]:
    """The arguments of `xarray.open_dataset` that were recorded when a source was scanned.

    Raises
    ------
    Unreadable
        If one can't be had back.

    Examples
    --------
    >>> arguments_of('{"decode_times":false,"group":"a"}')
    {'decode_times': False, 'group': 'a'}
    """
    try:
        recorded: Any = json.loads(choices) if choices else {}
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"how it was opened is not recorded readably: {error}") from error
    if isinstance(recorded, dict) and "mapped" in recorded:
        raise Unreadable("it was not opened by itself: another file's variables lead to its values")
    if not isinstance(recorded, dict) or recorded.keys() - DECODERS:
        raise Unreadable(f"how it was opened is recorded in an unknown way: {choices[:80]}")
    told = cast("dict[str, Any]", recorded)
    return {name: _argument(name, value) for name, value in told.items()}


def _argument(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        told = cast("dict[str, Any]", value)
        if "by_variable" in told:
            return {key: _argument(name, one) for key, one in told["by_variable"].items()}
        coder = CODERS.get(str(told.get("coder")))
        if coder is not None:
            given = {key: one for key, one in told.items() if key != "coder"}
            try:
                return coder(**given)
            except (TypeError, ValueError) as error:
                raise Unreadable(f"{name}={told!r} can't be asked for again: {error}") from error
    elif not isinstance(value, str) or name in ("group", "phony_dims", "decode_coords"):
        return value
    raise Unreadable(f"{name}={value!r} can't be asked for again")


class Original:
    """A source, open with xarray and the library for its format.

    Parameters
    ----------
    source
        Which.
    dataset
        What they give of it, not loaded.
    place
        What that is of, where it is not the source alone.
    path
        The file that it was opened from, if it is one.
    """

    def __init__(
        self,
        source: Source,
        dataset: xr.Dataset,
        place: str | None = None,
        path: str | None = None,
    ) -> None:
        self.source = source
        self.place = source.url if place is None else place
        self._path = path
        self._extents: dict[str, Extent | None] = {}
        self._variables: Mapping[Hashable, xr.Variable] = dataset.variables
        self._labels: dict[str, Array | None] = {}
        self._names: dict[int, str | None] = {}
        self._scanned: dict[str, VirtualArray] | None = None

    def __contains__(self, name: object) -> bool:
        return name in self._variables

    def variable(self, name: str) -> xr.Variable:
        """One variable, not loaded."""
        return self._variables[name]

    def read(self, name: str, key: Sequence[slice] | None = None) -> Array:
        """Values of a variable, or of a part of it, in native byte order.

        Raises
        ------
        Unreadable
            If the library can't give them.
        """
        variable = self._variables[name]
        part = variable if key is None else variable[tuple(key)]
        shape = part.shape
        try:
            with quietly():
                values = np.asarray(part.values)
        except Exception as error:  # whatever the library below raises
            raise Unreadable(f"xarray can't read it: {said(error, self.place)}") from error
        if values.shape != shape:  # the library does not fill up all types
            raise Unreadable(f"xarray says that its shape is {shape}, and gives {values.shape}")
        return values.astype(native(values.dtype), copy=False)

    def labels(self, name: str) -> Array | None:
        """Values of the coordinate of that name that has one dimension, or none; or None."""
        if name not in self._labels:
            variable = self._variables.get(name)
            found = variable is not None and variable.ndim <= 1
            self._labels[name] = self.read(name) if found else None
        return self._labels[name]

    def arranged(self, segment: Segment, filters: Sequence[Codec]) -> Segment:
        """The segment with the dimensions of its source as a variable here has them.

        Parameters
        ----------
        segment
            As the bytes are stored.
        filters
            What they are decoded with.
        """
        return segment

    def shifts(self, segment: Segment, name: str) -> tuple[list[Array], str]:
        """What may have to be added to a segment's indices, for those in a variable here.

        Returns
        -------
        shifts
            The likeliest first.
        reason
            Why there are none.
        """
        shape = self._variables[name].shape
        extent = None
        if tuple(segment.size.tolist()) != shape:
            extent = self._extent(name)
        found = segment.shifts(shape, extent)
        return found, "it lies in several places, so that its positions in the source are unsure"

    def _extent(self, name: str) -> Extent | None:
        """The dataset that a variable is of, untold by xarray; None where it is no HDF5."""
        if name not in self._extents:
            self._extents[name] = self._found_extent(name)
        return self._extents[name]

    def _found_extent(self, name: str) -> Extent | None:
        if self._path is None or not h5py.is_hdf5(self._path):
            return None
        with h5py.File(self._path, "r") as file:
            group = str(arguments_of(self.source.scan).get("group") or "")
            # the first is what netCDF-4 calls a variable that is named like a dimension not its own
            for one in (COLLIDING + name, name):
                found = file.get(f"/{group}/{one}")
                if isinstance(found, h5py.Dataset) and found.shape is not None:
                    return Extent(found.shape, found.id.get_storage_size() > 0)
        return None

    def named_by_bytes(self, segments: Segments, row: Array) -> str | None:
        """Name of the variable whose bytes a segment refers to, where names don't tell it.

        Parameters
        ----------
        segments, row
            The segments that it is one of, and its row of a block.
        """
        page = segments.pages[int(row[PAGE])]
        number = int(row[REF])
        if row[FORM] == MISSING or number >= len(page):
            return None
        if page.states is not None:
            states = np.asarray(page.states[number : number + int(row[COUNT])])
            if not (states == STORED).any():
                return None
            number += int(np.argmax(states == STORED))
        offset = int(page.offsets[number])
        if offset not in self._names:
            if self._scanned is None:
                self._scanned = _scanned(self.source)
            found = [name for name, array in self._scanned.items() if _refers(array, offset)]
            self._names[offset] = found[0] if len(found) == 1 else None
        return self._names[offset]


def _scanned(source: Source) -> dict[str, VirtualArray]:
    """The variables of a source that references can express."""
    asked = arguments_of(source.scan)
    try:
        scanned = scan(
            source.url,
            access=source.access,
            group=asked.get("group"),
            phony_dims=asked.get("phony_dims"),
        )
    except IntarsiaError as error:
        raise Unreadable(str(error)) from error
    found = {name: variable.data for name, variable in scanned.variables.items()}
    return {name: data for name, data in found.items() if isinstance(data, VirtualArray)}


def _refers(array: VirtualArray, offset: int) -> bool:
    for page in array.segments.pages:
        here = page.offsets == np.uint64(offset)
        if page.states is not None:
            here &= page.states == STORED
        if here.any():
            return True
    return False


@contextmanager
def original(source: Source) -> Generator[Original]:
    """Open a source with xarray and the library for its format, decoding what was decoded then.

    Raises
    ------
    Unreadable
        If they can't open it.
    """
    asked = arguments_of(source.scan)
    try:
        with here(source) as path, _dataset(path, asked) as dataset:
            yield Original(source, dataset, path=path)
    except NotCopied as error:
        raise Unreadable(str(error)) from error


def _dataset(path: str, asked: dict[str, Any]) -> xr.Dataset:
    try:
        with quietly():
            first, *others = _engines(path)
            given: dict[str, Any] = {"cache": False, "create_default_indexes": False, **asked}
            if first == "h5netcdf":
                plugins_loaded()  # for filters that we undo without
            elif first == "zarr":
                from zarr.storage import ZipStore

                given.pop("phony_dims", None)
                store: Any = ZipStore(path, read_only=True)
                return xr.open_dataset(store, engine=first, **given)
            else:
                given.pop("group", None)  # the root, as there are no others
            try:
                return xr.open_dataset(path, engine=first, **given)
            except OSError:
                if not others:
                    raise
                return xr.open_dataset(path, engine=others[0], **given)
    except Exception as error:  # whatever the libraries below raise
        text = next(iter(str(error).splitlines()), "")
        if "file signature not found" in text:
            raise Unreadable(_foreign(path)) from error
        raise Unreadable(f"xarray can't open it: {type(error).__name__}: {text}") from error


def _foreign(path: str) -> str:
    """What a file is that xarray has no engine of its own for."""
    with open(path, "rb") as file:
        head = file.read(HEAD)
    try:
        found = format_of(head, path)
    except IntarsiaError as error:
        return error.reason
    if found is None:
        return (
            "it is no file of a format by itself, but holds values that another keeps outside: "
            "what an HDF5 file or references point to, or a chunk of Zarr without its metadata"
        )
    return f"it is {found.name}, which there is no second reader for to compare with"


def _engines(path: str) -> list[Literal["h5netcdf", "netcdf4", "scipy", "zarr"]]:
    """Engines of xarray's that a file may be read with, by what it holds.

    netCDF4 comes first for netCDF3, as names and lone record variables are right in it; it refuses
    some files that SciPy writes and reads.
    """
    with open(path, "rb") as file:
        magic = file.read(4)
    if magic == b"PK\x03\x04":
        return ["zarr"]
    if magic[:3] != b"CDF":
        return ["h5netcdf"]
    if magic[3:] == b"\x05":
        return ["netcdf4"]
    return ["scipy"] if find_spec("netCDF4") is None else ["netcdf4", "scipy"]


def said(error: Exception, place: str) -> str:
    """What a library's error says; of one from the network, no more than we would say."""
    if is_url(place):
        from intarsia.io.remote_requests import raised_by_client

        ours = raised_by_client(error, shown(place))
        if ours is not None:
            return str(ours)
    text = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {text}"


@contextmanager
def quietly() -> Generator[None]:
    """Without warnings: they are about the files, and were given when those were opened."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in native byte order; compounds, and strings of any length, stay as they are."""
    return dtype if dtype.fields or dtype.kind == "T" else dtype.newbyteorder("=")
