"""Files with HDF5's plug-in filters: as xarray reads them, saved, and without the plug-ins."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
import pytest
import xarray as xr
import zarr
from h5py import h5d, h5p, h5s, h5t, h5z

import intarsia
from intarsia.codecs.cases import case_json
from intarsia.codecs.hdf5 import decode, hdf5_codec
from intarsia.codecs.hdf5_filters import remedy_for, unavailable
from intarsia.errors import ChunkError
from intarsia.scan.hdf5 import scan
from tests.check import check_equal, is_virtual
from tests.scan.store import assert_as_xarray, opaque, virtual

NATIVE = {
    "zstd": hdf5plugin.Zstd(),
    "blosc": hdf5plugin.Blosc(cname="lz4", shuffle=hdf5plugin.Blosc.BITSHUFFLE),
    "lz4": hdf5plugin.LZ4(nbytes=96),
    "bzip2": hdf5plugin.BZip2(),
    "bitshuffle": hdf5plugin.Bitshuffle(cname="none"),
    "bitshuffle-lz4": hdf5plugin.Bitshuffle(nelems=8),
    "bitshuffle-zstd": hdf5plugin.Bitshuffle(cname="zstd"),
}
LEFT = {
    "snappy": hdf5plugin.Blosc(cname="snappy"),
    "blosc2": hdf5plugin.Blosc2(),
    "zfp": hdf5plugin.Zfp(reversible=True),
    "zfp-accuracy": hdf5plugin.Zfp(accuracy=0.1),
    "zfp-rate": hdf5plugin.Zfp(rate=9.5),
    "sz": hdf5plugin.SZ(absolute=0.1),
    "sz3": hdf5plugin.SZ3(absolute=0.1),
    "sperr": hdf5plugin.Sperr(absolute=0.1),
    "fcidecomp": hdf5plugin.FciDecomp(),
    "htj2k": hdf5plugin.Htj2k(),
}
"""What is left to the HDF5 library."""
PLUGINS = NATIVE | LEFT
TYPES = {"sz": "<f4", "sz3": "<f8", "sperr": "<f4", "fcidecomp": "<u2", "htj2k": "<u2"}
RNG = np.random.default_rng(0)


def numbers(dtype, shape=(11, 13)):
    return (100 + RNG.normal(0, 4, shape).cumsum(-1)).astype(dtype)


def create(file, values, *filters, chunks=(4, 6), fill=None, name=b"x"):
    """A dataset of which nothing is written yet."""
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk(chunks)
    for one in filters:
        if one == "shuffle":
            creation.set_shuffle()
        elif one == "deflate":
            creation.set_deflate(4)
        elif one == "fletcher32":
            creation.set_fletcher32()
        elif one == "lzf":
            creation.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL)
        elif one == "scaleoffset":
            creation.set_scaleoffset(h5z.SO_INT, 0)
        elif one == "szip":
            creation.set_szip(h5z.SZIP_NN_OPTION_MASK, 8)
        else:
            made = PLUGINS[one]
            creation.set_filter(made.filter_id, h5z.FLAG_OPTIONAL, made.filter_options)
    if fill is not None:
        creation.set_fill_value(np.array(fill, values.dtype))
    kind = h5t.py_create(values.dtype)
    most = (h5s.UNLIMITED if chunks > values.shape else None,) * values.ndim
    space = h5s.create_simple(values.shape, *[most] * (most[0] is not None))
    return h5py.Dataset(h5d.create(file.id, name, kind, space, creation))


def write(path, values, *filters, **options):
    with h5py.File(path, "w") as file:
        # the last row of chunks is never written
        create(file, values, *filters, **options)[:-3] = values[:-3]


def filters_of(path):
    return virtual(scan(str(path))).segments.cases[0].encoding.filters


@pytest.mark.parametrize("dtype", ["u1", ">i2", "<f4", ">f8"])
@pytest.mark.parametrize("chunks", [(4, 6), (1, 5), (64, 64)], ids=str)
@pytest.mark.parametrize("name", NATIVE)
def test_types_and_chunks(tmp_path, name, chunks, dtype):
    path = tmp_path / "x.h5"
    write(path, numbers(dtype), name, chunks=chunks, fill=9)
    assert_as_xarray(path)
    (codec,) = filters_of(path)
    assert codec.name != "hdf5"


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_to_the_library(tmp_path, name):
    path = tmp_path / "x.h5"
    write(path, numbers(TYPES.get(name, "<f4"), (35, 45)), name, chunks=(16, 20))
    assert_as_xarray(path)
    (codec,) = filters_of(path)
    assert codec.name == "hdf5"


@pytest.mark.parametrize("name", [*NATIVE, "blosc2", "snappy"])
@pytest.mark.parametrize(
    "filters",
    [
        ("shuffle", "*"),
        ("shuffle", "*", "fletcher32"),
        ("fletcher32", "*", "deflate"),
        ("deflate", "*"),
        ("scaleoffset", "*", "fletcher32"),
        ("scaleoffset", "shuffle", "*"),
        ("szip", "*"),
        ("lzf", "*"),
        ("*", "lzf"),
        ("*", "shuffle", "deflate"),
    ],
    ids="-".join,
)
def test_with_other_filters(tmp_path, name, filters):
    path = tmp_path / "x.h5"
    write(path, numbers("<i4"), *[name if one == "*" else one for one in filters], fill=3)
    assert_as_xarray(path)
    if name in NATIVE:
        inner = {"scaleoffset", "szip", "lzf"} & set(filters)
        assert (filters_of(path)[0].name == "hdf5") is bool(inner)
        case_json(virtual(scan(str(path))).segments.cases[0].encoding)


@pytest.mark.parametrize("name", ["zstd", "lz4", "blosc2", "deflate"])
def test_szip_of_compressed_bytes_is_refused(tmp_path, name):
    """HDF5 itself does not read back what it writes so."""
    path = tmp_path / "x.h5"
    write(path, numbers("<i4"), name, "shuffle", "szip")
    assert f"the filter szip after {name}" in opaque(scan(str(path))).reason


@pytest.mark.parametrize("name", ["zstd", "lz4", "blosc", "bzip2", "bitshuffle-lz4", "blosc2"])
def test_each_chunk_may_skip_filters(tmp_path, name):
    path = tmp_path / "x.h5"
    filters = ("shuffle", name, "fletcher32")
    values = numbers("<i4", (16, 6))
    with h5py.File(path, "w") as file:
        dataset = create(file, values, *filters, chunks=(2, 6))
        for wanted in range(8):
            rows = slice(2 * wanted, 2 * wanted + 2)
            left = [i for i in range(3) if not wanted >> i & 1]
            with h5py.File.in_memory() as memory:
                one = create(memory, values[rows], *[filters[i] for i in left], chunks=(2, 6))
                one[...] = values[rows]
                memory.flush()
                skipped, chunk = one.id.read_direct_chunk((0, 0))
            mask = wanted | sum((skipped >> place & 1) << i for place, i in enumerate(left))
            dataset.id.write_direct_chunk((rows.start, 0), chunk, mask)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["x"][...], values)
    virtual(assert_as_xarray(path))


REAL = ("bitshuffle", "blosc_lz4_bitshuffle", "lz4", "zstd")


@pytest.mark.parametrize("name", REAL)
def test_real_files(real_file, name):
    path = real_file(f"hdf5/hdf5_compression_{name}.h5")
    scanned = assert_as_xarray(path)
    cases = [virtual(scanned, name).segments.cases[0] for name in scanned.variables]
    codecs = [case.encoding.filters for case in cases]
    assert any(codecs)
    assert all(codec.name != "hdf5" for filters in codecs for codec in filters)


# -- as datasets -----------------------------------------------------------------------------------


def era(path: Path, number: int, plugin: str, values: np.ndarray, **options: object) -> Path:
    """A netCDF file of a few days."""
    times = xr.date_range(f"2001-{number + 1:02}-01", periods=len(values))
    data = xr.DataArray(values, {"time": times}, ("time", "lat", "lon"), "v", {"units": "K"})
    encoding = {"chunksizes": (2, 5, 4), "shuffle": False, **PLUGINS[plugin], **options}
    data.to_netcdf(path, engine="h5netcdf", encoding={"v": encoding})
    return path


@pytest.fixture
def eras(tmp_path):
    """Files of one series, each with a codec, type and packing of its own."""
    paths = []
    for number, (name, dtype) in enumerate(zip(NATIVE, [">i2", "<f4", "<i4"] * 3, strict=False)):
        packing = {"dtype": "<i2", "scale_factor": 0.5, "_FillValue": -1} if number == 4 else {}
        values = numbers(dtype, (3, 7, 9))
        paths.append(era(tmp_path / f"{number}.nc", number, name, values, **packing))
    return paths


def test_datasets_are_those_of_xarray(eras):
    for path in eras:
        check_equal(str(path), virtual=["v"])
    paths = [str(path) for path in eras]
    check_equal(paths, virtual=["v"], combine="nested", concat_dim="time")


def test_saved_and_read_by_zarr(eras, tmp_path):
    paths = [str(path) for path in eras]
    ds = intarsia.open_mfdataset(paths, combine="nested", concat_dim="time")
    expected = ds.v.values
    ds.intarsia.save(tmp_path / "s.intarsia")
    again = intarsia.open_dataset(tmp_path / "s.intarsia")
    assert is_virtual(again, "v")
    np.testing.assert_array_equal(again.v.values, expected)
    store = intarsia.open_store(tmp_path / "s.intarsia")
    shown = zarr.open_group(store, mode="r")["v"]
    np.testing.assert_array_equal(shown[...], expected)


def test_what_needs_a_plug_in_is_copied_when_saved(tmp_path):
    values = numbers("<f4", (6, 7, 9))
    path = era(tmp_path / "x.nc", 0, "blosc2", values)
    ds = intarsia.open_dataset(path)
    assert is_virtual(ds, "v")
    ds.intarsia.save(tmp_path / "s.intarsia")
    path.unlink()
    np.testing.assert_array_equal(intarsia.open_dataset(tmp_path / "s.intarsia").v.values, values)


def test_decoders_travel(tmp_path):
    path = tmp_path / "x.h5"
    values = numbers("<f4")
    write(path, values, "zfp")
    again = pickle.loads(pickle.dumps(virtual(scan(str(path)))))
    np.testing.assert_array_equal(np.asarray(again)[:8], values[:8])


# -- without the package ---------------------------------------------------------------------------


def without(code: str, *arguments: object) -> str:
    """What a process prints that can't import the package."""
    hidden = "import sys; sys.modules['hdf5plugin'] = None\n"
    run = subprocess.run(
        [sys.executable, "-c", hidden + code, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"HDF5_PLUGIN_PATH": "/nowhere"},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


REFUSED = """
import intarsia
for choice in ("raise", "copy"):
    try:
        print(intarsia.open_dataset(sys.argv[1], unsupported=choice).x.values)
    except intarsia.errors.UnsupportedVariable as error:
        print(choice, error)
"""


def test_without_the_package_it_is_named(tmp_path):
    path = tmp_path / "x.h5"
    write(path, numbers("<f4"), "shuffle", "blosc2")
    told = without(REFUSED, path).splitlines()
    assert [line.split()[0] for line in told] == ["raise", "copy"]
    for line in told:
        assert "stored with the filter blosc2" in line
        assert "install hdf5plugin (pip install 'intarsia[filters]')" in line


def test_without_the_package_native_filters_are_read(tmp_path):
    values = numbers("<i4", (8, 12))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name in NATIVE:
            create(file, values, "scaleoffset", name, name=name.encode())[...] = values
            create(file, values, "shuffle", name, name=b"2" + name.encode())[...] = values
    told = without(
        "import intarsia; ds = intarsia.open_dataset(sys.argv[1]); "
        "print(len(ds), sorted({int(v.values.sum()) for v in ds.values()}))",
        tmp_path / "x.h5",
    )
    assert told == f"{2 * len(NATIVE)} [{values.sum()}]"


def test_what_is_loaded_needs_the_package_too(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        text = np.array(["a", "bc"] * 4, object)
        file.create_dataset("x", data=text, chunks=(4,), **NATIVE["zstd"])
    scanned = assert_as_xarray(path)
    assert list(opaque(scanned).loader()) == ["a", "bc"] * 4
    told = without(
        "from intarsia.scan.hdf5 import scan; data = scan(sys.argv[1]).variables['x'].data; "
        "print(data.loader, data.remedy)",
        path,
    )
    assert told == "None install hdf5plugin (pip install 'intarsia[filters]')"
    code = """
import pickle
from intarsia.errors import UnsupportedVariable
try:
    pickle.loads(bytes.fromhex(sys.argv[1]))()
except UnsupportedVariable as error:
    print(error)
"""
    told = without(code, pickle.dumps(opaque(scanned).loader).hex())
    assert "lacks its filter" in told
    assert "install hdf5plugin" in told


def test_remedies():
    lzo, zfp = (305, 0, (), "lzo"), (32013, 0, (), "zfp")
    assert unavailable((zfp, lzo)) == [lzo]
    assert remedy_for((lzo, zfp)) == "install the HDF5 plug-in for LZO, zfp"


# -- hostile chunks and parameters -----------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [n for n in LEFT if n not in ("zfp-rate", "zfp-accuracy", "fcidecomp", "htj2k")]
)
def test_plug_ins_are_held_to_the_length_of_a_chunk(tmp_path, name):
    """HDF5 would give what the memory held."""
    path = tmp_path / "x.h5"
    dtype = TYPES.get(name, "<f4")
    values = np.full((35, 45), 7, dtype)
    values[:, ::3] += 2
    write(path, values, name, chunks=(16, 20))
    (codec,) = filters_of(path)
    entry = codec.config["pipeline"][0]
    with h5py.File(path) as file:
        mask, chunk = file["x"].id.read_direct_chunk((0, 0))
    assert mask == 0
    right = decode(codec, chunk, 0, dtype, (16, 20))
    assert right.shape == (16, 20)
    for shape in ((16, 19), (16, 21), (32, 40)):
        other = hdf5_codec([entry], h5t.py_create(np.dtype(dtype)).encode(), shape)
        with pytest.raises(ChunkError):
            decode(other, chunk, 0, dtype, shape)


def test_bitshuffle_that_would_divide_by_zero_is_refused(tmp_path):
    path = tmp_path / "x.h5"
    values = numbers("<i4")
    write(path, values, "bitshuffle-lz4")
    data = path.read_bytes()
    told = np.array([0, 4, 4, 8, 2], "<u4").tobytes()
    found = [i for i in range(len(data)) if data.startswith(told[8:], i)]
    assert len(found) == 1
    at = found[0]
    path.write_bytes(data[:at] + bytes(4) + data[at + 4 :])
    refused = opaque(scan(str(path)))
    assert "bitshuffle with the parameters" in refused.reason
    assert refused.loader is None
