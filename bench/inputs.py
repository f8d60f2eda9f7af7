"""Files to read: made by netCDF4, with values that compress as fields of weather do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

TINY = (1, 16, 8)
"""Chunk of 512 bytes of float32."""

BIG = (1, 1024, 1024)
"""Chunk of 4 MiB of float32."""

DATA_VARIABLES = 10
"""Of a small file; with time, lat and lon it has 13 variables."""

STEPS = 5
"""Times in a small file, each its own chunk: 50 chunks of data."""


def cube(path: Path, count: int, chunk: tuple[int, int, int], seed: int = 0) -> str:
    """One variable ``v(time, y, x)`` of `count` chunks, shuffled and deflated."""
    rng = np.random.default_rng(seed)
    _, y, x = chunk
    block = max(1, (1 << 22) // (y * x))
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("time", count), ("y", y), ("x", x)):
            file.createDimension(name, size)
        variable = file.createVariable(
            "v", "f4", ("time", "y", "x"), zlib=True, shuffle=True, complevel=1, chunksizes=chunk
        )
        for start in range(0, count, block):
            shape = (min(block, count - start), y, x)
            steps = rng.integers(-1, 2, shape, dtype=np.int8)
            variable[start : start + shape[0]] = np.cumsum(steps, axis=-1, dtype="f4") / 8 + 280
    return str(path)


def small_file(path: Path, number: int, size: tuple[int, int], rng: np.random.Generator) -> str:
    """A file of 13 variables: 10 packed fields of 5 steps, and their coordinates."""
    lat, lon = size
    with netCDF4.Dataset(path, "w") as file:
        file.title = "small file of a series"
        file.history = f"made as number {number}"
        file.createDimension("time", None)
        file.createDimension("lat", lat)
        file.createDimension("lon", lon)
        time = file.createVariable("time", "f8", ("time",), chunksizes=(512,))
        time.setncatts({"units": "days since 2000-01-01", "calendar": "standard", "axis": "T"})
        time[:] = np.arange(STEPS) + STEPS * number
        for name, count, high, units in (
            ("lat", lat, 90, "degrees_north"), ("lon", lon, 180, "degrees_east"),
        ):  # fmt: skip
            axis = file.createVariable(name, "f4", (name,))
            axis.setncatts({"units": units, "long_name": name})
            axis[:] = np.linspace(-high, high, count, dtype="f4")
        for number_of in range(DATA_VARIABLES):
            field: Any = file.createVariable(
                f"field{number_of}",
                "i2",
                ("time", "lat", "lon"),
                zlib=True,
                shuffle=True,
                complevel=1,
                chunksizes=(1, lat, lon),
                fill_value=-32768,
            )
            field.set_auto_maskandscale(False)
            field.setncatts(
                {
                    "units": "K",
                    "long_name": f"field number {number_of}",
                    "standard_name": "air_temperature",
                    "cell_methods": "time: mean",
                    "scale_factor": np.float64(0.01),  # float32 would not survive in JSON
                    "add_offset": np.float64(273.15),
                    "valid_range": np.array([-20000, 20000], "i2"),
                }
            )
            steps = rng.integers(-3, 4, (STEPS, lat, lon), dtype=np.int16)
            field[:] = np.cumsum(steps, axis=-1, dtype=np.int16)
    return str(path)


def small_files(folder: Path, count: int, size: tuple[int, int] = (20, 30)) -> list[str]:
    """`count` small files that follow each other in time."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    return [small_file(folder / f"{n:05d}.nc", n, size, rng) for n in range(count)]
