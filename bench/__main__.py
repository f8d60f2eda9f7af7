"""Measure speed and memory, beside other readers of the same files.

python -m bench                  all, into bench/results.json and docs/benchmarks.md
python -m bench tiny scan        some, printed only
python -m bench --quick          all, small and less exact, printed only
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.scale import FULL, LEAST, QUICK, Scale
from bench.session import Session
from bench.tables import Table

NAMES = ("tiny", "big", "scan", "scan_scale", "combine", "select", "store", "remote")
"""The benchmarks: each a module with ``run(session, scale) -> list[Table]``."""

PACKAGES = (
    "intarsia", "numpy", "xarray", "zarr", "h5py", "h5netcdf", "netCDF4", "virtualizarr",
    "obstore", "kerchunk", "icechunk",
)  # fmt: skip

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- results -->", "<!-- end of results -->"


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for; 1 where something failed or other values were read."""
    parser = argparse.ArgumentParser(
        "python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="small inputs, few rounds")
    parser.add_argument("--here", action="store_true", help="all in one process, for debugging")
    parser.add_argument("--least", action="store_true", help="as the tests run them")
    parser.add_argument("--dir", type=Path, help="keep the files here (default: a temporary one)")
    parser.add_argument("--quiet", action="store_true", help="print tables only")
    asked = parser.parse_args(arguments)
    unknown = sorted(set(asked.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark is named {', '.join(unknown)}; there are {', '.join(NAMES)}")
    scale = LEAST if asked.least else QUICK if asked.quick else FULL
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        place = asked.dir or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        session = Session(
            place, apart=not asked.here, say=(lambda _: None) if asked.quiet else tell
        )
        tables = run(asked.names or NAMES, session, scale)
    tell(f"took {time.monotonic() - began:.0f} s")
    if not asked.names and scale is FULL:
        write(tables)
    return 1 if any(table.problems for table in tables) else 0


def tell(text: str) -> None:
    """Say what goes on, beside the tables."""
    print(f"  .. {text}", file=sys.stderr, flush=True)


def silent(text: str) -> None:
    """Say nothing."""


def run(names: tuple[str, ...] | list[str], session: Session, scale: Scale) -> list[Table]:
    """The tables of some benchmarks, each printed when it is there."""
    tables: list[Table] = []
    for name in names:
        began = time.monotonic()
        for table in import_module(f"bench.{name}").run(session, scale):
            print(table.text(), flush=True)
            tables.append(table)
        session.say(f"{name} took {time.monotonic() - began:.0f} s")
    return tables


def versions() -> dict[str, str]:
    """Of what took part."""
    found = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def write(tables: list[Table]) -> None:
    """Keep the results: as JSON here, and as tables in the docs."""
    day = datetime.now(UTC).date().isoformat()
    taken_part = versions()
    kept = {
        "date": day,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": taken_part,
        "tables": [table.plain() for table in tables],
    }
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    listed = ", ".join(f"{name} {number}" for name, number in taken_part.items())
    head = f"Measured on {day} on a shared machine of {os.cpu_count()} cores, with {listed}.\n"
    body = "\n".join([BEGIN, "", head, *(table.markdown() for table in tables), END])
    page = PAGE.read_text("utf-8")
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    PAGE.write_text(pattern.sub(lambda _: body, page), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
