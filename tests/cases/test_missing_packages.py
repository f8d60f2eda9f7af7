"""What an optional package is missing for is refused with the command that installs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import intarsia
from tests.formats.table import MAKERS  # which registers them all
from tests.scan.zarr.test_hdf4 import RUNS
from tests.scan.zarr.test_hdf4 import written as hdf4_written

FORMATS = "pip install 'intarsia[formats]'"
REMOTE = "pip install 'intarsia[remote]'"
FILTERS = "pip install 'intarsia[filters]'"

FILES = {
    "tiff": ("chunks", "TIFF"),
    "lzw": ("LZW, predictor", "TIFF"),
    "fits": ("one block", "FITS"),
    "json": ("chunks", "references"),
    "parquet": ("deflate, shuffle, checksum", "references"),
    "icechunk": ("scale_factor, add_offset, _FillValue", "references"),
    "blosc2": ("Blosc2", "HDF5"),
    "zstd": ("zstd", "HDF5"),
    "zarr": ("shards", "Zarr 3"),
    "netcdf3": ("one block", "netCDF3"),
}
URLS = (
    "https://127.0.0.1:9/a.nc",
    "s3://bucket/a.zarr",
    "s3://bucket/*.nc",
    "gs://b/a",
    "az://c/a",
)

# What is absent, what is opened, and what has to be said.
REFUSED = {
    "obstore": dict.fromkeys(URLS, REMOTE) | {"tiff": FORMATS, "fits": FORMATS},
    "obspec_utils": {"tiff": FORMATS},
    "virtualizarr": {"tiff": FORMATS, "fits": FORMATS, "icechunk": FORMATS, "hdf4": FORMATS},
    "virtual_tiff": {"tiff": FORMATS},
    "imagecodecs": {"lzw": FORMATS, "saved": FORMATS},
    "astropy": {"fits": "'astropy'"},
    "icechunk": {"icechunk": "'icechunk'"},
    "kerchunk": {"hdf4": "'kerchunk'"},
    "fastparquet pyarrow": {"parquet": "'fastparquet'"},
    "hdf5plugin": {"blosc2": FILTERS},
    "distributed": {"parallel": "pip install 'intarsia[dask]'"},
}
NEEDS_NOTHING = ("json", "zstd", "zarr", "netcdf3")
EXTRAS = " ".join(REFUSED)

# Each in a process of its own, forked where xarray is imported and nothing optional is.
SCRIPT = """
import json, os, sys, traceback, warnings
import intarsia, intarsia.errors, xarray

class Absent:
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def told(what, place):
    try:
        if what == "parallel":
            files = [place, place]
            intarsia.open_mfdataset(files, parallel="dask", concat_dim="y", combine="nested")
        elif "*" in place:
            intarsia.open_mfdataset(place, concat_dim="y", combine="nested")
        else:
            intarsia.open_dataset(place).load()
    except intarsia.errors.IntarsiaError as error:
        return [error.kind, str(error)]
    except BaseException:
        return ["raw", traceback.format_exc()]
    return ["read", ""]

warnings.simplefilter("ignore")
for absent, tried in json.loads(sys.argv[1]):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        sys.meta_path.insert(0, Absent(absent.split()))
        found = [[absent, what, *told(what, place)] for what, place in tried.items()]
        print(json.dumps(found), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process for each")
@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.filterwarnings("ignore:The given matrix is equal to Affine.identity")
@pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated")
def test_each_is_named(tmp_path: Path) -> None:
    places = {url: url for url in URLS}
    for name, cell in FILES.items():
        (tmp_path / name).mkdir()
        places[name] = str(MAKERS[cell](tmp_path / name).place)
    places["hdf4"] = str(hdf4_written(tmp_path, RUNS))
    places["saved"] = str(tmp_path / "saved.intarsia")
    intarsia.open_dataset(places["lzw"]).intarsia.save(places["saved"])
    places["parallel"] = places["netcdf3"]
    tries = [(absent, {what: places[what] for what in said}) for absent, said in REFUSED.items()]
    tries.append((EXTRAS, {what: places[what] for what in NEEDS_NOTHING[1:]}))
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(tries)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [one for line in run.stdout.splitlines() for one in json.loads(line)]
    assert len(found) == sum(len(tried) for _, tried in tries), run.stderr
    for absent, what, kind, said in found:
        if absent == EXTRAS:
            assert kind == "read", (absent, what, said)
            continue
        assert kind in ("missing-package", "unsupported-variable"), (absent, what, said)
        assert REFUSED[absent][what] in said, (absent, what, said)
        assert absent.split()[0] in said, (absent, what, said)
        if what in ("parallel", "saved"):  # which name no file, or the one of the store
            continue
        assert places[what].partition("*")[0] in said, (absent, what, said)
