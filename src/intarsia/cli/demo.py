"""``intarsia demo``: unlike files made, combined, compared bit for bit, and drawn."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from intarsia.demo.verify import Outcome

HEADS = ("what is unlike", "files", "segments", "cases", "requests", "read", "equal")
WIDTHS = (-29, 5, 8, 5, 8, 9, 5)
LAST = "under one set of attributes"

POSITIONAL = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--out", type=Path, default=Path("demo"), metavar="DIR",
        help="where the figures go (default: demo)",
    )  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="keep the files too, in DIR/files")


def run(args: argparse.Namespace) -> int:
    """Make unlike files, combine them, compare every bit, and draw figures.

    For each way in which files of one archive can be unlike, the demo writes a few small files,
    combines them with Intarsia, and compares all values bit for bit with xarray and h5netcdf
    reading each file on its own. Beside it stands what one set of attributes would give: the
    numbers of all files, decoded by the first file's type, filters, chunks and attributes.

    Exits with 1 if any value is not equal. Figures need matplotlib (pip install 'intarsia[plot]').

    Examples
    --------
      intarsia demo

      # keep the files, to look at them with other tools
      intarsia demo --out /tmp/demo --keep
      ncdump -hs /tmp/demo/files/packing/packing-2.nc
    """
    began = time.perf_counter()
    if args.keep:
        outcomes = _outcomes(args.out / "files")
        print(f"Files: {args.out / 'files'}")
    else:
        with tempfile.TemporaryDirectory(prefix="intarsia-demo-") as folder:
            outcomes = _outcomes(Path(folder))
    _draw(outcomes, args.out)
    equal = sum(outcome.equal for outcome in outcomes)
    seconds = time.perf_counter() - began
    print(f"{equal} of {len(outcomes)} equal in every bit; {seconds:.0f} s.")
    return 0 if equal == len(outcomes) else 1


def _outcomes(folder: Path) -> list[Outcome]:
    """Run all cases, and print a line for each when it is done."""
    from intarsia.demo.cases import CASES  # heavy, and not needed for the help
    from intarsia.demo.finding import found
    from intarsia.demo.verify import run as verify
    from intarsia.xarray.explaining import human

    print(_row(HEADS, LAST))
    outcomes: list[Outcome] = []
    for case in CASES:
        outcome = verify(case, folder / case.key)
        outcomes.append(outcome)
        counts = (len(outcome.paths), len(outcome.boxes), outcome.encodings, outcome.requests)
        cells = (case.title, *map(str, counts), human(outcome.nbytes))
        print(_row((*cells, "yes" if outcome.equal else "NO"), found(outcome).text), flush=True)
        for problem in outcome.unequal:
            print(f"    not equal: {problem}")
    return outcomes


def _row(cells: Sequence[str], last: str) -> str:
    padded = (
        cell.ljust(-width) if width < 0 else cell.rjust(width)
        for cell, width in zip(cells, WIDTHS, strict=True)
    )
    return "  ".join([*padded, last])


def _draw(outcomes: Sequence[Outcome], folder: Path) -> None:
    if find_spec("matplotlib") is None:
        print("No figures: matplotlib is not installed (pip install 'intarsia[plot]').")
        return
    from intarsia.demo.figures import draw_all_segments, draw_case, draw_overview
    from intarsia.progress import Progress

    with Progress("drawing", len(outcomes) + 2, unit="figures") as progress:
        draw_overview(outcomes, folder / "overview.png")
        progress.advance()
        draw_all_segments(outcomes, folder / "segments.png")
        progress.advance()
        for outcome in outcomes:
            draw_case(outcome, folder / f"{outcome.case.key}.png")
            progress.advance()
    print(f"Figures: {folder}/overview.png, segments.png, and one for each case")
