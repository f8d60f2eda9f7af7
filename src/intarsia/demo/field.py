"""The quantity that the demo's files hold: a made-up sea surface temperature of the North Atlantic.

A formula, not data: a warm current that meanders eastward, eddies along it, a season, ice in the
north, land where there are no values. It only has to look like something, so that a wrong value
can be seen.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

type Floats = npt.NDArray[np.float64]

LATITUDES: Floats = np.arange(30.5, 70.5, 1.0)
"""Degrees north, from south to north."""

LONGITUDES: Floats = np.arange(-69.5, 10.5, 1.0)
"""Degrees east, from west to east."""

DAYS = 90
"""Days since 2021-01-01: January, February, March."""

FREEZING = -1.8
"""Temperature of sea water that freezes, in degrees Celsius: no value is lower."""

_EDDIES = ((-58.0, 36.5, 3.6, 1.9), (-46.0, 46.5, -3.4, 1.9), (-31.0, 45.0, 3.2, 1.9))
"""Longitude and latitude on the first day, amplitude in °C, radius in degrees."""

_ISLANDS = ((-19.0, 65.0, 4.2, 1.7), (-3.5, 55.0, 2.6, 4.2), (-8.0, 53.0, 1.8, 1.9))
"""Longitude and latitude of the centre, and half the extent along each, in degrees."""


@cache
def temperature() -> npt.NDArray[np.float32]:
    """Sea surface temperature in °C, shape (90 days, 40 latitudes, 80 longitudes), NaN on land."""
    day = np.arange(DAYS, dtype=np.float64)[:, None, None]
    lat, lon = LATITUDES[None, :, None], LONGITUDES[None, None, :]
    front = 37.5 + 0.22 * (lon + 70) + _meanders(lon, day)
    warm = 1 / (1 + np.exp((lat - front) / 1.4))
    # west of Greenland the north is cold, off Norway it is not
    north = 6.5 - 0.42 * (lat - 45) + 0.11 * (lon + 30)
    south = 19.5 - 0.62 * (lat - 32) + 0.02 * (lon + 30)
    values = north + (south - north) * warm
    for east, latitude, amplitude, radius in _EDDIES:
        drift = east - 0.05 * day
        distance = ((lon - drift) * np.cos(np.radians(lat))) ** 2 + (lat - latitude) ** 2
        values = values + amplitude * np.exp(-distance / (2 * radius**2))
    values = values - 1.1 * np.sin(2 * np.pi * (day + 15) / 365)
    values = np.maximum(values, FREEZING)
    land = np.broadcast_to(_land(), values.shape)
    result = np.where(land, np.nan, values).astype(np.float32)
    result.flags.writeable = False
    return result


def _meanders(lon: Floats, day: Floats) -> Floats:
    """North-south displacement of the current, in degrees, moving eastward with the days."""
    long = 1.5 * np.sin(2 * np.pi * (lon - 0.20 * day) / 24)
    return long + 0.7 * np.sin(2 * np.pi * (lon - 0.33 * day) / 11 + 1)


def _land() -> npt.NDArray[Any]:
    """Where there is land: shapes that recall the coasts."""
    lat, lon = LATITUDES[:, None], LONGITUDES[None, :]
    america = (lon < -65 + 0.75 * (lat - 45)) & (lat > 44) & (lat < 60)
    america &= lon < -52 - 0.9 * (lat - 52)
    greenland = (np.abs(lon + 43) < 0.95 * (lat - 59.5)) & (lat < 71)
    africa = lon > -9.5 + 1.1 * np.maximum(lat - 35.5, 0) * (lat < 37) + 0.9 * np.abs(lat - 33)
    africa &= lat < 36
    iberia = (lon > -9.2) & (lat > 37) & (lat < 43.5) | (lon > -5.0) & (lat > 35) & (lat < 38)
    france = (lon > -1.5 - 0.7 * (lat - 46)) & (lat > 43) & (lat < 51.5) & (lon > -4)
    norway = lon > 4.5 + 0.55 * np.maximum(lat - 61, 0)
    norway &= (lat > 58) | ((lon > 6.5) & (lat > 51))
    land = america | greenland | africa | iberia | france | norway
    for east, latitude, wide, high in _ISLANDS:
        land |= ((lon - east) / wide) ** 2 + ((lat - latitude) / high) ** 2 < 1
    return land
