"""The stores that the readers are shown, and what happens where a reader is absent."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.readers.optional import ABSENT

if TYPE_CHECKING:
    from tests.readers.by_hand import Store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store that Intarsia has written."""
    from tests.readers import saved

    return saved.save(tmp_path_factory.mktemp("saved") / "saved.intarsia")


@pytest.fixture(scope="session")
def hand(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store that was written as the specification has it, without Intarsia."""
    from tests.readers import by_hand

    return by_hand.write(tmp_path_factory.mktemp("hand") / "hand.intarsia")


@pytest.fixture(params=["store", "hand"])
def either(request: pytest.FixtureRequest) -> Store:
    """Both of them, one after the other."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def unguarded(store: Store) -> Store:
    """The first without guards: if a way is refused here, it was not the guard."""
    from tests.readers import by_hand

    return by_hand.unguarded(store, store.path.with_name("unguarded.intarsia"))


@pytest.fixture(autouse=True, scope="module")
def refusals_that_nobody_awaits() -> Iterator[None]:
    """Collects them here, where what asyncio says of them is captured.

    When one member of a group is refused, zarr-python lets the tasks of the others go unawaited.
    """
    yield
    gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[pytest.CollectReport]:
    """Turn a skip for want of a reader into a failure where readers are required."""
    report: pytest.CollectReport = yield
    if report.skipped and os.environ.get("INTARSIA_REQUIRE_READERS") == "1":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if ABSENT in reason:
            report.outcome = "failed"
            report.longrepr = f"INTARSIA_REQUIRE_READERS=1, but: {reason}"
    return report
