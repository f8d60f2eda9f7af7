"""The stores that the readers are shown."""

from __future__ import annotations

import pytest

from tests.readers import by_hand
from tests.readers.by_hand import Store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store that was written by hand."""
    return by_hand.write(tmp_path_factory.mktemp("readers") / "hand.intarsia")


@pytest.fixture(scope="session")
def unguarded(store: Store) -> Store:
    """The same without guards: if a way is refused here, it was not the guard."""
    return by_hand.unguarded(store, store.path.with_name("unguarded.intarsia"))
