"""Inputs that are not what they should be: the right error, promptly, naming the file."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import h5py
import netCDF4
import numpy as np
import pytest

from intarsia.errors import (
    CorruptFile,
    IntarsiaError,
    NotAFile,
    NotHDF5,
    SourceMissing,
    SourceUnreadable,
)
from intarsia.scan.hdf5 import scan
from tests.scan.store import assert_as_xarray, virtual


def make(path, libver="earliest"):
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("x", data=np.arange(1000), chunks=(100,), compression="gzip")
        file["y"] = np.arange(1000.0)
        file["x"].attrs["units"] = "K"
    return path


def refused(path, kind, match):
    with pytest.raises(kind, match=match) as caught:
        scan(str(path))
    assert type(caught.value) is kind
    assert caught.value.url == str(path)
    assert str(path) in str(caught.value)


def test_a_missing_file(tmp_path):
    refused(tmp_path / "none.nc", SourceMissing, "no such file")


def test_a_directory(tmp_path):
    refused(tmp_path, NotAFile, "this is a directory")
    (tmp_path / "zarr.json").write_text("{}")
    refused(tmp_path, NotAFile, "a directory, a Zarr store")


def test_an_empty_file(tmp_path):
    (tmp_path / "x.nc").touch()
    refused(tmp_path / "x.nc", NotAFile, "empty")


def test_a_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe.nc")
    refused(tmp_path / "pipe.nc", NotAFile, "not a regular file")


def test_a_file_without_permission(tmp_path, monkeypatch):
    path = make(tmp_path / "x.nc")
    path.chmod(0)
    if os.geteuid() == 0:  # who may read everything
        path.write_bytes(b"unreadable")

        def refuse(*args):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("builtins.open", refuse)
    refused(path, SourceUnreadable, "Permission denied")


@pytest.mark.parametrize("form", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"])
def test_netcdf3(tmp_path, form):
    with netCDF4.Dataset(tmp_path / "x.nc", "w", format=form) as file:
        file.createDimension("x", 3)
    refused(tmp_path / "x.nc", NotHDF5, "looks like netCDF3")


@pytest.mark.parametrize(
    ("content", "looks"),
    [
        (b"time,value\n1,2\n" * 50, "text"),
        ("größe\n".encode() * 200, "text"),
        (b"<!DOCTYPE html><html><body>404 Not Found</body></html>", "a web page"),
        (b"\n  <html>", "a web page"),
        (b'<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>', "XML"),
        (b"GRIB\0\0\0\2" + bytes(100), "GRIB"),
        (b"II*\0" + bytes(100), "TIFF"),
        (b"PK\x03\x04" + bytes(100), "a zip archive"),
        (b"\x1f\x8b\x08" + bytes(100), "gzip"),
        (b"\x0e\x03\x13\x01" + bytes(100), "HDF4"),
        (b"\x89HDF\n\x1a\n" + bytes(100), "HDF5 that was transferred as text"),
        (bytes(5000), "zeros"),
        (bytes(range(256)) * 10, "binary data"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "a pointer of Git LFS"),
        (b"x", "text"),
    ],
)
def test_what_a_file_looks_like_is_said(tmp_path, content, looks):
    (tmp_path / "x.nc").write_bytes(content)
    refused(tmp_path / "x.nc", NotHDF5, rf"looks like {looks}.* \({len(content)} bytes\)")


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("userblock", [0, 1024])
def test_a_file_that_is_cut_short(tmp_path, libver, userblock):
    path = tmp_path / "x.nc"
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as file:
        file["x"] = np.arange(1000)
    whole = path.stat().st_size
    for size in (whole - 1, whole // 2, userblock + 200, userblock + 100):
        os.truncate(path, size)
        refused(path, CorruptFile, f"cut short: it has {size} of {whole} bytes")
    for size in (userblock + 40, userblock + 8):
        os.truncate(path, size)
        refused(path, CorruptFile, "the file is broken")


def test_a_signature_and_nothing_else(tmp_path):
    (tmp_path / "x.nc").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(1000))
    refused(tmp_path / "x.nc", CorruptFile, "the file is broken")
    (tmp_path / "x.nc").write_bytes(bytes(2048) + b"\x89HDF\r\n\x1a\n" + bytes(1000))
    refused(tmp_path / "x.nc", CorruptFile, "the file is broken")


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_broken_structure_is_an_error_that_names_the_file(tmp_path, libver):
    """Bytes of the metadata overwritten at random, in a process of its own: HDF5 may crash."""
    make(tmp_path / "good.nc", libver)
    script = f"""
import sys, random
sys.path.insert(0, {str(os.getcwd())!r})
from intarsia.errors import IntarsiaError
from intarsia.scan.hdf5 import scan
good = open({str(tmp_path / "good.nc")!r}, "rb").read()
outcomes = set()
for seed in range(70):
    random.seed(seed)
    broken = bytearray(good)
    for _ in range(4):
        broken[random.randrange(min(len(broken), 3000))] = random.randrange(256)
    open({str(tmp_path / "x.nc")!r}, "wb").write(broken)
    try:
        scan({str(tmp_path / "x.nc")!r})
    except IntarsiaError as error:
        assert "x.nc" in str(error), error
        outcomes.add(type(error).__name__)
    else:
        outcomes.add("scanned")
print(sorted(outcomes))
"""
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "CorruptFile" in done.stdout


def test_chunks_past_the_end_of_the_file_are_refused(tmp_path, monkeypatch):
    path = make(tmp_path / "x.nc")
    real = os.fstat

    def shorter(descriptor):
        status = list(real(descriptor))
        status[stat.ST_SIZE] = 3000
        return os.stat_result(status)

    monkeypatch.setattr("intarsia.scan.hdf5.opening.os.fstat", shorter)
    with pytest.raises(CorruptFile, match="of a file of 3000") as caught:
        scan(str(path))
    assert caught.value.array in ("x", "y")


def test_a_mistake_of_ours_is_not_reported_as_a_broken_file(tmp_path, monkeypatch):
    path = make(tmp_path / "x.nc")

    def wrong(*args):
        raise ValueError("a mistake")

    monkeypatch.setattr("intarsia.scan.hdf5.placing.layout", wrong)
    with pytest.raises(ValueError, match="a mistake") as caught:
        scan(str(path))
    assert not isinstance(caught.value, IntarsiaError)


def test_a_file_that_is_being_written_is_refused(tmp_path):
    path = make(tmp_path / "x.nc")
    script = f"import h5py\nf = h5py.File({str(path)!r}, 'a')\nprint('open', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        try:
            refused(path, SourceUnreadable, "another program writes to it")
        finally:
            writer.communicate("\n")


def test_files_that_are_open_elsewhere_in_the_process_are_scanned(tmp_path):
    path = make(tmp_path / "x.nc")
    with h5py.File(path) as file:
        assert list(scan(str(path)).variables) == ["x", "y"]
        assert file["x"][5] == 5  # still open
    h5py.File(path, "a").close()  # nothing of the scan keeps it open
    with netCDF4.Dataset(path):
        scan(str(path))


def test_pins_are_those_of_the_scanned_file(tmp_path):
    path = make(tmp_path / "x.nc")
    status = path.stat()
    (source,) = scan(str(path)).sources
    assert (source.size, source.mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert source.url == str(path)


def test_relative_paths_and_the_home_directory(tmp_path, monkeypatch):
    path = make(tmp_path / "x.nc")
    monkeypatch.chdir(tmp_path)
    assert scan("x.nc").sources[0].url == str(path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert scan("~/x.nc").sources[0].url == str(path)


def test_threads_scan_at_once(tmp_path):
    paths = [make(tmp_path / f"{number}.nc") for number in range(4)]
    barrier = threading.Barrier(4)

    def work(path):
        barrier.wait()
        return [np.asarray(virtual(scan(str(path)))).sum() for _ in range(10)]

    with ThreadPoolExecutor(4) as pool:
        for sums in pool.map(work, paths):
            assert set(sums) == {499500}


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_scan_for_us(tmp_path, method):
    path = make(tmp_path / "x.nc")
    with ProcessPoolExecutor(1, mp_context=get_context(method)) as pool:
        scanned = pool.submit(scan, str(path)).result(timeout=60)
    np.testing.assert_array_equal(np.asarray(virtual(scanned)), np.arange(1000))
    assert pickle.loads(pickle.dumps(scanned)).sources[0] == scanned.sources[0]
    assert_as_xarray(path)
