"""zarrita.js, in Node: refuses virtual arrays, reads all others that JavaScript has a type for.

Refused too are complex numbers, float16 (unless the engine has it: Node 24), and arrays without
elements. Where zarrita looks for any version of Zarr, it may say that it found nothing.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intarsia.store.guard import KEYS
from tests.readers.by_hand import Store
from tests.readers.optional import NODE_MODULES, node

NODE = node()
SCRIPT = Path(__file__).with_name("zarrita.mjs")

WAYS = (
    *("open array", "open any", "open.v3 array", "open.v3 any"),
    *("from its group", "from its group, any version", "by path", "chunk"),
)

REFUSED = ("copies/float16", "copies/complex64", "copies/complex128", "copies/empty")

SAID = (f"InvalidMetadataError: Unknown chunk key encoding: {KEYS}", "NotFoundError: Not found: v2")


def gone(store: Store, arrays: list[str]) -> dict[str, dict[str, Any]]:
    """What came of each way."""
    asked = json.dumps({"path": str(store.path), "arrays": arrays})
    done = subprocess.run(
        [NODE, "--input-type=module", "-", asked],
        input=SCRIPT.read_text(),
        capture_output=True,
        text=True,
        cwd=NODE_MODULES,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert tuple(found) == WAYS
    return found


@pytest.fixture(scope="module")
def outcomes(store: Store) -> dict[str, dict[str, Any]]:
    return gone(store, list(store.virtual))


def values_of(found: Any, like: np.ndarray) -> np.ndarray:
    if "scalar" in found:
        return np.array(float(found["scalar"]), like.dtype)
    if "list" in found:
        return np.array(found["list"], like.dtype).reshape(found["shape"])
    return np.frombuffer(bytes.fromhex(found["hex"]), like.dtype).reshape(found["shape"])


@pytest.mark.parametrize("way", WAYS)
def test_virtual_arrays_are_refused(store: Store, outcomes: Any, way: str) -> None:
    for name in store.virtual:
        assert outcomes[way][name].keys() == {"refused"}
        assert outcomes[way][name]["refused"].startswith(SAID)


def test_without_a_guard_they_would_be_fill(unguarded: Store) -> None:
    for way, found in gone(unguarded, list(unguarded.virtual)).items():
        for name in unguarded.virtual:
            assert "read" in found[name], (way, name)


def test_copied_arrays_and_tables_are_read(either: Store) -> None:
    wanted = {**either.copied, **either.tables}
    for way, outcomes in gone(either, list(wanted)).items():
        for name, values in wanted.items():
            found = outcomes[name]
            if way == "chunk" or (name in REFUSED and "refused" in found):
                continue
            np.testing.assert_array_equal(values_of(found["read"], values), values, strict=True)
