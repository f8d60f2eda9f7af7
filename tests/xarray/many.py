"""Very many small files, quickly: a few are written, the others are copies with other times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr

FIELDS = 10
STEPS = 5


def many_files(folder: Path, count: int, templates: int = 4, *, fields: int = FIELDS) -> list[str]:
    """Write `count` files of 13 variables and 50 chunks that follow each other in time.

    Parameters
    ----------
    folder, count
        Where, and how many.
    templates
        Chunks lie at other places in each of these, which alternate.
    fields
        Variables beside time, latitude and longitude.
    """
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(7)
    models = [_template(folder / "model", rng, fields) for _ in range(min(templates, count))]
    (folder / "model").unlink()
    old = np.arange(float(STEPS)).tobytes()
    paths: list[str] = []
    for number in range(count):
        path = folder / f"{number:05d}.nc"
        times = np.arange(float(STEPS)) + STEPS * number
        path.write_bytes(models[number % len(models)].replace(old, times.tobytes()))
        paths.append(str(path))
    return paths


def _template(path: Path, rng: np.random.Generator, count: int) -> bytes:
    values = rng.integers(-99, 99, (count, STEPS, 4, 6)).cumsum(-1)
    told = {"units": "K", "cell_methods": "time: mean", "valid_range": np.array([-9, 9], "i2")}
    fields = {
        f"field{n}": (("time", "lat", "lon"), values[n] / 64, {**told, "long_name": f"field {n}"})
        for n in range(count)
    }
    coords = {
        "time": ("time", np.arange(float(STEPS)), {"units": "days since 2000-01-01"}),
        "lat": ("lat", np.linspace(-9, 9, 4), {"units": "degrees_north"}),
        "lon": ("lon", np.linspace(0, 50, 6), {"units": "degrees_east"}),
    }
    packing = {
        "dtype": "i2", "scale_factor": 1 / 64, "_FillValue": -999, "zlib": True,
        "chunksizes": (1, 4, 6),
    }  # fmt: skip
    encoding = dict.fromkeys(fields, packing) | {"time": {"_FillValue": None}}
    xr.Dataset(fields, coords, {"title": "one of many"}).to_netcdf(
        path, engine="h5netcdf", encoding=encoding
    )
    data = path.read_bytes()
    assert data.count(np.arange(float(STEPS)).tobytes()) == 1
    return data
