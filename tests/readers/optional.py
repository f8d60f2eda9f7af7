"""Readers that Intarsia does not need: their tests are skipped where they are not installed.

``make readers`` installs them. With ``INTARSIA_REQUIRE_READERS=1`` a test that is skipped for want
of one fails instead (see conftest.py).
"""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

# Every skip for want of a reader has this in its reason: conftest.py looks for it.
ABSENT = "'make readers' installs it"

NODE_MODULES = Path(sys.prefix) / "readers"
"""The folder where ``make readers`` has npm install zarrita."""


def reader(name: str) -> Any:
    """Import a reader; skips the module that asks where there is none."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        pytest.skip(f"{name} is not installed; {ABSENT}", allow_module_level=True)


def node() -> str:
    """Path of Node, beside which zarrita is installed; skips the module where it is not."""
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        pytest.skip("Node with npm is not installed", allow_module_level=True)
    if not (NODE_MODULES / "node_modules/zarrita").is_dir():
        pytest.skip(f"zarrita is not installed; {ABSENT}", allow_module_level=True)
    return found
