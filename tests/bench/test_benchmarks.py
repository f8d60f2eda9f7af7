"""Each benchmark runs, at its least size, and says that all read the same values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import __main__ as command
from bench.harness import Answer, Contender, Result, Sample, digest, measure
from bench.scale import LEAST
from bench.session import Session
from bench.tables import Table, scaled


@pytest.mark.parametrize("name", command.NAMES)
@pytest.mark.filterwarnings("default")
def test_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(tmp_path, apart=False, say=command.silent)
    tables = command.run([name], session, LEAST)
    assert tables
    assert capsys.readouterr().out.count("Intarsia") >= len(tables)
    for table in tables:
        assert table.problems == []
        assert table.results[0].name.startswith("Intarsia")
        assert table.results[0].samples
        assert len({len(row) for row in table.cells()}) == 1
        assert table.title in table.markdown()
        json.dumps(table.plain())


def nothing(units: int) -> object:
    return lambda number: Answer(units, [1.0, 2.0], {"number": number})


def broken() -> object:
    raise ValueError("not today")


def test_contenders_take_turns_in_processes_of_their_own() -> None:
    told: list[str] = []
    contenders = [
        Contender("one", nothing, (2,)),  # type: ignore[arg-type]
        Contender("two", nothing, (4,), rounds=1),  # type: ignore[arg-type]
        Contender("bad", broken),  # type: ignore[arg-type]
        Contender("none", nothing, (1,), needs=("no_such_module",)),  # type: ignore[arg-type]
    ]
    one, two, bad, none = measure(contenders, 2, say=told.append)
    assert (len(one.samples), one.units, one.facts) == (2, 2, {"number": 1})
    assert (len(two.samples), two.units) == (1, 4)
    assert one.digest == two.digest == digest([1.0, 2.0])
    assert bad.problem == "ValueError: not today"
    assert none.problem == "not installed: no_such_module"
    rounds = [text for text in told if "round" in text]
    assert rounds == ["one: round 1", "two: round 1", "one: round 2"]
    table = Table("t", "chunk", [one, two, bad, none])
    assert table.problems == ["bad: ValueError: not today"]


def test_tables() -> None:
    fast = Result("Intarsia", [Sample(2.0, 1.0, 0, 0, 0), Sample(1.0, 2.0, 0, 0, 0)], 10, "a")
    slow = Result("peer", [Sample(60.0, 60.0, 0, 0, 0)], 20, "b")
    table = Table("t", "chunk", [fast, slow])
    assert table.ratio("peer", "Intarsia") == pytest.approx(30)
    assert table.ratio("peer", "Intarsia", "wall") == pytest.approx(30)
    assert table.ratio("peer", "absent") is None
    table.at_least("more", table.ratio("peer", "Intarsia"), 30)
    table.at_most("less", table.ratio("Intarsia", "peer"), 0.01)
    table.at_most("what", None, 1)
    assert [target.met for target in table.targets] == [True, False, None]
    assert table.problems == ["peer: other values than Intarsia"]
    assert "MISSED less: 0.03" in table.text()
    assert "| peer | 3 s | 30 |" in table.markdown()
    assert [scaled(x) for x in (2.0, 0.02, 3e-5, 3e-8)] == ["2 s", "20 ms", "30 µs", "0.03 µs"]


def test_results_go_into_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{command.BEGIN}\nold\n{command.END}\nafter\n", "utf-8")
    monkeypatch.setattr(command, "PAGE", page)
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results.json")
    command.write([Table("new title", "chunk", [Result("Intarsia", problem="not installed: x")])])
    text = page.read_text("utf-8")
    assert "new title" in text
    assert "old" not in text
    assert (text[:7], text[-6:]) == ("before\n", "after\n")
    assert json.loads((tmp_path / "results.json").read_text("utf-8"))["tables"]


def test_names_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["tinny"])
    assert "no benchmark is named tinny" in capsys.readouterr().err
