"""The oracle: what xarray gives, each file read on its own with h5netcdf, then combined in memory.

`open_dataset` and `open_mfdataset` answer in this process, under the names of xarray's functions
and of Intarsia's. `OraclePool` answers from processes of its own, for files that may crash one.
"""

from tests.oracle.answer import Question, answer, open_dataset, open_mfdataset
from tests.oracle.chain import Chain, apply_chain
from tests.oracle.pool import OracleCrashed, OracleError, OraclePool

__all__ = [
    "Chain",
    "OracleCrashed",
    "OracleError",
    "OraclePool",
    "Question",
    "answer",
    "apply_chain",
    "open_dataset",
    "open_mfdataset",
]
