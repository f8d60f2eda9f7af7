"""A read that fails is an error that says where, never fill; a file that can't be read is named."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.errors import (
    ChecksumMismatch,
    ChunkError,
    CorruptChunk,
    CorruptFile,
    FormatError,
    IntarsiaError,
    NotAFile,
    NotHDF5,
    ShortRead,
    SourceChanged,
    SourceError,
    SourceMissing,
    SourceUnreadable,
    WrongLength,
)
from tests import oracle
from tests.check import check_chains
from tests.compare import assert_identical
from tests.unlike import Filter, VariableSpec
from tests.unlike.families import (
    CHECKSUM,
    EXPLICIT,
    GZIP,
    SHUFFLE,
    chunked,
    series,
)

NESTED: dict[str, Any] = {"combine": "nested", "concat_dim": "time", **EXPLICIT}


def _written(folder: Path, *filters: Filter, **more: Any) -> list[str]:
    """Three files whose ``sst`` lies in chunks (2, 3, 4) with these filters."""

    def change(_: int, var: VariableSpec) -> VariableSpec:
        return chunked(var, (2, 3, 4), *filters, **more)

    return series("", change).write(folder)


@contextmanager
def _same_time(path: str | Path) -> Iterator[None]:
    """Whatever is done inside, the file's modification time is the same afterwards."""
    before = os.stat(path)
    yield
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _chunk_bytes(path: str, name: str = "sst", number: int = 1) -> tuple[int, int]:
    """Offset and length of one chunk."""
    with h5py.File(path) as file:
        info = file[name].id.get_chunk_info(number)
        return info.byte_offset, info.size


def _overwrite(path: str, offset: int, data: bytes) -> None:
    with _same_time(path), open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def _flip(path: str, offset: int, bit: int = 0) -> None:
    with open(path, "rb") as file:
        file.seek(offset)
        byte = file.read(1)[0]
    _overwrite(path, offset, bytes([byte ^ 1 << bit]))


def _fails(
    kind: type[IntarsiaError] | tuple[type[IntarsiaError], ...], path: str, ds: xr.Dataset
) -> IntarsiaError:
    """Reading fails in every way of reading, with an error that names source and array."""
    for read in (
        lambda: ds.sst.values,
        ds.compute,
        lambda: ds.sst[4, :, 1].values,
        ds.chunk().sst.compute,
    ):
        with pytest.raises(kind) as caught:
            read()
        assert path in str(caught.value)
        assert "sst" in str(caught.value)
        assert caught.value.array == "sst"
        assert caught.value.url is not None
        assert path in caught.value.url
    return caught.value


def test_a_deleted_file(tmp_path: Path) -> None:
    paths = _written(tmp_path, GZIP)
    ds = intarsia.open_mfdataset(paths, **NESTED)
    os.unlink(paths[1])
    _fails(SourceMissing, paths[1], ds)
    assert ds.sst[:3].values.shape == (3, 3, 4)  # the other files are as good as before


@pytest.mark.parametrize("left", [0, 100, -1, -40])
def test_a_truncated_file(tmp_path: Path, left: int) -> None:
    paths = _written(tmp_path, GZIP)
    ds = intarsia.open_mfdataset(paths, **NESTED)
    size = os.stat(paths[1]).st_size
    os.truncate(paths[1], left if left >= 0 else size + left)
    _fails((SourceChanged, ShortRead, NotAFile), paths[1], ds)


def test_a_truncated_file_with_its_old_time(tmp_path: Path) -> None:
    paths = _written(tmp_path, GZIP)
    ds = intarsia.open_mfdataset(paths, **NESTED)
    offset, size = _chunk_bytes(paths[1], number=0)
    with _same_time(paths[1]):
        os.truncate(paths[1], offset + size // 2)
    _fails((SourceChanged, ShortRead), paths[1], ds)


def test_a_grown_file(tmp_path: Path) -> None:
    paths = _written(tmp_path, GZIP)
    ds = intarsia.open_mfdataset(paths, **NESTED)
    with _same_time(paths[1]), open(paths[1], "ab") as file:
        file.write(b"more")
    _fails(SourceChanged, paths[1], ds)


def test_a_file_replaced_by_one_of_the_same_size(tmp_path: Path) -> None:
    paths = _written(tmp_path, GZIP)
    ds = intarsia.open_mfdataset(paths, **NESTED)
    content = Path(paths[1]).read_bytes()
    time = os.stat(paths[1]).st_mtime_ns
    other = tmp_path / "other"
    other.write_bytes(content)
    os.utime(other, ns=(time + 1, time + 1))
    other.replace(paths[1])
    _fails(SourceChanged, paths[1], ds)


def test_a_file_replaced_by_a_directory(tmp_path: Path) -> None:
    paths = _written(tmp_path)
    ds = intarsia.open_mfdataset(paths, **NESTED)
    os.unlink(paths[1])
    os.mkdir(paths[1])
    _fails(SourceError, paths[1], ds)


@pytest.mark.parametrize(
    "filters", [(CHECKSUM,), (SHUFFLE, CHECKSUM), (CHECKSUM, SHUFFLE), (SHUFFLE, GZIP, CHECKSUM)]
)
def test_a_flipped_bit_under_a_checksum(tmp_path: Path, filters: tuple[Filter, ...]) -> None:
    """Same size, same time, other content: only the checksum knows."""
    paths = _written(tmp_path, *filters)
    ds = intarsia.open_mfdataset(paths, **NESTED)
    offset, size = _chunk_bytes(paths[1], number=0)
    for place in (0, size // 2, size - 1):
        for bit in (0, 7):
            _flip(paths[1], offset + place, bit)
            error = _fails(ChecksumMismatch, paths[1], ds)
            assert error.chunk == (0, 0, 0)
            _flip(paths[1], offset + place, bit)
    assert np.array_equal(ds.sst.values, oracle.open_mfdataset(paths, **NESTED).sst.values)


def test_every_flipped_bit_of_a_deflate_stream(tmp_path: Path) -> None:
    """Each bit of the stream and its checksum: an error, or (bits without meaning) the same."""
    paths = _written(tmp_path, SHUFFLE, GZIP)
    ds = intarsia.open_dataset(paths[2])
    right = oracle.open_dataset(paths[2]).sst.values
    offset, size = _chunk_bytes(paths[2])
    wrong = 0
    for place in range(offset, offset + size):
        for bit in range(8):
            _flip(paths[2], place, bit)
            try:
                values = ds.sst.values
            except ChunkError as error:
                wrong += 1
                assert (error.chunk, error.array) == ((1, 0, 0), "sst")
            else:
                assert np.array_equal(values, right), (place - offset, bit)
            _flip(paths[2], place, bit)
    assert wrong > 7 * size


@pytest.mark.parametrize("what", ["zeros", "text", "cut short", "another length", "trailing"])
def test_a_broken_deflate_stream(tmp_path: Path, what: str) -> None:
    import zlib

    paths = _written(tmp_path, GZIP)
    ds = intarsia.open_mfdataset(paths, **NESTED)
    offset, size = _chunk_bytes(paths[2])
    broken = {
        "zeros": bytes(size),
        "text": (b"no stream " * size)[:size],
        "cut short": b"\x78\x9c" + b"\x00" * 4 + bytes(size - 6),
        "another length": zlib.compress(bytes(10)).ljust(size, b"\0"),
        "trailing": zlib.compress(bytes(1000), 9).ljust(size, b"\0")[:size],
    }[what]
    _overwrite(paths[2], offset, broken)
    with pytest.raises(ChunkError) as caught:
        ds.sst.values  # noqa: B018
    assert isinstance(caught.value, CorruptChunk | WrongLength)
    assert caught.value.chunk == (1, 0, 0)
    assert paths[2] in str(caught.value)
    assert "sst" in str(caught.value)


def test_a_bomb_does_not_expand(tmp_path: Path) -> None:
    """A chunk that inflates to far more than its shape says is refused while it is inflated."""
    import tracemalloc
    import zlib

    path = tmp_path / "bomb.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("sst", (4,), "<i2", chunks=(4,), compression="gzip")
        made.id.write_direct_chunk((0,), zlib.compress(bytes(200_000_000), 9))
    ds = intarsia.open_dataset(path, phony_dims="sort")
    tracemalloc.start()
    with pytest.raises(WrongLength, match="sst"):
        ds.sst.values  # noqa: B018
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_a_chunk_of_another_length(tmp_path: Path) -> None:
    """A chunk without filters whose stored size is not that of its shape."""
    path = tmp_path / "short.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("sst", (8,), "<i2", chunks=(4,), shuffle=True)
        made.id.write_direct_chunk((0,), b"12345678")
        made.id.write_direct_chunk((4,), b"123456")
    ds = intarsia.open_dataset(path, phony_dims="sort")
    assert ds.sst[:4].values.shape == (4,)
    with pytest.raises((WrongLength, CorruptFile, CorruptChunk)) as caught:
        ds.sst.values  # noqa: B018
    assert "sst" in str(caught.value)


@pytest.mark.parametrize("name", ["szip", "lzf", "scaleoffset", "nbit"])
def test_a_broken_chunk_of_a_filter_that_hdf5_undoes(tmp_path: Path, name: Any) -> None:
    """Garbage in, under a checksum: an error that says where."""
    paths = series("", lambda _, v: chunked(v, (2, 3, 4), Filter(name), CHECKSUM)).write(tmp_path)
    ds = intarsia.open_mfdataset(paths, **NESTED)
    offset, size = _chunk_bytes(paths[1], number=0)
    _overwrite(paths[1], offset, bytes(255 - i % 251 for i in range(size)))
    _fails(ChunkError, paths[1], ds)


# ---------------------------------------------------------------- inputs that are no HDF5 files


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _text(path: Path) -> None:
    path.write_text("<html><body>404 Not Found</body></html>\n")


def _netcdf3(path: Path) -> None:
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as ds:
        ds.createDimension("x", 3)
        ds.createVariable("v", "f4", ("x",))[:] = 1
    os.truncate(path, path.stat().st_size - 4)


def _cut(path: Path) -> None:
    (good,) = _written(path.parent, GZIP)[:1]
    content = Path(good).read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])


def _header_only(path: Path) -> None:
    path.write_bytes(b"\x89HDF\r\n\x1a\n")


def _garbage_after_the_header(path: Path) -> None:
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(range(256)) * 8)


def _broken_superblock(path: Path) -> None:
    (good,) = _written(path.parent, GZIP)[:1]
    content = bytearray(Path(good).read_bytes())
    content[13:40] = b"\xff" * 27
    path.write_bytes(content)


def _gzipped(path: Path) -> None:
    path.write_bytes(b"\x1f\x8b\x08\x00" + bytes(60))


INPUTS: dict[str, tuple[Callable[[Path], Any], tuple[type[IntarsiaError], ...], str]] = {
    "absent": (lambda path: None, (SourceMissing,), "(?i)no such|missing|not exist|not there"),
    "empty": (_empty, (NotAFile, NotHDF5), "(?i)empty"),
    "text": (_text, (NotHDF5,), "(?i)html|text|web page"),
    "netcdf3 cut short": (_netcdf3, (CorruptFile,), "cut short"),
    "gzip": (_gzipped, (NotHDF5,), "(?i)gzip"),
    "truncated": (_cut, (CorruptFile, NotHDF5), "(?i)truncated|cut short"),
    "header only": (_header_only, (CorruptFile, NotHDF5), "."),
    "garbage": (_garbage_after_the_header, (CorruptFile, NotHDF5), "."),
    "superblock": (_broken_superblock, (CorruptFile, NotHDF5), "."),
    "directory": (lambda path: path.mkdir(), (NotAFile,), "(?i)directory"),
    "fifo": (os.mkfifo, (NotAFile, SourceUnreadable), "."),
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.timeout(20)
def test_what_is_no_hdf5_file_is_named(tmp_path: Path, name: str) -> None:
    make, kinds, message = INPUTS[name]
    bad = tmp_path / "bad.nc"
    make(bad)
    good = _written(tmp_path)
    for opening in (
        lambda: intarsia.open_dataset(bad),
        lambda: intarsia.open_mfdataset([good[0], str(bad), good[1]], **NESTED),
    ):
        with pytest.raises(kinds, match=message) as caught:
            opening()
        assert str(bad) in str(caught.value)
        assert caught.value.url is not None
        assert isinstance(caught.value, OSError | ValueError)
        assert isinstance(caught.value, SourceError | FormatError)


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.timeout(20)
def test_what_is_no_hdf5_file_is_skipped_and_reported(tmp_path: Path, name: str) -> None:
    bad = tmp_path / "bad.nc"
    INPUTS[name][0](bad)
    good = _written(tmp_path, GZIP)
    mixed = [good[0], str(bad), *good[1:]]
    ds = intarsia.open_mfdataset(mixed, on_error="skip", **NESTED)
    check_chains(ds, oracle.open_mfdataset(good, **NESTED), virtual=["sst"])
    assert str(bad) in str(ds.intarsia.report())
    again = intarsia.open_mfdataset(mixed, errors="ignore", **NESTED)
    assert_identical(again, ds)


def test_no_permission(tmp_path: Path) -> None:
    """Even for root, whose effective user is changed for the while."""
    del tmp_path  # only its owner may enter it
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        paths = _written(folder, GZIP)
        ds = intarsia.open_mfdataset(paths, **NESTED)
        os.chmod(paths[1], 0)
        with _nobody():
            with pytest.raises(SourceUnreadable, match="(?i)permission") as caught:
                intarsia.open_mfdataset(paths, **NESTED)
            assert paths[1] in str(caught.value)
            skipped = intarsia.open_mfdataset(paths, on_error="skip", **NESTED)
            assert skipped.sizes["time"] == 7
        os.chmod(paths[1], stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
        assert ds.sst.values.shape == (9, 3, 4)


@contextmanager
def _nobody() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_all_files_bad(tmp_path: Path) -> None:
    bad = tmp_path / "bad.nc"
    _empty(bad)
    with pytest.raises(IntarsiaError, match=r"bad\.nc"):
        intarsia.open_mfdataset([bad, bad], on_error="skip", **NESTED)


def test_errors_and_on_error_are_one_argument(tmp_path: Path) -> None:
    paths = _written(tmp_path)
    with pytest.raises((TypeError, ValueError), match="on_error"):
        intarsia.open_mfdataset(paths, errors="raise", on_error="skip", **NESTED)
    with pytest.raises((TypeError, ValueError), match="on_error"):
        intarsia.open_mfdataset(paths, on_error="perhaps", **NESTED)


def test_a_skipped_file_leaves_its_place_in_a_grid_alone(tmp_path: Path) -> None:
    """A hole in a nested list of two dimensions can't be closed: that is said, not guessed."""
    from tests.unlike.structures import STRUCTURES

    family = STRUCTURES["two dimensions"]
    rows = family.write(tmp_path)
    bad = rows[1][0]
    Path(bad).write_bytes(b"")
    try:
        ds = intarsia.open_mfdataset(rows, on_error="skip", **family.arguments)
    except IntarsiaError as error:
        assert bad in str(error)
    else:
        assert np.isnan(ds.sst.values).any()


def test_an_error_survives_pickling_and_says_the_same(tmp_path: Path) -> None:
    import pickle

    paths = _written(tmp_path, GZIP, CHECKSUM)
    ds = intarsia.open_mfdataset(paths, **NESTED)
    offset, _ = _chunk_bytes(paths[1], number=0)
    _flip(paths[1], offset)
    error = _fails(ChecksumMismatch, paths[1], ds)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)


def test_a_read_that_succeeds_after_a_failure(tmp_path: Path) -> None:
    """A failure leaves nothing behind that makes a later read wrong."""
    paths = _written(tmp_path, GZIP)
    ds = intarsia.open_mfdataset(paths, **NESTED)
    hidden = paths[1] + ".hidden"
    os.rename(paths[1], hidden)
    _fails(SourceMissing, paths[1], ds)
    os.rename(hidden, paths[1])
    assert_identical(ds, oracle.open_mfdataset(paths, **NESTED))
