"""The real files that some tests read: where they are, and skipping where they are not.

They lie in the folder ``INTARSIA_DATA``, by default ``../shared/data`` beside the project. Use the
fixtures ``data_dir`` and ``real_file`` of conftest.py, or, to make a test per file::

    @pytest.mark.parametrize("path", real_files("hdf5/*"))
    def test_values(path: Path) -> None: ...

With ``INTARSIA_REQUIRE_DATA=1`` a test that these skip fails instead (see conftest.py).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DATA = (ROOT / os.environ.get("INTARSIA_DATA", "../shared/data")).resolve()

# Every skip for want of real files has this in its reason: conftest.py looks for it.
ABSENT = "INTARSIA_DATA: no real files at"


def real_file(name: str) -> Path:
    """Path of one real file, as ``hdf5/air.nc``; skips the test where there is none."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{ABSENT} {path}")
    return path


def real_files(pattern: str) -> list[object]:
    """Parameters for one test per real file that matches, or one skipped test."""
    paths = sorted(path for path in DATA.glob(pattern) if path.is_file())
    if not paths:
        absent = f"{ABSENT} {DATA / pattern}"
        return [pytest.param(None, id=pattern, marks=pytest.mark.skip(reason=absent))]
    return [pytest.param(path, id=path.name) for path in paths]
