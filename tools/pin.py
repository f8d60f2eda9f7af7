"""Print constraints.txt: the versions, in this environment, of all that the project can need.

Run as ``.venv/bin/python tools/pin.py > constraints.txt`` after a change of versions.
"""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEADER = """\
# Versions that the tests have run with; made by tools/pin.py. Only `make` and CI use them:
# installing Intarsia asks for no more than pyproject.toml does.
"""


def needed(name: str, extras: set[str], found: dict[str, str], done: set[tuple[str, str]]) -> None:
    """Add `name` with `extras`, and all that they need on this platform, to `found`."""
    try:
        dist = distribution(name)
    except PackageNotFoundError as error:
        raise SystemExit(f"{name} is not installed here, so it can't be pinned") from error
    found[canonicalize_name(name)] = dist.version
    for extra in ("", *sorted(extras)):
        if (name, extra) in done:
            continue
        done.add((name, extra))
        for requirement in map(Requirement, dist.requires or ()):
            if requirement.marker is None and extra:
                continue
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                needed(requirement.name, requirement.extras, found, done)


def main() -> None:
    """Walk from every dependency and extra of pyproject.toml."""
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    found: dict[str, str] = {}
    done: set[tuple[str, str]] = set()
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    for requirement in map(Requirement, (line for lines in lists for line in lines)):
        if requirement.name != project["name"]:
            needed(requirement.name, requirement.extras, found, done)
    print(HEADER + "\n".join(f"{name}=={version}" for name, version in sorted(found.items())))


if __name__ == "__main__":
    main()
