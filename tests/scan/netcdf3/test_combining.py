"""netCDF3 with other netCDF3, and with netCDF-4, as one dataset: each part by its own nature."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import netcdf_file

import intarsia
from tests.compare import differences
from tests.scan.netcdf3.files import FORMATS, differences_from, quiet, with_native_attributes

JOINING: dict[str, Any] = {"join": "exact", "compat": "override", "coords": "minimal"}
NESTED: dict[str, Any] = {"combine": "nested", **JOINING, "data_vars": "all"}
CONCAT: dict[str, Any] = {**JOINING, "data_vars": "all", "combine_attrs": "override"}

pytestmark = pytest.mark.filterwarnings("ignore::xarray.SerializationWarning")


def opened(path: Path | str) -> xr.Dataset:
    """A file as xarray gives it, with the library for its format, loaded."""
    engine = "netcdf4" if Path(path).read_bytes()[:3] == b"CDF" else "h5netcdf"
    with quiet(), xr.open_dataset(path, engine=engine, cache=False) as found:
        return found.load().drop_encoding()


def check_saved(dataset: xr.Dataset, place: Path, expected: xr.Dataset) -> None:
    """The store of it gives the same, and is verified against the files."""
    dataset.intarsia.save(str(place))
    again = intarsia.open_dataset(place)
    assert not differences(with_native_attributes(again), expected)
    result = intarsia.verify(str(place))
    assert result.ok, result.text()
    assert not result.uncompared, result.text()


# -- real files ------------------------------------------------------------------------------------


def test_a_real_file(real_file: Callable[[str], Path], tmp_path: Path) -> None:
    path = real_file("netcdf3/eraint_uvz.nc")
    dataset = intarsia.open_dataset(path)
    for engine in ("scipy", "netcdf4"):
        assert not differences_from(dataset, path, engine)
        raw = intarsia.open_dataset(path, decode_cf=False)
        assert not differences_from(raw, path, engine, decode_cf=False)
    assert {"z", "u", "v"} <= dataset.intarsia.arrays.keys()
    part = dataset.isel(level=1, latitude=slice(None, None, -7), longitude=slice(3, 300, 2))
    assert not differences(part, opened(path).isel(part_key()))
    check_saved(dataset, tmp_path / "a.intarsia", opened(path))


def part_key() -> dict[str, Any]:
    return {"level": 1, "latitude": slice(None, None, -7), "longitude": slice(3, 300, 2)}


def test_a_real_file_whose_times_nobody_decodes(real_file: Callable[[str], Path]) -> None:
    path = real_file("netcdf3/CRM032_test1.nc")
    for arguments in ({"decode_times": False}, {"decode_cf": False}):
        dataset = intarsia.open_dataset(path, **arguments)
        for engine in ("scipy", "netcdf4"):
            assert not differences_from(dataset, path, engine, **arguments)


PARTS: list[tuple[str, dict[str, Any], Any]] = [
    ("NETCDF3_CLASSIC", {"dtype": "i2", "scale_factor": 0.5, "add_offset": 10.0}, ()),
    ("NETCDF4", {"dtype": "i2", "scale_factor": 2.0, "add_offset": -3.0, "zlib": True}, ()),
    ("NETCDF3_64BIT_OFFSET", {"dtype": "f4", "_FillValue": -1.0}, ["latitude"]),
    ("NETCDF4", {"dtype": "i4", "scale_factor": 0.01, "chunksizes": (1, 2, 17, 31)}, ()),
    ("NETCDF3_64BIT_DATA", {"dtype": "i4", "scale_factor": 0.001, "add_offset": 1e5}, ()),
    ("NETCDF3_CLASSIC", {"dtype": "f8"}, ["month"]),
]


def test_a_real_file_in_unlike_parts(real_file: Callable[[str], Path], tmp_path: Path) -> None:
    """Cut along two dimensions, each part packed otherwise, in each of the formats."""
    whole = xr.load_dataset(real_file("netcdf3/eraint_uvz.nc"), engine="scipy")
    whole = whole.isel(longitude=slice(0, 160)).drop_encoding()
    paths: list[list[str]] = []
    for month in range(2):
        paths.append([])
        for number, first in enumerate(range(0, 241, 90)):
            form, packing, unlimited = PARTS[month * 3 + number]
            part = whole.isel(month=[month], latitude=slice(first, first + 90))
            if unlimited == ["latitude"]:
                part = part.transpose("latitude", ...)
            path = str(tmp_path / f"{month}{number}.nc")
            part.to_netcdf(
                path,
                engine="netcdf4",
                format=form,
                encoding=dict.fromkeys(("z", "u", "v"), packing),
                unlimited_dims=unlimited,
            )
            paths[-1].append(path)
    dims = ["month", "latitude"]
    dataset = intarsia.open_mfdataset(paths, concat_dim=dims, **NESTED)
    expected = xr.combine_nested([[opened(p) for p in row] for row in paths], dims, **CONCAT)
    assert {"z", "u", "v"} <= dataset.intarsia.arrays.keys()
    assert not differences(with_native_attributes(dataset), expected)
    part = {"level": [2, 0], "latitude": slice(80, 200, 3), "longitude": 7}
    assert not differences(with_native_attributes(dataset.isel(part)), expected.isel(part))
    check_saved(dataset, tmp_path / "a.intarsia.zip", expected)


# -- verifying -------------------------------------------------------------------------------------


@pytest.mark.parametrize("installed", [True, False])
def test_it_is_verified_with_what_is_installed(
    tmp_path: Path, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for the root by its name, which SciPy's engine knows no argument for."""
    path = tmp_path / "a.nc"
    whole = xr.Dataset({"v": (("t", "x"), np.arange(12.0).reshape(4, 3))})
    packing = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}
    whole.to_netcdf(path, engine="scipy", unlimited_dims=["t"])
    whole.to_netcdf(tmp_path / "b.nc", engine="netcdf4", encoding={"v": packing})
    if not installed:
        monkeypatch.setattr("intarsia.xarray.verifying.original.find_spec", lambda _: None)
    paths = [str(path), str(tmp_path / "b.nc")]
    dataset = intarsia.open_mfdataset(paths, concat_dim="t", group="/", **NESTED)
    expected = xr.concat([opened(path) for path in paths], "t", **CONCAT)
    check_saved(dataset, tmp_path / "a.intarsia", expected)


def test_what_netcdf_c_refuses_is_verified_with_scipy(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netcdf_file(path, "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        for name in ("a", "b"):
            file.createVariable(name, "b", ("t",))
        file.createVariable("c", "i", ("x",))[:] = [1, 2, 3]
    with pytest.raises(OSError, match="Unknown file format"):
        opened(path)
    dataset = intarsia.open_dataset(path)
    assert not differences_from(dataset, path, "scipy")
    assert intarsia.verify(dataset).ok


# -- made files ------------------------------------------------------------------------------------

VALUES = {"i1": (-100, 100), "i2": (-30000, 30000), "i4": (-2_000_000_000, 2_000_000_000)}


@st.composite
def packings(draw: st.DrawFn) -> dict[str, Any]:
    """How a part of ``v`` is packed."""
    kind = draw(st.sampled_from(["i1", "i2", "i4", "f4", "f8"]))
    packing: dict[str, Any] = {"dtype": kind}
    if draw(st.booleans()):
        packing["_FillValue"] = draw(st.integers(-100, 100))
    if draw(st.booleans()):
        packing["scale_factor"] = draw(st.sampled_from([0.5, 0.1, 3.0]))
        packing["scale_factor"] = draw(st.sampled_from([np.float32, np.float64]))(
            packing["scale_factor"]
        )
    if draw(st.booleans()):
        packing["add_offset"] = draw(st.sampled_from([np.float32, np.float64]))(280.5)
    return packing


@st.composite
def parts(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "form": draw(st.sampled_from([*FORMATS.values(), "NETCDF4", "NETCDF4_CLASSIC"])),
        "length": draw(st.integers(1, 4)),
        "packing": draw(packings()),
        "unlimited": draw(st.booleans()),
        "seed": draw(st.integers(0, 1000)),
        "more": draw(st.booleans()),
        "transposed": draw(st.booleans()),
        "epoch": draw(st.sampled_from(["days since 2000-01-01", "hours since 1990-06-01"])),
    }


def write(path: Path, part: dict[str, Any], first: int) -> None:
    """One part, of so many days from `first` on, packed by hand."""
    rng = np.random.default_rng(part["seed"])
    count, packing = part["length"], dict(part["packing"])
    kind = packing.pop("dtype")
    with netCDF4.Dataset(path, "w", format=part["form"]) as file:
        file.createDimension("time", None if part["unlimited"] else count)
        file.createDimension("x", 3)
        time = file.createVariable("time", "i4", ("time",))
        time.units = part["epoch"]
        days = np.arange(first, first + count)
        time[:] = days if part["epoch"].startswith("days") else (days + 3501) * 24
        turned = part["transposed"] and not part["unlimited"]
        dims = ("x", "time") if turned else ("time", "x")
        chunks = (2, 2) if part["form"].startswith("NETCDF4") and count > 1 else None
        v = file.createVariable(
            "v", kind, dims, fill_value=packing.pop("_FillValue", None), chunksizes=chunks
        )
        v.set_auto_maskandscale(False)
        v.setncatts(packing | {"valid_range": np.array([1, 2], "f4"), "units": "K"})
        if kind[0] == "i":
            low, high = VALUES[kind]
            values = rng.integers(low, high, (count, 3)).astype(kind)
        else:
            values = rng.normal(0, 100, (count, 3)).astype(kind)
        values[0, 0] = np.array(getattr(v, "_FillValue", 0)).astype(kind)
        v[:] = values.T if turned else values
        if part["more"]:
            flag = file.createVariable("flag", "i1", ("time",))
            flag[:] = rng.integers(0, 3, count)
            file.createVariable("mask", "i2", ("x",))[:] = [1, 2, 3]
        name = file.createVariable("name", "S1", ("time", "x"))
        name[:] = rng.integers(97, 122, (count, 3), np.uint8).view("S1")


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(parts(), min_size=2, max_size=4), st.booleans())
def test_parts_of_all_formats(pieces: list[dict[str, Any]], more: bool) -> None:
    """Random packings, epochs and orders of dimensions, joined along time, saved and verified."""
    with tempfile.TemporaryDirectory() as folder:
        first, paths = 0, list[str]()
        for number, part in enumerate(pieces):
            path = Path(folder) / f"{number}.nc"
            write(path, part | {"more": more}, first)
            first += part["length"]
            paths.append(str(path))
        expected = xr.concat([opened(path) for path in paths], "time", **CONCAT)
        dataset = intarsia.open_mfdataset(paths, concat_dim="time", **NESTED)
        assert not differences(with_native_attributes(dataset), expected)
        part = {"time": slice(None, None, -2), "x": [2, 0]}
        assert not differences(with_native_attributes(dataset.isel(part)), expected.isel(part))
        check_saved(dataset, Path(folder) / "a.intarsia", expected)


@st.composite
def contents(draw: st.DrawFn) -> dict[str, Any]:
    """A small file: which dimensions, and variables with what dimensions, types and attributes."""
    version = draw(st.sampled_from([1, 2, 5]))
    kinds = ["i1", "S1", "i2", "i4", "f4", "f8"]
    wide = [*kinds, "u1", "u2", "u4", "i8", "u8"] if version == 5 else kinds
    attributes = st.dictionaries(
        st.sampled_from(["units", "größe", "a", "b c"] if version == 5 else ["units", "a", "b c"]),
        st.text("abcxyzö", max_size=5)
        | st.integers(-5, 5).map(np.int16)
        | st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=3).map(np.float32),
        max_size=2,
    )
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    variables = draw(
        st.lists(
            st.tuples(
                st.sampled_from(wide),
                st.booleans(),
                st.lists(st.integers(0, len(sizes) - 1), max_size=3, unique=True),
                attributes,
            ),
            max_size=5,
        )
    )
    return {
        "version": version,
        "records": draw(st.integers(0, 4)),
        "sizes": sizes,
        "variables": variables,
        "attrs": draw(attributes),
        "scipy": version < 5 and draw(st.booleans()),
        "seed": draw(st.integers(0, 100)),
    }


def create(path: Path, content: dict[str, Any]) -> None:
    rng = np.random.default_rng(content["seed"])
    with quiet():
        if content["scipy"]:
            file: Any = netcdf_file(path, "w", version=content["version"])
        else:
            file = netCDF4.Dataset(path, "w", format=FORMATS[content["version"]])
        with file:
            file.createDimension("t", None)
            for number, size in enumerate(content["sizes"]):
                file.createDimension(f"d{number}", size)
            for key, value in content["attrs"].items():
                set_attribute(file, key, value, content["scipy"])
            some = any(is_record for _, is_record, _, _ in content["variables"])
            for number, (kind, is_record, dims, attrs) in enumerate(content["variables"]):
                if content["scipy"] and some and not dims:
                    dims = [0]  # SciPy writes scalars over the second record
                names = [*(["t"] if is_record else []), *(f"d{n}" for n in dims)]
                lengths = [content["records"]] if is_record else []
                shape = (*lengths, *(content["sizes"][n] for n in dims))
                written = "c" if content["scipy"] and kind == "S1" else kind
                made = file.createVariable(f"v{number}", written, tuple(names))
                raw = rng.integers(97, 122, (*shape, np.dtype(kind).itemsize), np.uint8)
                values = raw.view(kind)[..., 0]
                if shape and 0 not in shape:
                    made[:] = values
                elif not shape and content["scipy"]:
                    made.data[...] = values
                elif not shape:
                    made[...] = values
                for key, value in attrs.items():
                    set_attribute(made, key, value, content["scipy"])


def set_attribute(where: Any, key: str, value: Any, scipy: bool) -> None:
    if not scipy:
        where.setncattr(key, value)
    else:
        setattr(where, key, value.encode() if isinstance(value, str) else value)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(contents())
def test_small_files(content: dict[str, Any]) -> None:
    """What SciPy and netCDF-C write is what netCDF-C reads, and SciPy where it can."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.nc"
        create(path, content)
        for arguments in ({"decode_cf": False}, {}):
            dataset = intarsia.open_dataset(path, **arguments)
            if not content["scipy"] or content["records"]:  # netCDF-C refuses SciPy's empty ones
                assert not differences_from(dataset, path, "netcdf4", **arguments)
            records = [one for one in content["variables"] if one[1]]
            # a lone record variable that netCDF-C pads in the header alone is beyond SciPy
            if content["version"] < 5 and (len(records) != 1 or content["scipy"]):
                assert not differences_from(dataset, path, "scipy", **arguments)
