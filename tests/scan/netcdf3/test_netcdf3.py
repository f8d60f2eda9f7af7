"""netCDF3 scanned: layouts, types and attributes as xarray's stores give them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
from scipy.io import netcdf_file

import intarsia
from intarsia.errors import CorruptFile, FormatError, UnsupportedError
from intarsia.io.files import opened_file
from intarsia.scan import dispatch
from intarsia.scan.netcdf3 import scan, scan_groups
from intarsia.testing import ScanContract
from tests.compare import value_differences
from tests.scan.netcdf3.files import (
    FORMATS,
    Counting,
    Var,
    assert_as_store,
    differences_from,
    header,
)
from tests.scan.store import assert_same, virtual

CLASSIC = [1, 2]
ALL = [1, 2, 5]


def engines(version: int) -> tuple[str, ...]:
    return ("netcdf4",) if version == 5 else ("scipy", "netcdf4")


def assert_opened(path: Path, *names: str, **arguments: Any) -> xr.Dataset:
    """What is opened is what each of the engines gives."""
    opened = intarsia.open_dataset(path, **arguments)
    for engine in names:
        assert not differences_from(opened, path, engine, **arguments), engine
    return opened


def create(path: Path, version: int, records: int = 3, several: bool = True) -> Path:
    """A file with variables of all kinds, written by netCDF-C."""
    with netCDF4.Dataset(path, "w", format=FORMATS[version]) as file:
        file.createDimension("time", None)
        file.createDimension("lat", 3)
        file.createDimension("lon", 5)
        rng = np.random.default_rng(0)
        kinds = ["i1", "i2", "i4", "f4", "f8"]
        kinds += ["u1", "u2", "u4", "i8", "u8"] if version == 5 else []
        for kind in kinds:
            fixed = file.createVariable(f"fixed_{kind}", kind, ("lat", "lon"))
            fixed[:] = rng.integers(0, 100, (3, 5))
            if several:
                record = file.createVariable(f"record_{kind}", kind, ("time", "lat"))
                record[:] = rng.integers(0, 100, (records, 3))
        letters = file.createVariable("letters", "S1", ("time", "lon"))
        letters[:] = rng.integers(97, 122, (records, 5), np.uint8).view("S1")
        file.createVariable("scalar", "f8", ())[:] = 1.5
        if several:
            time = file.createVariable("time", "i4", ("time",))
            time[:] = np.arange(records) * 3
            time.units = "days since 2000-01-01"
    return path


@pytest.mark.parametrize("records", [0, 1, 3])
@pytest.mark.parametrize("version", ALL)
def test_records_lie_interleaved(tmp_path: Path, version: int, records: int) -> None:
    path = create(tmp_path / "a.nc", version, records)
    assert_as_store(path, engines(version)[0])
    assert_opened(path, *engines(version))
    assert_opened(path, *engines(version), decode_cf=False)
    assert_opened(path, *engines(version), concat_characters=False)


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        *((version, kind) for version in ALL for kind in ("i1", "S1", "i2", "f8")),
        (5, "u1"),
        (5, "u2"),
    ],
)
def test_one_record_variable_alone_is_not_padded(tmp_path: Path, version: int, kind: str) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format=FORMATS[version]) as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        values = np.arange(97, 109, dtype="u1").reshape(4, 3)
        file.createVariable("before", "i1", ("x",))[:] = [1, 2, 3]
        file.createVariable("v", kind, ("time", "x"))[:] = (
            values.view("S1") if kind == "S1" else values
        )
    # SciPy can't read those that netCDF-C writes beside others and pads to 4 bytes in the header
    assert_opened(path, "netcdf4", decode_cf=False)
    segments = virtual(scan(path), "v").segments
    assert len(segments.pages[0]) == 1, "one run of bytes"


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("version", CLASSIC)
def test_files_of_scipy(tmp_path: Path, version: int, several: bool) -> None:
    path = tmp_path / "a.nc"
    with netcdf_file(path, "w", version=version) as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.history = "made"
        for name in ("a", "b") if several else ("a",):
            made = file.createVariable(name, "h", ("time", "x"))
            made[:5] = np.arange(15).reshape(5, 3)
        file.createVariable("c", "d", ("x",))[:] = [1, 2, 3]
    assert_as_store(path)
    assert_opened(path, "scipy", "netcdf4")


@pytest.mark.parametrize("version", ALL)
def test_attributes_of_every_type(tmp_path: Path, version: int) -> None:
    kinds = ["i1", "i2", "i4", "f4", "f8"] + (
        ["u1", "u2", "u4", "i8", "u8"] if version == 5 else []
    )
    attrs: dict[str, Any] = {
        "text": "größe".encode(),
        "empty": b"",
        "latin1": b"gr\xf6\xdfe",
        "nulls": b"a\0b\0\0",
        "null": b"\0",
        "least_significant_digit": np.int32(3),
    }
    for kind in kinds:
        limit = np.finfo(kind).max if kind[0] == "f" else np.iinfo(kind).max
        attrs[f"one_{kind}"] = np.array([limit], kind)
        attrs[f"two_{kind}"] = np.array([limit, 1], kind)
        attrs[f"none_{kind}"] = np.array([], kind)
    fills = [Var("c", [0], "S1", 0, {"_FillValue": b"x"} | attrs)]
    fills += [Var("d", [0], "S1", 4, {"_FillValue": b"\0"})]
    fills += [
        Var(k, [0], k, 8 + 16 * i, {"_FillValue": np.ones(1, k)}) for i, k in enumerate(kinds)
    ]
    path = tmp_path / "a.nc"
    path.write_bytes(header(version, 0, [("x", 2)], fills, attrs) + bytes(8 + 16 * len(kinds)))
    scanned = assert_as_store(path, engines(version)[0])
    assert type(scanned.attrs["two_f8"]) is np.ndarray
    assert scanned.attrs["two_f8"].dtype == np.dtype("=f8" if version == 5 else ">f8")
    assert type(scanned.attrs["one_i2"]) is np.int16
    assert scanned.attrs["text"] == "größe"
    opened = assert_opened(path, engines(version)[0])
    opened.intarsia.save(str(tmp_path / "a.intarsia"))
    again = intarsia.open_dataset(tmp_path / "a.intarsia")
    assert not differences_from(again, path, engines(version)[0])


@pytest.mark.parametrize("version", ALL)
def test_names_are_utf8(tmp_path: Path, version: int) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format=FORMATS[version]) as file:
        file.createDimension("höhe", 2)
        file.createVariable("größe", "f4", ("höhe",))[:] = 1
        file.setncattr("naïve", "ja")
    scanned = assert_as_store_names(path)
    assert list(scanned.variables) == ["größe"]
    assert_opened(path, "netcdf4")
    old = tmp_path / "old.nc"
    content = header(version, 0, [("x", 2)], [Var("größe".encode("latin1"), [0], "i1", 0)])
    old.write_bytes(content + bytes(4))
    if version < 5:
        assert list(scan(old).variables) == ["größe"], "from before names had an encoding"
        return
    with pytest.raises(CorruptFile, match="not UTF-8"):
        scan(old)


def assert_as_store_names(path: Path) -> Any:
    scanned = scan(path)
    with xr.open_dataset(path, engine="netcdf4", decode_cf=False) as expected:
        assert list(scanned.variables) == list(expected.variables)
        assert list(scanned.attrs) == list(expected.attrs)
        assert set(scanned.sizes) == set(expected.sizes)
    return scanned


def test_byte_order_and_unsigned(tmp_path: Path) -> None:
    """xarray's stores give numbers in native order, so that ``_Unsigned`` data have their fill."""
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format=FORMATS[2]) as file:
        file.createDimension("time", None)
        file.createDimension("x", 4)
        made = file.createVariable("v", "i2", ("time", "x"), fill_value=-2)
        made.setncattr("_Unsigned", "true")
        made.set_auto_maskandscale(False)
        made[:] = np.array([[-2, -1, 254, 255]] * 3, "i2")
        other = file.createVariable("w", "i2", ("time", "x"), fill_value=7)
        other.setncatts({"scale_factor": np.float32(0.1), "add_offset": np.float64(3)})
        other.set_auto_maskandscale(False)
        other[:] = np.arange(12).reshape(3, 4)
    opened = assert_opened(path, "scipy", "netcdf4")
    assert np.isnan(opened.v.values[0, 0])
    assert opened.v.values[0, 1] == 65535
    raw = assert_opened(path, "scipy", decode_cf=False)
    assert raw.v.values.dtype.isnative


def test_absent_fill_is_a_value_like_others(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format=FORMATS[1]) as file:
        file.createDimension("time", None)
        file.createVariable("v", "f4", ("time",))[2] = 1.0
        file.createVariable("w", "i2", ("time",))
    opened = assert_opened(path, "scipy", "netcdf4")
    assert opened.v.values[0] == np.float32(netCDF4.default_fillvals["f4"])


@pytest.mark.filterwarnings("ignore:Duplicate dimension names:UserWarning")
def test_a_dimension_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    content = header(1, 0, [("x", 2)], [Var("v", [0, 0], "i4", 0)])
    path.write_bytes(content + np.arange(4, dtype=">i4").tobytes())
    assert_as_store(path)


# -- records in parts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "inner"),
    [
        ("i1", (5, 70001)),  # strips of a part of a row
        ("f8", (100003,)),
        ("f4", (7, 5, 61, 83)),  # strips of several rows
        ("i2", (2, 3, 131072)),  # strips that divide
        ("i4", (300, 1)),
    ],
)
def test_large_slabs_are_cut_in_strips(tmp_path: Path, kind: str, inner: tuple[int, ...]) -> None:
    path = tmp_path / "a.nc"
    dims = [f"d{i}" for i in range(len(inner))]
    shape = (3, *inner)
    values = np.arange(np.prod(shape)).reshape(shape).astype(kind)
    with netCDF4.Dataset(path, "w", format=FORMATS[2]) as file:
        file.createDimension("time", None)
        for name, size in zip(dims, inner, strict=True):
            file.createDimension(name, size)
        file.createVariable("t", "i1", ("time",))[:3] = [1, 2, 3]
        file.createVariable("v", kind, ("time", *dims))[:] = values
    array = virtual(scan(path), "v")
    assert_same("v", np.asarray(array), values)
    assert max(int(page.lengths.max()) for page in array.segments.pages) <= 1 << 18
    part = (slice(1, 3), *(slice(size // 2, size // 2 + 2) for size in inner))
    assert_same("part", np.asarray(array[part]), values[part])


def test_many_records_take_little_memory(tmp_path: Path) -> None:
    count = 50_000
    path = tmp_path / "a.nc"
    variables = [Var("a", [0], "f4", 0, {}, 4), Var("b", [0, 1], "i2", 4, {}, 8)]
    data = np.zeros(count, [("a", ">f4"), ("b", ">i2", (3,)), ("pad", "V2")])
    data["a"], data["b"] = np.arange(count), np.arange(3 * count).reshape(count, 3) % 30000
    path.write_bytes(header(1, count, [("t", 0), ("x", 3)], variables) + data.tobytes())
    scanned = assert_as_store(path)
    pages = virtual(scanned, "b").segments.pages
    assert sum(page.nbytes for page in pages) <= 5 * count
    opened = intarsia.open_dataset(path)
    opened.intarsia.save(str(tmp_path / "a.intarsia.zip"))
    assert os.path.getsize(tmp_path / "a.intarsia.zip") < 40_000
    again = intarsia.open_dataset(tmp_path / "a.intarsia.zip")
    assert not differences_from(again, path, "scipy")


# -- large files, of holes -------------------------------------------------------------------------


def sparse(path: Path, content: bytes, size: int, pieces: dict[int, bytes]) -> None:
    with open(path, "wb") as file:
        file.write(content)
        os.truncate(path, len(content) + size)
        for offset, data in pieces.items():
            file.seek(len(content) + offset)
            file.write(data)
    if os.stat(path).st_blocks * 512 > 1 << 30:
        pytest.skip("the file system has no holes")


@pytest.mark.parametrize("vsize", [(1 << 32) - 1, 0, 12345])
def test_the_last_variable_is_large(tmp_path: Path, vsize: int) -> None:
    """In CDF-1 it may be longer than its size can say."""
    path = tmp_path / "a.nc"
    dims = [("y", 70_000), ("x", 70_000)]
    content = header(
        1,
        0,
        dims,
        [Var("a", [1], "i1", 0, vsize=70_000), Var("v", [0, 1], "i1", 70_000, {}, vsize)],
    )
    end = 70_000 + 70_000**2
    sparse(path, content, end, {70_000: b"\1\2", 70_000 + 69_999 * 70_000: b"\3\4", end - 1: b"\5"})
    opened = intarsia.open_dataset(path)
    assert opened.v.shape == (70_000, 70_000)
    assert opened.v[0, :3].values.tolist() == [1, 2, 0]
    assert opened.v[69_999, :3].values.tolist() == [3, 4, 0]
    assert opened.v[-1, -2:].values.tolist() == [0, 5]
    with xr.open_dataset(path, engine="scipy") as expected:
        for key in [(0, slice(3)), (69_999, slice(3)), (-1, slice(-2, None))]:
            assert not value_differences("v", opened.v[key].values, expected.v[key].values)


@pytest.mark.parametrize("version", [2, 5])
def test_offsets_beyond_4_gib(tmp_path: Path, version: int) -> None:
    """Fixed variables and records whose slabs are larger; numbers that 32 bits can't hold."""
    path = tmp_path / "a.nc"
    large = 3_000_000_000
    dims = [("t", 0), ("x", large), ("two", 2)]
    step = 2 * large + 8
    variables = [
        Var("fixed", [1], "i1", 0, vsize=large),
        Var("after", [2], "i4", large, vsize=8),
        Var("small", [0, 2], "i4", large + 8, vsize=8),
        Var("record", [0, 1], "i2", large + 16, vsize=2 * large if version == 5 else (1 << 32) - 1),
    ]
    two = np.array([7, 8], ">i4").tobytes()
    second = large + 8 + step
    sparse(
        path,
        header(version, 2, dims, variables),
        large + 8 + 2 * step,
        {
            large - 1: b"\5",
            large: two,
            large + 8: two,
            second: two,
            second + 8: b"\0\1",
            second + 8 + 2 * large - 2: b"\0\2",
        },
    )
    opened = intarsia.open_dataset(path)
    assert opened.fixed[-2:].values.tolist() == [0, 5]
    assert opened.after.values.tolist() == [7, 8]
    assert opened.record[1, :2].values.tolist() == [1, 0]
    assert opened.record[1, -2:].values.tolist() == [0, 2]
    assert opened.small.values.tolist() == [[7, 8], [7, 8]]
    with netCDF4.Dataset(path) as file:
        assert file["record"][1, -2:].tolist() == [0, 2]
        assert file["small"][:].tolist() == [[7, 8], [7, 8]]


# -- what is read, and how it is asked for ---------------------------------------------------------


@pytest.mark.parametrize("version", ALL)
def test_no_more_than_the_header_is_read(tmp_path: Path, version: int) -> None:
    path = tmp_path / "a.nc"
    for length, most in [(10, 1), (300_000, 4)]:
        attrs = {"history": b"x" * length}
        content = header(version, 0, [("x", 1 << 20)], [Var("v", [0], "f8", 0)], attrs)
        path.write_bytes(content + bytes(8 << 20))
        with opened_file(str(path)) as opened:
            counting = Counting(opened)
            scanned = scan(counting)
            source = opened.source
        assert len(counting.reads) <= most
        assert sum(nbytes for _, nbytes in counting.reads) <= max(1 << 16, 2 * len(content))
        ends = [offset + nbytes for offset, nbytes in counting.reads]
        assert [offset for offset, _ in counting.reads] == [0, *ends[:-1]], "nothing twice"
        assert scanned.sources[0] == source
        assert scanned.attrs["history"] == "x" * length


def test_groups_and_arguments(tmp_path: Path) -> None:
    path = create(tmp_path / "a.nc", 2)
    assert list(scan(path, group="/").variables) == list(scan(path).variables)
    assert list(scan_groups(path)) == ["/"]
    with pytest.raises(FormatError, match="no group '/a/b'") as caught:
        scan(path, group="a/b")
    assert caught.value.url == str(path)
    with pytest.raises(UnsupportedError, match="phony_dims"):
        scan(path, phony_dims="sort")
    assert "scalar" not in scan(path, drop_variables={"scalar"}).variables
    scanned = dispatch.scan(str(path), drop_variables="scalar", choices='{"decode_times":false}')
    assert "scalar" in scanned.variables  # others can be decoded by it
    assert scanned.sources[0].scan == '{"decode_times":false}'
    again = pickle.loads(pickle.dumps(scanned))
    assert list(again.variables) == list(scanned.variables)
    tree = intarsia.open_datatree(path)
    assert not differences_from(tree.to_dataset(), path, "scipy")


class TestContract(ScanContract):
    """What every scan has to keep."""

    @pytest.fixture(autouse=True)
    def made(self, tmp_path: Path) -> None:
        self.path = create(tmp_path / "a.nc", 5)

    def scan(self) -> Any:
        return scan(self.path)

    def holds(self) -> Any:
        with xr.open_dataset(self.path, engine="netcdf4", decode_cf=False) as opened:
            return {
                str(name): variable.values.astype(variable.dtype.newbyteorder(">"))
                for name, variable in opened.variables.items()
            }
