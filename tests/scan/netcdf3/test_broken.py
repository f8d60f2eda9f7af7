"""Broken netCDF3: refused promptly, with the name of the file, and never read as other values."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
from scipy.io import netcdf_file

import intarsia
from intarsia.errors import CorruptFile, FormatError, IntarsiaError, UnsupportedError
from intarsia.scan.netcdf3 import scan
from intarsia.scan.netcdf3.header import read_header
from intarsia.scan.protocol import Scanned
from tests.scan.netcdf3.files import FORMATS, Var, header, quiet
from tests.scan.store import virtual

VERSIONS = [1, 2, 5]
DIMS = [("t", 0), ("x", 3)]


def create(path: Path, version: int) -> bytes:
    """A file with fixed variables, records and attributes; its content."""
    with netCDF4.Dataset(path, "w", format=FORMATS[version]) as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        file.title = "some text"
        file.createVariable("a", "i2", ("x",))[:] = [1, 2, 3]
        file.createVariable("b", "f8", ("x", "x"))[:] = np.arange(9).reshape(3, 3)
        file.createVariable("c", "i1", ("t", "x"))[:] = np.arange(12).reshape(4, 3)
        file.createVariable("d", "f4", ("t",))[:] = np.arange(4) / 2
        file["c"].units = "m"
        file["d"].setncattr("range", np.array([1, 2], "f4"))
    return path.read_bytes()


def refused(
    path: Path, match: str, kind: type[IntarsiaError] = CorruptFile, array: str | None = None
) -> None:
    for opening in (scan, intarsia.open_dataset):
        with pytest.raises(kind, match=match) as caught:
            opening(path)
        assert type(caught.value) is kind
        assert caught.value.url == str(path)
        assert caught.value.array == array


@pytest.mark.parametrize("version", VERSIONS)
def test_a_header_that_is_cut_short(tmp_path: Path, version: int) -> None:
    content = create(tmp_path / "whole.nc", version)
    path = tmp_path / "cut.nc"
    (tmp_path / "whole.nc").rename(path)
    length = header_length(path)
    for left in range(4, length):
        path.write_bytes(content[:left])
        with pytest.raises(CorruptFile, match="cut short") as caught:
            scan(path)
        assert caught.value.url == str(path)
    path.write_bytes(content[: length - 1])
    refused(path, "the header is cut short: it goes on after the file's")


def header_length(path: Path) -> int:
    from intarsia.io.files import opened_file

    with opened_file(str(path)) as file:
        return read_header(file).nbytes


@pytest.mark.parametrize("version", VERSIONS)
def test_data_that_are_cut_short(tmp_path: Path, version: int) -> None:
    """netCDF-C reads zeros there."""
    path = tmp_path / "a.nc"
    content = create(path, version)
    whole = {name: np.asarray(virtual(scan(path), name)) for name in "abcd"}
    with netCDF4.Dataset(path) as file:
        assert all((np.asarray(file[name]) == whole[name]).all() for name in "abcd")
    last = len(content)
    length = header_length(path)
    names: set[str | None] = set()
    for left in range(length, last):
        path.write_bytes(content[:left])
        with pytest.raises(CorruptFile, match="cut short: it has") as caught:
            scan(path)
        names.add(caught.value.array)
    assert names == set("abcd")
    path.write_bytes(content[:-2])
    refused(path, f"it has {last - 2} of at least {last} bytes", array="d")
    assert list(scan(path, drop_variables=["d"]).variables) == ["a", "b", "c"]
    path.write_bytes(content + b"more")
    assert np.asarray(virtual(scan(path), "d")).tolist() == whole["d"].tolist()


def test_padding_at_the_end_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    variables = [Var("a", [0, 1], "i1", 0), Var("b", [0, 1], "i1", 4)]
    path.write_bytes(header(1, 3, DIMS, variables) + bytes(range(23)))
    assert np.asarray(virtual(scan(path), "b")).tolist() == [[4, 5, 6], [12, 13, 14], [20, 21, 22]]


def uncounted(content: bytes) -> bytes:
    """The same, as a writer leaves it that streams."""
    width = 8 if content[3] == 5 else 4
    return content[:4] + b"\xff" * width + content[4 + width :]


@pytest.mark.parametrize("version", VERSIONS)
def test_records_that_were_never_counted(tmp_path: Path, version: int) -> None:
    """As many as fill the file; SciPy takes them for none, netCDF-C for as many as the number."""
    path = tmp_path / "a.nc"
    content = create(path, version)
    expected = as_values(scan(path))
    path.write_bytes(uncounted(content))
    assert_same_values(as_values(scan(path)), expected, content)
    assert scan(path).sizes == {"t": 4, "x": 3}
    path.write_bytes(uncounted(content[:-3]))
    refused(path, "cut short within record 4", array="c")
    path.write_bytes(uncounted(content[:-8]))
    assert scan(path).sizes["t"] == 3
    assert scan(path, drop_variables=["c", "d"]).sizes["t"] == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_uncounted_records_of_one_variable_are_not_padded(tmp_path: Path, version: int) -> None:
    path = tmp_path / "a.nc"
    path.write_bytes(header(version, -1, DIMS, [Var("v", [0, 1], "i1", 0)]) + bytes(range(15)))
    assert np.asarray(virtual(scan(path), "v")).tolist() == np.arange(15).reshape(5, 3).tolist()
    path.write_bytes(header(version, -1, DIMS, [Var("v", [0], "i4", 0)]))
    assert scan(path).sizes["t"] == 0
    path.write_bytes(header(version, -1, DIMS, [Var("v", [1], "i4", 0)]) + bytes(12))
    assert list(scan(path).variables) == ["v"]


def test_padding_behind_the_last_uncounted_record_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    variables = [Var("a", [0, 1], "i1", 0), Var("b", [0, 1], "i1", 4)]
    path.write_bytes(header(1, -1, DIMS, variables) + bytes(range(23)))
    assert np.asarray(virtual(scan(path), "b")).tolist() == [[4, 5, 6], [12, 13, 14], [20, 21, 22]]


def test_no_netcdf3(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    for magic in (b"CDF\x03....", b"CDF\x00....", b"HDF5...."):
        path.write_bytes(magic)
        with pytest.raises(FormatError, match="not netCDF3"):
            scan(path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.timeout(10)
def test_what_a_header_counts_takes_no_memory(tmp_path: Path, version: int) -> None:
    width = 8 if version == 5 else 4
    many = ((1 << 31) - 1).to_bytes(width, "big")
    zero = bytes(width)
    start = b"CDF" + bytes([version]) + zero
    none = bytes(4) + zero
    path = tmp_path / "a.nc"
    dims = b"\0\0\0\x0a"
    attrs, variables = b"\0\0\0\x0c", b"\0\0\0\x0b"
    one = (1).to_bytes(width, "big")
    v = one + b"v\0\0\0"
    tracemalloc.start()
    for content in (
        start + dims + many,
        start + dims + one + many,
        start + none + attrs + many,
        start + none + attrs + one + v + b"\0\0\0\4" + many,
        start + none + none + variables + many,
        start + none + none + variables + one + v + many,
    ):
        for tail in (b"", bytes(1000)):
            path.write_bytes(content + tail)
            refused(path, r"can't be (1|2147483647) in what follows")
    # a file of holes: its zeros are names without letters
    with open(path, "wb") as file:
        file.write(start + dims + many)
        file.truncate(1 << 40)
    refused(path, "the header is broken: a dimension has the name b''")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 24
    with open(path, "wb") as file:
        file.write(start + none + attrs + one + v + b"\0\0\0\2" + many)
        file.truncate(1 << 40)
    refused(path, "the header has more than", UnsupportedError)


def test_billions_of_records_take_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    variables = [Var("a", [0], "i4", 0), Var("b", [0], "i4", 4)]
    with open(path, "wb") as file:
        file.write(header(1, (1 << 32) - 2, DIMS, variables))
        file.truncate(1 << 40)
    tracemalloc.start()
    refused(path, "pieces", UnsupportedError, "a")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 24


@pytest.mark.parametrize(
    ("variables", "match", "array"),
    [
        ([Var("v", [2], "i4", 0)], "no dimension number 2", "v"),
        ([Var("v", [1, 0], "i4", 0)], "not the variable's first", "v"),
        ([Var("v", [0, 0], "i4", 0)], "not the variable's first", "v"),
        ([Var("v", [1], "i4", -4)], "begin within the header", "v"),
        ([Var("v", [1], "i4", -1000000)], "begin within the header", "v"),
        ([Var("v", [1], "i4", 0), Var("w", [1], "i4", 8)], "within the data of 'v'", "w"),
        ([Var("v", [1], "i4", 0), Var("v", [1], "i4", 12)], "two variables called 'v'", None),
        ([Var("v", [0], "i4", 0), Var("w", [0], "i4", 8)], "side by side", "w"),
        ([Var("v", [0], "i4", 4), Var("w", [0], "i4", 0)], "side by side", "w"),
        ([Var("v", [0], "i4", 0), Var("w", [1], "i4", 4)], "within the data of 'v'", "w"),
        ([Var("", [1], "i4", 0)], "has the name b''", None),
        ([Var("v", [1], "u2", 0)], "no type 8", None),
        ([Var("v", [1], "i4", 1 << 30)], "cut short", "v"),
    ],
)
def test_impossible_variables(
    tmp_path: Path, variables: list[Var], match: str, array: str | None
) -> None:
    path = tmp_path / "a.nc"
    path.write_bytes(header(2, 2, DIMS, variables) + bytes(100))
    refused(path, match, array=array)


def test_impossible_dimensions(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    huge = [("t", 0), *((f"d{i}", (1 << 32) - 1) for i in range(4))]
    path.write_bytes(header(1, 0, huge, [Var("v", [0, 1, 2, 3, 4], "i4", 0)]))
    refused(path, "no file can hold an array of the shape", array="v")
    path.write_bytes(header(1, 0, [("x", 1), ("x", 2)], []))
    refused(path, "two dimensions called 'x'")
    path.write_bytes(header(1, 1, [("x", 0), ("y", 0)], []))
    refused(path, "more than one dimension is that of the records")
    path.write_bytes(header(1, 0, [("x", 1)], [Var("v", [0] * 33, "i1", 0)]) + bytes(4))
    refused(path, "33 dimensions", UnsupportedError, "v")
    tags = header(1, 0, [("x", 1)], []).replace(b"\0\0\0\x0a", b"\0\0\0\x0b")
    path.write_bytes(tags)
    refused(path, "the list of dimensions begins with 11, not 10")


# -- mutated headers -------------------------------------------------------------------------------


def scipy_values(path: Path) -> dict[str, tuple[tuple[str, ...], np.ndarray]] | None:
    """What SciPy reads, with names as UTF-8, or None where it can't read the file."""

    def text(name: str) -> str:
        raw = name.encode("latin1")
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return name

    try:
        with quiet(), netcdf_file(path, mmap=False) as file:
            return {
                text(name): (tuple(map(text, one.dimensions)), np.array(one.data))
                for name, one in file.variables.items()
            }
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, SyntaxError):
        return None


ASK = """
import os, pickle, sys
import numpy, netCDF4
for path in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        with netCDF4.Dataset(path) as file:
            file.set_auto_maskandscale(False)
            file.set_auto_chartostring(False)
            found = {k: (v.dimensions, numpy.array(v[...])) for k, v in file.variables.items()}
        with open(path + ".pickle", "wb") as answer:
            pickle.dump(found, answer)
        os._exit(0)
    os.waitpid(child, 0)
"""


def netcdf4_values(paths: list[Path]) -> list[dict[str, tuple[tuple[str, ...], np.ndarray]] | None]:
    """What netCDF-C reads, each file in a process of its own; None where it refuses or crashes."""
    subprocess.run([sys.executable, "-c", ASK, *map(str, paths)], capture_output=True, check=False)
    answers = [path.with_name(path.name + ".pickle") for path in paths]
    return [pickle.loads(one.read_bytes()) if one.exists() else None for one in answers]


def mutated(content: bytes, length: int, rng: random.Random) -> bytes:
    result = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        place = rng.randrange(4, length)
        match rng.randrange(4):
            case 0:
                result[place] = rng.choice((0, 1, 2, 4, 8, 127, 128, 255))
            case 1:
                result[place] ^= 1 << rng.randrange(8)
            case 2:
                start = place // 4 * 4
                result[start : start + 4] = rng.choice(
                    (b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\1")
                )
            case _:
                other = rng.randrange(4, length) // 4 * 4
                result[place // 4 * 4 : place // 4 * 4 + 4] = content[other : other + 4]
    return bytes(result)


@pytest.mark.parametrize("version", [1, 2, 5])
@pytest.mark.timeout(60)
def test_mutated_headers(tmp_path: Path, version: int) -> None:
    """Refused, or read as SciPy reads them, or, where that can't, as netCDF-C does.

    Where neither can, what is wrong is what neither has to look at: sizes that follow from shapes.
    """
    path = tmp_path / "a.nc"
    content = create(path, version)
    sound = as_values(scan(path))
    length = header_length(path)
    rng = random.Random(version)
    refusals, others = 0, dict[Path, Any]()
    for number in range(400):
        changed = mutated(content, length, rng)
        path.write_bytes(changed)
        try:
            actual = as_values(scan(path))
        except (FormatError, UnsupportedError) as error:
            assert error.url == str(path)
            refusals += 1
            continue
        if changed[4 : 8 + 4 * (version == 5)].strip(b"\xff") == b"":
            assert_same_values(actual, sound, changed)  # which others can't read
            continue
        expected = scipy_values(path) if version < 5 else None
        if expected is not None:
            assert_same_values(actual, expected, changed)
        else:
            kept = tmp_path / f"{number}.nc"
            kept.write_bytes(changed)
            others[kept] = actual
    lone = 0
    for kept, expected in zip(others, netcdf4_values(list(others)), strict=True):
        lone += expected is None
        assert_same_values(others[kept], expected or sound, kept.read_bytes())
    assert 100 < refusals < 390
    assert lone <= len(others) / 4


def as_values(scanned: Scanned) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    return {name: (one.dims, np.asarray(one.data)) for name, one in scanned.variables.items()}


def assert_same_values(actual: Any, expected: Any, changed: bytes) -> None:
    assert list(actual) == list(expected), changed
    for name, (dims, values) in expected.items():
        found_dims, found = actual[name]
        assert found_dims == dims, (name, changed)
        native = values.astype(values.dtype.newbyteorder("="))
        assert found.dtype.str.lstrip("<>|=") == native.dtype.str.lstrip("<>|="), (name, changed)
        assert found.shape == values.shape, (name, changed)
        assert found.tobytes() == native.tobytes(), (name, changed)
