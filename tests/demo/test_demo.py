"""The demo: its files are unlike as it says, and its comparison sees every bit."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

from intarsia.cli import demo as command
from intarsia.cli import main
from intarsia.demo import verify
from intarsia.demo.cases import CASES, Case
from intarsia.demo.field import temperature
from intarsia.demo.files import NAME
from intarsia.demo.finding import found
from intarsia.demo.oneset import Refused
from intarsia.demo.verify import Outcome, differing, run, same_bits
from intarsia.errors import SourceMissing

CASE = {case.key: case for case in CASES}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What becomes of each case, run once for all tests."""
    folder = tmp_path_factory.mktemp("demo") / "files"
    return {case.key: run(case, folder / case.key) for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_every_case_is_equal(case: Case, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[case.key]
    assert outcome.unequal == ()
    assert outcome.equal
    assert len(outcome.boxes) == len(case.pieces) == len(outcome.paths)
    assert outcome.values is not None
    assert outcome.values.shape == temperature().shape
    # every element lies in one box
    covered = np.zeros((outcome.values.shape[0], outcome.values.shape[2]), int)
    for box in outcome.boxes:
        covered[slice(*box.days), slice(*box.columns)] += 1
    assert (covered == 1).all()


def test_values_are_the_formulas_but_for_packing(outcomes: dict[str, Outcome]) -> None:
    """What was written comes back, to half a packing step: nothing is compared with nothing."""
    for key in ("codec-eras", "packing", "never-written", "reversed"):
        values = outcomes[key].values
        assert values is not None
        np.testing.assert_allclose(values, temperature(), atol=0.0101)
        assert np.isfinite(values).mean() > 0.7


def test_one_set_of_attributes_is_computed(outcomes: dict[str, Outcome]) -> None:
    first, moved = 0.01, 6.0
    picture = outcomes["packing"].one_set
    assert isinstance(picture, np.ndarray)
    right = temperature()
    np.testing.assert_allclose(picture[:30], right[:30], atol=first)
    sea = np.isfinite(right[30:60])
    np.testing.assert_allclose(picture[30:60][sea], right[30:60][sea] - moved, atol=first)
    assert np.isclose(picture[30:60][~sea], -99.99).all()


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("codec-eras", "one chain of filters, the files have gzip; shuffle and gzip; no filter"),
        ("month-lengths", "one chunk shape, the files have 31x40x80; 28x40x80"),
        ("ragged-chunks", "files of 10 days in chunks of 4"),
        ("dtype-drift", "one type of number, the files have int16; float32; float64"),
    ],
)
def test_one_set_of_attributes_is_refused(
    key: str, said: str, outcomes: dict[str, Outcome]
) -> None:
    refused = outcomes[key].one_set
    assert isinstance(refused, Refused)
    assert said in refused.reason


def test_chunks_of_ice_are_not_written(outcomes: dict[str, Outcome]) -> None:
    paths = outcomes["never-written"].paths
    counts: list[int] = []
    for path in paths:
        with h5py.File(path) as file:
            counts.append(file[NAME].id.get_num_chunks())
    whole = 3 * 8 * 16
    assert counts[1] < whole
    with xr.open_dataset(paths[1], engine="h5netcdf") as ds:
        assert float(ds[NAME][0, -1, 0]) == pytest.approx(-1.8)


def test_findings(outcomes: dict[str, Outcome]) -> None:
    texts = {key: found(outcome).text for key, outcome in outcomes.items()}
    assert texts["codec-eras"] == "refused"
    assert texts["packing"].startswith("67 % wrong, by up to ")
    assert texts["never-written"].endswith("% lost")
    assert texts["absent"] == "33 % invented"


def test_a_bit_that_differs_is_seen() -> None:
    right = xr.Dataset({"a": ("x", np.array([1.0, np.nan, 0.0]), {"units": "K"})})
    assert differing(right.copy(deep=True), right) == []
    wrong = right.copy(deep=True)
    wrong.a[0] = np.nextafter(1.0, 2)
    assert differing(wrong, right) == ["1 of 3 values of a differ"]
    wrong = right.copy(deep=True)
    wrong.a[2] = -0.0
    assert differing(wrong, right) == ["1 of 3 values of a differ"]
    assert "dtype" in differing(right.astype("f4"), right)[0]
    assert "attrs" in differing(right.assign(a=right.a.assign_attrs(units="C")), right)[0]
    assert "variables" in differing(right.rename(a="b"), right)[0]
    assert "global" in differing(right.assign_attrs(title="x"), right)[0]
    ones = np.array([np.nan, 2.0])
    assert same_bits(ones, -ones).tolist() == [True, False]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only two cases, to be quick."""
    from intarsia.demo import cases

    monkeypatch.setattr(cases, "CASES", (CASE["packing"], CASE["absent"]))


def test_command(
    few: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    head, one, two, figures, verdict = capsys.readouterr().out.splitlines()
    assert head.split()[-6:-3] == ["equal", "under", "one"]
    assert one.index("yes") == two.index("yes") == head.index("equal") + len("equal") - len("yes")
    assert one.index("wrong") > one.index("yes")
    assert figures.startswith("Figures: demo/overview.png")
    assert verdict.startswith("2 of 2 equal in every bit")
    drawn = sorted(path.name for path in (tmp_path / "demo").iterdir())
    assert drawn == ["absent.png", "overview.png", "packing.png", "segments.png"]


def test_command_keeps_files(few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_draw", lambda *_: None)
    assert main(["demo", "--out", str(tmp_path / "here"), "--keep"]) == 0
    kept = sorted(path.name for path in (tmp_path / "here" / "files").rglob("*.nc"))
    assert kept == [f"{key}-{number}.nc" for key in ("absent", "packing") for number in (1, 2, 3)]
    assert main(["demo", "--out", str(tmp_path / "here"), "--keep"]) == 0  # again, over the old


def test_command_fails_where_values_differ(
    few: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = verify._alone

    def shifted(*args: Any) -> xr.Dataset:
        alone = honest(*args)
        alone[NAME][0, 0, 0] += 1
        return alone

    monkeypatch.setattr(verify, "_alone", shifted)
    assert main(["demo", "--out", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "not equal: 1 of 288000 values of sst differ" in told
    assert "0 of 2 equal" in told


def test_an_error_of_the_library_is_a_case_that_is_not_equal(
    few: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise SourceMissing("gone", url="a.nc")

    monkeypatch.setattr(verify, "_combined", fail)
    assert main(["demo", "--out", str(tmp_path)]) == 1
    assert "not equal: SourceMissing: gone: a.nc" in capsys.readouterr().out
    assert (tmp_path / "packing.png").exists()


def test_command_without_matplotlib(
    few: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real_import: Callable[..., Any] = builtins.__import__

    def no_matplotlib(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(command, "find_spec", lambda name: None)
    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    assert main(["demo", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "No figures: matplotlib is not installed (pip install 'intarsia[plot]')" in told
    assert "2 of 2 equal" in told
    assert list(tmp_path.iterdir()) == []


def test_outcomes_without_values_are_drawn(tmp_path: Path, outcomes: dict[str, Outcome]) -> None:
    figures = pytest.importorskip("intarsia.demo.figures")
    right = outcomes["packing"]
    failed = Outcome(
        right.case, right.paths, None, right.alone, right.one_set, (), 0, 0, 0, ("it failed",)
    )
    figures.draw_case(failed, tmp_path / "a" / "failed.png")
    assert (tmp_path / "a" / "failed.png").stat().st_size > 10_000
