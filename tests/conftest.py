"""What every test gets: real files, or a skip that says so, and figures without a screen.

Property tests try the same examples each time, so that what fails is what was changed; to look for
faults that nobody knows, let them try others: ``INTARSIA_EXPLORE=1 make test``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hdf5plugin  # noqa: F401  # before netCDF4, whose own plug-ins h5py would find first
import pytest
from hypothesis import settings

from intarsia.io import remote_whole
from tests import real

if TYPE_CHECKING:
    from tests.io.http_server import Server

os.environ["MPLBACKEND"] = "Agg"  # before anything imports matplotlib

settings.register_profile("steady", derandomize=True)
if "INTARSIA_EXPLORE" not in os.environ:
    settings.load_profile("steady")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real files; skips the test where there is none."""
    return real.real_file(".")


@pytest.fixture(scope="session")
def real_file() -> Callable[[str], Path]:
    """Path of one real file by name, as ``real_file("hdf5/air.nc")``."""
    return real.real_file


@pytest.fixture(scope="module")
def lasting_server() -> Iterator[Server]:
    """One for all tests of a module."""
    from tests.io.http_server import serving  # which few tests need

    with serving() as server:
        yield server


@pytest.fixture
def server(lasting_server: Server) -> Server:
    """A sound server without objects."""
    lasting_server.objects.clear()
    lasting_server.requests.clear()
    lasting_server.fault = None
    lasting_server.latency = 0.0
    lasting_server.most = 0
    remote_whole.forget()
    return lasting_server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[pytest.TestReport]:
    """Turn a skip for want of real files into a failure where they are required."""
    report: pytest.TestReport = yield
    if report.skipped and os.environ.get("INTARSIA_REQUIRE_DATA") == "1":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if real.ABSENT in reason:
            report.outcome = "failed"
            report.longrepr = f"INTARSIA_REQUIRE_DATA=1, but: {reason}"
    return report
