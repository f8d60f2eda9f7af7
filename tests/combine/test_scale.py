"""Many like files cost little: counted in objects and in questions asked, not in seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from intarsia.combine import Options, Part, SourceSummary, Summarizer, decide, report_from_parts
from intarsia.combine import columns as columns_module
from intarsia.encoding import Codec, Encoding
from tests.combine.make import BY_COORDS, NESTED, SST

FILES = 400
NAMES = [f"v{number:02}" for number in range(11)]
LAT = np.linspace(-90, 90, 721)


def pile(files: int = FILES, *, scales: int = 1) -> tuple[list[SourceSummary], Summarizer]:
    """Files of 13 variables whose times differ; `scales` different scale factors among them."""
    make = Summarizer()
    summaries: list[SourceSummary] = []
    fields: dict[str, Any] = {**SST, "shape": (1, 721), "chunks": (1, 721)}
    for file in range(files):
        fields["scale"] = np.float64(0.01 * (1 + file % scales))
        variables = {name: make.variable(**fields) for name in NAMES}
        variables["time"] = make.index(
            "time", np.array([file], "M8[D]"), units="days since 1970-01-01"
        )
        variables["lat"] = make.index("lat", LAT.copy(), attrs={"units": "degrees_north"})
        summaries.append(make.source(f"{file}.nc", variables, attrs={"title": "pile"}))
    return summaries, make


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts how many summaries are asked for one aspect, over all aspects."""
    count = [0]
    real = columns_module.regroup

    def counting(groups: Any, aspect: Any) -> Any:
        def counted(value: Any) -> Any:
            count[0] += 1
            return aspect(value)

        return real(groups, counted)

    monkeypatch.setattr(columns_module, "regroup", counting)
    return count


def test_like_variables_are_one_object() -> None:
    summaries, make = pile()
    distinct = {id(v) for summary in summaries for v in summary.variables.values()}
    assert len(distinct) == FILES + 2  # each file's time; one for all eleven, and lat
    lats = {id(summary.variables["lat"].content) for summary in summaries}
    assert len(lats) == 1
    assert make.intern(LAT.copy()) is summaries[0].variables["lat"].content.values  # type: ignore[union-attr]


@pytest.mark.parametrize("options", [NESTED, BY_COORDS])
def test_questions_do_not_grow_with_like_files(asked: list[int], options: Options) -> None:
    few = pile(FILES // 10)[0]
    decision = decide(few, options)
    assert decision.differences == ()
    assert decision.concat_dims == ("time",)
    first, asked[0] = asked[0], 0
    decide(pile(FILES)[0], options)
    grown = asked[0] - first
    # only the times are different in each file: some questions about each of them
    assert grown <= 40 * (FILES - FILES // 10)


def test_questions_grow_with_what_differs_only(asked: list[int]) -> None:
    decide(pile()[0], NESTED)
    plain, asked[0] = asked[0], 0
    (*found,) = decide(pile(scales=5)[0], NESTED).differences
    assert [difference.distinct for difference in found] == [5] * 11
    assert asked[0] - plain < 11 * 5 * 40


def test_every_file_differs() -> None:
    decision = decide(pile(scales=FILES)[0], replace(NESTED, join="outer"))
    assert {difference.distinct for difference in decision.differences} == {FILES}
    assert all(len(difference.examples) == 6 for difference in decision.differences)


class Names(list[str]):
    """Names of sources that count how often they are asked for."""

    asked = 0

    def __getitem__(self, item: Any) -> Any:
        self.asked += 1
        return super().__getitem__(item)


def test_names_are_asked_for_as_far_as_they_are_shown() -> None:
    encoding = Encoding((Codec.make("zlib"),), np.dtype("<i2")).extend(
        (Codec.make("scale", dtype="<f8", scale=True, offset=False),), {"scale": np.dtype("f8")}
    )
    rows = np.zeros(FILES, encoding.parameters)
    rows["scale"] = np.arange(FILES)
    names = Names(f"{file}.nc" for file in range(FILES))
    (found,) = report_from_parts([Part("v", encoding, rows, names)]).differences
    assert (found.kind, found.distinct) == ("scale-offset", FILES)
    assert names.asked < 20
