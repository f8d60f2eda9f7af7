"""Goes all ways of `zarr_ways` in a process where Intarsia is not installed.

Run as ``python -m tests.readers.without_intarsia STORE``, with JSON of which arrays and which
groups on standard input; prints what came of each way as JSON.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any


def hide_intarsia() -> None:
    """Take Intarsia away, and with it what it registers."""
    discover = importlib.metadata.Distribution.discover

    def without(**options: Any) -> Any:
        return (found for found in discover(**options) if found.metadata["Name"] != "intarsia")

    importlib.metadata.Distribution.discover = without
    sys.modules["intarsia"] = None  # type: ignore[assignment]


def main() -> None:
    hide_intarsia()
    import xarray as xr

    from tests.readers import zarr_ways as ways

    assert "intarsia" not in xr.backends.list_engines()
    registered = [point.value for point in importlib.metadata.entry_points()]
    assert registered
    assert not [value for value in registered if value.startswith("intarsia")]

    path, asked = Path(sys.argv[1]), json.load(sys.stdin)
    by_group = {**ways.GROUP_WAYS, **ways.DROPPING_WAYS, **ways.CONSOLIDATED_WAYS}
    found = {
        way: {name: ways.outcome(read, path, name) for name in names}
        for chosen, names in (
            (ways.ARRAY_WAYS, asked["virtual"] + asked["copied"]),
            (ways.WRITING_WAYS, asked["virtual"]),
            (by_group, asked["groups"]),
        )
        for way, read in chosen.items()
    }
    found["open_dataset, any engine"] = {
        "": ways.outcome(lambda: xr.open_dataset(path).load()),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
