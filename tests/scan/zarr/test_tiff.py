"""TIFF through virtual-tiff: what that takes for plain pixels is read as GDAL does, or refused."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

import intarsia
from intarsia.errors import UnsupportedError
from intarsia.io.files import opened_file
from intarsia.scan.zarr.parsers.tiff_tags import (
    _predictors,  # pyright: ignore[reportPrivateUsage]
    check_predictors,
)

pytestmark = pytest.mark.filterwarnings("ignore:Dataset has no geotransform")

VALUES = np.arange(48, dtype="u1").reshape(6, 8)

BITS, COMPRESSION, FILL_ORDER, PREDICTOR, FORMAT, NODATA = 258, 259, 266, 317, 339, 42113


def written(folder: Path, data: bytes, tags: dict[int, int | bytes]) -> Path:
    """A TIFF of one strip with these tags besides."""
    every: dict[int, int | bytes] = {256: 8, 257: 6, BITS: 8, COMPRESSION: 1, 262: 1, 273: 8}
    every |= {277: 1, 278: 6, 279: len(data)} | tags
    directory = 8 + len(data)
    behind = directory + 2 + 12 * len(every) + 4
    entries, texts = b"", b""
    for tag, value in sorted(every.items()):
        if isinstance(value, bytes) and len(value) <= 4:
            entries += struct.pack("<HHI", tag, 2, len(value)) + value.ljust(4, b"\0")
        elif isinstance(value, bytes):
            entries += struct.pack("<HHII", tag, 2, len(value), behind + len(texts))
            texts += value
        else:
            entries += struct.pack("<HHII", tag, 4 if value > 65535 else 3, 1, value)
    head = b"II*\0" + struct.pack("<I", directory)
    path = folder / "a.tif"
    count = struct.pack("<H", len(every))
    path.write_bytes(head + data + count + entries + bytes(4) + texts)
    return path


def by_gdal(path: Path, values: np.ndarray, **options: Any) -> None:
    count, height, width = values.shape
    options |= {"driver": "GTiff", "count": count, "height": height, "width": width}
    with rasterio.open(path, "w", dtype=values.dtype, **options) as file:
        file.write(values)


def test_the_writer_of_these_tests(tmp_path: Path) -> None:
    path = written(tmp_path, VALUES.tobytes(), {})
    with rasterio.open(path) as theirs:
        assert theirs.read(1).tolist() == VALUES.tolist()
    assert intarsia.open_dataset(path)["0"].values.tolist() == VALUES.tolist()


@pytest.mark.parametrize(("bits", "width"), [(1, 1), (7, 1), (12, 1), (15, 3), (31, 4)])
def test_samples_of_odd_widths_are_refused(tmp_path: Path, bits: int, width: int) -> None:
    """Rows of so few have as many bytes as if each were whole."""
    dtype = "uint8" if bits < 8 else "uint16" if bits < 16 else "uint32"
    path = tmp_path / "a.tif"
    by_gdal(path, np.zeros((1, 5, width), dtype), nbits=bits)
    with pytest.raises(UnsupportedError, match=rf"its samples have {bits} bits.*a\.tif"):
        intarsia.open_dataset(path)


def test_whole_bytes_that_are_no_type_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, bytes(192), {BITS: 24})
    with pytest.raises(UnsupportedError, match=r"its samples have 24 bits.*a\.tif"):
        intarsia.open_dataset(path)


@pytest.mark.parametrize(
    ("tags", "match"),
    [
        ({FILL_ORDER: 2}, "in reverse"),
        ({PREDICTOR: 2}, "compression has none"),
        ({PREDICTOR: 2, COMPRESSION: 32773}, "compression has none"),
        ({PREDICTOR: 3, COMPRESSION: 8}, "the predictor 3"),
    ],
)
def test_what_the_parser_does_not_look_at(
    tmp_path: Path, tags: dict[int, int | bytes], match: str
) -> None:
    data = VALUES.tobytes()
    path = written(tmp_path, zlib.compress(data) if tags.get(COMPRESSION) == 8 else data, tags)
    with pytest.raises(UnsupportedError, match=rf"{match}.*a\.tif"):
        intarsia.open_dataset(path)


def test_predictors_that_mean_something(tmp_path: Path) -> None:
    steps = np.diff(VALUES, axis=1, prepend=0).astype("u1")
    path = written(tmp_path, zlib.compress(steps.tobytes()), {PREDICTOR: 2, COMPRESSION: 8})
    assert intarsia.open_dataset(path)["0"].values.tolist() == VALUES.tolist()


@pytest.mark.parametrize("order", ["LITTLE", "BIG"])
def test_predicted_complex_numbers(tmp_path: Path, order: str) -> None:
    """GDAL has their parts in reverse, where they are big-endian."""
    values = np.arange(40, dtype="c8").reshape(1, 5, 8) * (1 + 2j)
    path = tmp_path / "a.tif"
    by_gdal(path, values, predictor=2, compress="DEFLATE", endianness=order)
    if order == "LITTLE":
        assert intarsia.open_dataset(path)["0"].values.tolist() == values[0].tolist()
    else:
        with pytest.raises(UnsupportedError, match=r"complex numbers are big-endian.*a\.tif"):
            intarsia.open_dataset(path)


@pytest.mark.parametrize("nodata", ["nan", "-9999", "7.5", "inf", "300"])
def test_no_pixel_is_missing(tmp_path: Path, nodata: str) -> None:
    """No integer of the type is that; the parser ends at it."""
    path = written(tmp_path, VALUES.tobytes(), {NODATA: nodata.encode() + b"\0"})
    ds = intarsia.open_dataset(path)
    assert ds["0"].dtype == "u1"
    assert ds["0"].values.tolist() == VALUES.tolist()
    assert ds["0"].attrs["gdal_no_data"] == nodata


@pytest.mark.parametrize("nodata", ["7", "7.0", "0.7e1", "7.000"])
def test_missing_pixels_however_they_are_written(tmp_path: Path, nodata: str) -> None:
    path = written(tmp_path, VALUES.tobytes(), {NODATA: nodata.encode() + b"\0"})
    with rasterio.open(path) as theirs:
        missing = theirs.read_masks(1) == 0
    assert missing.sum() == 1
    ds = intarsia.open_dataset(path)
    np.testing.assert_array_equal(ds["0"].isnull().values, missing)


@pytest.mark.parametrize("predictor", [0, 4, 34892, 34894])
def test_predictors_that_the_parser_drops(tmp_path: Path, predictor: int) -> None:
    """Its pixels would come out as they are stored."""
    data = zlib.compress(VALUES.tobytes())
    path = written(tmp_path, data, {COMPRESSION: 8, PREDICTOR: predictor})
    with pytest.raises(UnsupportedError, match=rf"the predictor {predictor}, .*a\.tif"):
        intarsia.open_dataset(path)


@pytest.mark.parametrize("endian", ["LITTLE", "BIG"])
@pytest.mark.parametrize("size", ["YES", "NO"])
def test_predictors_are_found_in_every_directory(tmp_path: Path, endian: str, size: str) -> None:
    path = tmp_path / "a.tif"
    values = np.arange(64 * 64, dtype="i2").reshape(1, 64, 64)
    options = {"compress": "deflate", "predictor": 2, "tiled": True, "blockxsize": 16}
    by_gdal(path, values, ENDIANNESS=endian, BIGTIFF=size, blockysize=16, **options)
    with rasterio.open(path, "r+") as file:
        file.build_overviews([2, 4])
    assert intarsia.open_dataset(path)["0"].values.tolist() == values[0].tolist()
    with opened_file(str(path)) as file:
        assert _predictors(file) == [2, 2, 2]
    for length in range(8, 200, 3):
        (tmp_path / "cut.tif").write_bytes(path.read_bytes()[:length])
        with opened_file(str(tmp_path / "cut.tif")) as file:
            check_predictors(file)
