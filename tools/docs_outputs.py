"""Writes into README.md and docs/ what their examples print now: ``python -m tools.docs_outputs``.

Outputs that already say so, three dots standing for anything, are left alone. Look at the
difference before you commit it: what an example prints is part of what users are promised.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.test_docs import PAGES, Shown, run


def main() -> None:
    """Run the examples of every page, and write the pages anew where outputs changed."""
    os.environ["COLUMNS"] = "100"
    os.environ["MPLBACKEND"] = "Agg"
    for page in PAGES:
        if sys.argv[1:] and page.name not in sys.argv[1:]:
            continue
        text = page.read_text("utf-8")
        shown: list[Shown] = []
        here = Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                run(text, str(page), shown.append)
            finally:
                os.chdir(here)
        lines = text.splitlines()
        for one in reversed([one for one in shown if not one.matches]):
            lines[one.begin - 1 : one.end - 1] = one.printed.strip("\n").splitlines()
            print(f"{page}, line {one.begin}: another output")
        page.write_text("\n".join(line.rstrip() for line in lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
