"""Verifying: every source read again with its own library, and held against what a store gives.

What is compared is what a user gets: values that the engine reads through the references, beside
those that xarray and h5netcdf read of the same elements. `pieces` says which elements those are,
`original` reads them, `comparing` compares what stays in the sources, `copies` what a store holds.
"""

from intarsia.xarray.verifying.results import (
    Changed,
    Difference,
    Uncompared,
    VariableResult,
    Verification,
)
from intarsia.xarray.verifying.run import verify

__all__ = ["Changed", "Difference", "Uncompared", "VariableResult", "Verification", "verify"]
