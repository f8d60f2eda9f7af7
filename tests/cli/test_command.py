"""The command as a whole: help with examples, documentation, a quick start, errors, pipes."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import intarsia
from intarsia.cli import build, main
from intarsia.cli.combining import keywords
from intarsia.cli.parser import COMMANDS, make_parser
from intarsia.cli.words import OPTIONS, in_words
from tests.cli.conftest import Ran

type Run = Callable[..., Ran]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "cli.md"


def test_version(run: Run) -> None:
    ran = run("--version")
    assert (ran.status, ran.out) == (0, f"intarsia {intarsia.__version__}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_examples_that_parse(run: Run, name: str) -> None:
    ran = run(name, "--help")
    assert ran.status == 0
    _, examples = ran.out.split("examples:\n")
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    commands = [line for line in lines if line.startswith("intarsia ")]
    assert commands
    for line in commands:
        args = make_parser().parse_args(shlex.split(line)[1:])
        assert args.command == name


def test_help_of_the_whole(run: Run) -> None:
    ran = run("--help")
    assert ran.status == 0
    for name in COMMANDS:
        assert re.search(rf"^ +{name} +\w", ran.out, re.MULTILINE)
    assert "examples:" in ran.out


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_documented(name: str) -> None:
    page = PAGE.read_text("utf-8")
    section = page.split(f"## `intarsia {name}`")[1].split("\n## ")[0]
    assert f"intarsia {name}" in re.sub("^.*$", "", section, count=1, flags=re.MULTILINE)
    assert f"<!-- help: {name} -->" in section


def test_no_command_is_a_mistake(run: Run) -> None:
    for argv in ([], ["chek"]):
        ran = run(*argv)
        assert (ran.status, ran.out) == (2, "")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom intarsia.cli import main\n"
        "try: main(['check', '--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'numpy', 'xarray', 'h5py', 'pandas', 'matplotlib'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_messages_name_options() -> None:
    assert in_words("pass on_conflict='first' to override") == (
        "pass --on-conflict first to override"
    )
    assert in_words("use tolerance=, or mask_and_scale=False") == (
        "use --tolerance, or --no-mask-and-scale"
    )
    assert in_words("a='b', rejoin='outer'") == "a='b', rejoin='outer'"
    assert in_words(f"in {Path.cwd() / 'sst' / 'a.nc'} and /b.nc") == "in sst/a.nc and /b.nc"
    assert in_words("say so: containers={'sst': {'pin': 'size'}}") == "say so: --pin sst=size"
    assert in_words("say so: containers={'sst': place}") == "say so: --container sst=PLACE"
    assert in_words("pass mode='w' to replace it") == "pass --overwrite to replace it"
    parser = argparse.ArgumentParser()
    build.add_arguments(parser)
    known = {action.dest for action in parser._actions}
    assert set(OPTIONS) <= known


def test_keywords_are_only_what_was_given() -> None:
    args = make_parser().parse_args(["check", "a.nc"])
    assert keywords(args) == {}
    args = make_parser().parse_args(
        ["check", "a.nc", "--drop-variables", "x", "--drop-variables", "y", "--on-error", "skip"]
    )
    assert keywords(args) == {"drop_variables": ["x", "y"], "on_error": "skip"}


def test_the_installed_command(folder: Path) -> None:
    command = Path(sys.executable).with_name("intarsia")
    if not command.exists():
        pytest.skip("the package is not installed with its command")
    ran = subprocess.run(
        [command, "check", "*.nc", "--concat-dim", "time"],
        capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert max(map(len, ran.stdout.splitlines())) <= 80


def test_a_reader_that_goes_away(folder: Path) -> None:
    code = (
        "import sys\nfrom intarsia.cli import main\n"
        "sys.exit(main(['check', '*.nc', '--concat-dim', 'time']))"
    )
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [sys.executable, "-u", "-c", code], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (1, b"")


def test_interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(intarsia, "check", interrupt)
    assert main(["check", "*.nc"]) == 130


def test_warnings_are_lines(folder: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    import warnings

    def warn(*_: object, **__: object) -> None:
        warnings.warn("arguments will change", FutureWarning, stacklevel=2)
        warnings.warn("times are odd", UserWarning, stacklevel=2)
        raise KeyboardInterrupt

    monkeypatch.setattr(intarsia, "check", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        ran = run("check", "*.nc")
    assert ran.err == "intarsia: warning: times are odd\n"
