"""Reports and checks as people and programs read them."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from intarsia.combine import CheckResult, Decision, Part, Report, report_from_parts
from intarsia.combine.text import table
from intarsia.encoding import Codec, Encoding
from intarsia.errors import CorruptFile
from tests.combine.make import BY_COORDS, NESTED, Archive, told

TRUNCATED = ("d.nc", CorruptFile("the file is truncated", url="d.nc"))


def unlike() -> Archive:
    archive = Archive().change(1, "sst", filters=("zlib",), scale=np.float32(0.02))
    archive.change(2, "time", units="hours since 1970-01-01")
    archive.everywhere("ice", dims=("time",), shape=(3,), dtype=np.dtype("f4"), layout="chunked")
    archive.everywhere("ice", stored=np.dtype("f4"), filters=("shuffle", "zlib"))
    archive.change(1, "ice", filters=("zlib",))
    return archive


def test_a_report_of_nothing() -> None:
    assert str(Report.of(Archive().decide())) == (
        "3 sources, along time\n\nNo differences between them."
    )
    assert str(Report.of(Archive(1).decide(BY_COORDS))).startswith("1 source\n")


def test_a_report() -> None:
    report = Report.of(
        unlike().decide(), skipped=[TRUNCATED], remarks={"time": ["loaded: an index coordinate"]}
    )
    assert (
        report.text(96)
        == """\
3 sources, along time; 1 left out

variable  what differs                 values                       what is done
--------  ---------------------------  ---------------------------  ----------------------------
sst, ice  compression, its level, or   shuffle > zlib (2 files,     equal to xarray: each chunk
          the order of filters           first a.nc)                is decoded by its own file's
                                       zlib (b.nc)                  filters
sst       scale_factor or add_offset   scale 0.01, offset 273.15    equal to xarray: each file's
                                         (2 files, first a.nc)      values are unpacked by its
                                       scale 0.02, offset 273.15    own
                                         (b.nc)
time      epoch or units of times and  'days since 1970-01-01' (2   equal to xarray: each file's
          durations                      files, first a.nc)         times are decoded by its own
                                       'hours since 1970-01-01'
                                         (c.nc)

Left out:
- the file is truncated: d.nc

Notes:
- 'time': loaded: an index coordinate"""
    )
    assert max(map(len, report.text(90).splitlines())) <= 90
    assert pickle.loads(pickle.dumps(report)) == report


def test_a_report_in_a_notebook() -> None:
    archive = Archive()
    archive.attrs[1] = {"title": "<b>&"}
    shown = Report.of(archive.decide(), skipped=[TRUNCATED])._repr_html_()
    assert "&lt;b&gt;&amp;" in shown
    assert "<b>&" not in shown
    assert "d.nc" in shown
    for tag in ("div", "table", "tr", "td", "details", "ul", "li"):
        assert shown.count(f"<{tag}") - shown.count(f"</{tag}>") in (0, shown.count("<title")), tag


def test_a_report_as_data() -> None:
    data = json.loads(json.dumps(Report.of(unlike().decide(), skipped=[TRUNCATED]).as_json()))
    assert (data["sources"], data["concat_dims"]) == (3, ["time"])
    assert data["skipped"] == [
        {"source": "d.nc", "kind": "corrupt-file", "reason": "the file is truncated: d.nc"}
    ]
    codec = data["differences"][0]
    assert (codec["kind"], codec["variable"], codec["outcome"]) == (
        "codec",
        "sst",
        "equal to xarray",
    )
    assert codec["values"] == [
        {"value": "shuffle > zlib", "source": "a.nc", "sources": 2},
        {"value": "zlib", "source": "b.nc", "sources": 1},
    ]


def test_many_values_are_counted() -> None:
    archive = Archive(10)
    for number, attrs in enumerate(archive.attrs):
        attrs["history"] = f"made {number}"
    (found,) = archive.decide().differences
    assert found.distinct == 10
    assert len(found.examples) == 6
    assert found.values[-2:] == ["'made 5' (f.nc)", "and 4 more"]


def test_notes_for_arrays() -> None:
    """What segments can't tell travels as notes; what they can does not."""
    archive = unlike().change(1, "sst", attrs={"units": "degC"}, padded=True)
    decision = archive.decide(replace(NESTED, on_conflict="first"))
    notes = Report.notes(decision, [TRUNCATED])
    assert set(notes) == {"sst", ""}
    assert [line.split(":")[:2] for line in notes["sst"]] == [
        ["'sst'", " a dataset shorter than its unlimited dimension"],
        ["'sst'", " units of a variable"],
    ]
    assert "'K' (2 files, first a.nc) | 'degC' (b.nc)" in notes["sst"][1]
    assert notes[""][0].startswith("'time': epoch or units")
    assert notes[""][1] == "left out: the file is truncated: d.nc"


# -------------------------------------------------------------------------------------- check


def test_a_check_that_passes() -> None:
    result = CheckResult.of(unlike().decide())
    assert result.ok
    assert result.status == 0
    assert str(result).endswith("\n\nThey can be combined as asked.")


def test_a_check_that_fails() -> None:
    archive = unlike().change(1, "sst", attrs={"units": "degC"})
    result = CheckResult.of(archive.decide(), skipped=[TRUNCATED])
    assert result.status == 1
    assert str(result).endswith(
        """

They can't be combined as asked:
- the file is truncated: d.nc
- units differ: 'sst', 'K' in a.nc and 'degC' in b.nc; convert them with preprocess=, or pass
  on_conflict='first' to override"""
    )
    assert json.loads(json.dumps(result.as_json()))["ok"] is False
    skipped = CheckResult.of(unlike().decide(), skipped=[TRUNCATED], on_error="skip")
    assert skipped.ok
    assert "d.nc" in str(skipped)


def test_a_check_that_xarray_fails() -> None:
    problem = ValueError("conflicting values for variable 'mask'\nfirst value: ...")
    result = CheckResult.of(Archive().decide(), problem=problem)
    assert result.problems == ("ValueError: conflicting values for variable 'mask'",)


def test_a_check_of_nothing() -> None:
    assert CheckResult.of(Archive(0).decide()).status == 1


def test_all_conflicts_are_told() -> None:
    archive = Archive().change(1, "sst", attrs={"units": "degC"})
    archive.change(1, "lat", attrs={"units": "radians"})
    archive.everywhere("ok", dims=("time",), shape=(3,), dtype=np.dtype("?")).without(1, "ok")
    decision = archive.decide()
    with pytest.raises(
        ValueError, match=r"the first of 3 conflicts\): 'ok', .* in a\.nc"
    ) as caught:
        decision.raise_if_refused()
    assert [note.split(";")[0] for note in caught.value.__notes__] == [
        "also refused: units differ: 'sst', 'K' in a.nc and 'degC' in b.nc",
        "also refused: units differ: 'lat', 'degrees_north' in a.nc and 'radians' in b.nc",
    ]
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.files) == (str(caught.value), caught.value.files)
    assert len(CheckResult.of(decision).problems) == 3
    assert isinstance(decision, Decision)


# -------------------------------------------------------------------------------------- parts


def encoding(
    filters: tuple[str, ...] = ("zlib",), stored: str = "<i2", *, types: str = "f8", **steps: bool
) -> Encoding:
    codecs = tuple(Codec.make(name) for name in filters)
    plain = Encoding(codecs, np.dtype(stored))
    if not steps:
        return plain
    scale = Codec.make("scale", dtype=f"<{types}", scale=True, offset=False)
    mask = Codec.make("mask", dtype=f"<{types}", fills=1, value="nan")
    fields = {"fill_0": np.dtype(stored), "scale": np.dtype(types)}
    return plain.extend((mask, scale), fields)


def rows(encoding: Encoding, *values: tuple[float, ...]) -> np.ndarray:
    return np.array(list(values), encoding.parameters)


def test_parts() -> None:
    packed, swapped = (
        encoding(packed=True),
        encoding(("shuffle", "zlib"), ">i4", types="f4", packed=True),
    )
    parts = [
        Part("sst", packed, rows(packed, (-1, -1, 0.1), (-1, -2, 0.2), (-1, -1, 0.1)),
             ["a.nc", "b.nc", "c.nc"], np.array([[1, 4], [1, 4], [2, 2]])),
        Part("sst", swapped, rows(swapped, (-1, -1, 0.5)), ["d.nc"], np.array([[1, 4]])),
        Part("ice", encoding(), rows(encoding(), (0,), (0,)), ["a.nc", "a.nc"], np.array([[3]])),
    ]  # fmt: skip
    report = report_from_parts(parts, notes={"sst": ["pointwise selection"], "ice": ["'x': y"]})
    assert report.sources == 4
    found = {difference.kind: told(difference) for difference in report.differences}
    assert found == {
        "codec": [("zlib", "a.nc", 3), ("shuffle > zlib", "d.nc", 1)],
        "chunks": [("(1, 4)", "a.nc", 3), ("(2, 2)", "c.nc", 1)],
        "byte-order": [("little-endian", "a.nc", 3), ("big-endian", "d.nc", 1)],
        "stored-dtype": [("int16", "a.nc", 3), ("int32", "d.nc", 1)],
        "dtype": [("float64", "a.nc", 3), ("float32", "d.nc", 1)],
        "scale-offset": [
            ("scale 0.1", "a.nc", 2),
            ("scale 0.2", "b.nc", 1),
            ("scale 0.5", "d.nc", 1),
        ],
        "fill": [("-1", "a.nc", 3), ("-2", "b.nc", 1)],
        "packing-types": [
            ("scale float64, offset none", "a.nc", 3),
            ("scale float32, offset none", "d.nc", 1),
        ],
    }  # fmt: skip
    assert {difference.variable for difference in report.differences} == {"sst"}
    assert "'sst': pointwise selection" in str(report)
    assert "- 'x': y" in str(report)


def test_parts_of_types_joined_by_a_cast() -> None:
    """What a file has itself is told, not what it was promoted to."""
    plain, single = encoding(()), encoding((), "<f4")
    promoted = plain.cast(np.dtype("f8"))
    parts = [
        Part("v", promoted, rows(promoted, (0,)), ["a.nc"]),
        Part("v", single.cast(np.dtype("f8")), rows(single, (0,)), ["b.nc"]),
    ]
    found = {d.kind: told(d) for d in report_from_parts(parts).differences}
    assert found["dtype"] == [("int16", "a.nc", 1), ("float32", "b.nc", 1)]
    unsigned = plain.cast(np.dtype("u2"))
    same = [Part("v", unsigned, rows(unsigned, (0,)), ["a.nc"])]
    assert report_from_parts(same).differences == ()
    told_apart = report_from_parts([*same, Part("v", plain, rows(plain, (0,)), ["b.nc"])])
    assert told(told_apart.differences[0]) == [("uint16", "a.nc", 1), ("int16", "b.nc", 1)]


def test_parts_without_a_source_are_not_counted() -> None:
    parts = [
        Part("v", encoding(), rows(encoding(), (0,)), [""]),
        Part("w", encoding(), rows(encoding()), []),
    ]
    assert report_from_parts(parts).sources == 0


def test_parts_of_nothing() -> None:
    assert str(report_from_parts([])).startswith("Nothing here is virtual")


# -------------------------------------------------------------------------------------- text


def test_a_table_is_as_narrow_as_it_can_be() -> None:
    text = table(("a", "b"), [("x" * 10, "some words " * 10)], 40)
    assert max(map(len, text.splitlines())) <= 40
    assert table(("a", "b"), [("1", "2")], 40) == "a  b\n-  -\n1  2"
    assert table(("a",), [("word " * 30,)], 5).splitlines()[1] == "-" * 16
