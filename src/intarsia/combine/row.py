"""What a row of the table of differences says: kind, title, outcome, and what proves it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["ORACLES", "SECTIONS", "Outcome", "Row"]


class Outcome(Enum):
    """The three columns. The value is what a reader sees."""

    EQUAL = "equal to xarray"
    REFUSED = "refused"
    DIFFERS = "differs on purpose"

    def __str__(self) -> str:
        return self.value


class Row(NamedTuple):
    """One kind of difference.

    Parameters
    ----------
    kind
        Stable name, for programs.
    section
        Key of `SECTIONS`.
    title
        What differs, for people.
    outcome
        What happens when no argument says otherwise.
    done
        What is done, in a phrase that completes the outcome.
    oracle
        Key of `ORACLES`: what a right answer is.
    test
        Name of a test function that shows it, and in brackets of the case among its parameters.
    override
        The arguments that change the outcome, as they are written; empty where there are none.
    """

    kind: str
    section: str
    title: str
    outcome: Outcome
    done: str
    oracle: str
    test: str
    override: str = ""


SECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "storage": "How the bytes are stored",
        "packing": "How numbers are packed",
        "types": "Types",
        "shape": "Variables and dimensions",
        "meaning": "Units, times and other attributes",
        "coordinates": "Coordinates",
        "sources": "Files and variables that can't be used as they are",
        "faults": "Known faults of xarray, refused by name",
        "purpose": "Where Intarsia differs from xarray on purpose",
    }
)

ORACLES: Mapping[str, str] = MappingProxyType(
    {
        "xarray": "each file opened by xarray with h5netcdf on its own, then combined by xarray "
        "with the same arguments: equal in dtype, dims, shape, coordinates, attributes and every "
        "bit of every value",
        "HDF5": "the HDF5 library (h5py) reading the same dataset",
        "none": "there is nothing to compare with: the test shows the error, or the report",
    }
)
