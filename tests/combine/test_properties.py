"""Properties: the order of files, of variables and of attributes, and what interning may not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from intarsia.combine import Decision, Difference, Options, SourceSummary, Summarizer, decide
from intarsia.combine.compare import compare
from intarsia.combine.frozen import Content, Typed, freeze, show
from tests.combine.make import NESTED, Archive, index, times

ARCHIVE = 4


def _units(units: str) -> Callable[[Archive, int], Any]:
    return lambda archive, file: archive.change(file, "sst", attrs={"units": units})


CHANGES: dict[str, Callable[[Archive, int], Any]] = {
    "filters": lambda archive, file: archive.change(file, "sst", filters=("zlib",)),
    "checksums": lambda archive, file: archive.change(file, "sst", filters=("fletcher32",)),
    "chunks": lambda archive, file: archive.change(file, "sst", chunks=(2, 2)),
    "layout": lambda archive, file: archive.change(file, "sst", layout="compact", chunks=None),
    "big-endian": lambda archive, file: archive.change(file, "sst", stored=np.dtype(">i2")),
    "scale": lambda archive, file: archive.change(file, "sst", scale=np.float64(0.5)),
    "no packing": lambda archive, file: archive.change(file, "sst", scale=None, offset=None),
    "fills": lambda archive, file: archive.change(file, "sst", fills=(np.int16(0), np.int16(1))),
    "double": lambda archive, file: archive.change(file, "sst", dtype=np.dtype("f8")),
    "strings": lambda archive, file: archive.change(file, "sst", dtype=np.dtype("U3")),
    "celsius": _units("degC"),
    "fahrenheit": _units("degF"),
    "epoch": lambda archive, file: archive.change(file, "time", units="hours since 1970-01-01"),
    "absent": lambda archive, file: archive.files[file].pop("sst", None),
    "transposed": lambda archive, file: archive.change(
        file, "sst", dims=("lat", "time"), shape=(4, 3)
    ),
    "spelling": lambda archive, file: archive.change(file, "lat", attrs={"units": "degree_north"}),
    "history": lambda archive, file: archive.attrs[file].update(history=f"made {file}"),
    "static": lambda archive, file: archive.change(
        file, "mask", dims=("lat",), shape=(4,), dtype=np.dtype("i2"), digest=file
    ),
}


@st.composite
def archives(draw: st.DrawFn) -> Archive:
    archive = Archive(ARCHIVE)
    for file in range(ARCHIVE):
        for name in draw(st.lists(st.sampled_from(sorted(CHANGES)), max_size=4)):
            if "sst" in archive.files[file]:
                CHANGES[name](archive, file)
    return archive


def essence(difference: Difference) -> tuple[Any, ...]:
    """What does not depend on which file is first."""
    values = sorted((example.text, example.sources) for example in difference.examples)
    what = difference.kind, difference.variable, difference.item, difference.distinct
    return (*what, tuple(values), difference.outcome)


@given(archives(), st.permutations(range(ARCHIVE)))
def test_the_order_of_files_changes_nothing(archive: Archive, order: list[int]) -> None:
    def found(decision: Decision) -> set[tuple[Any, ...]]:
        # which file comes after which is a matter of order, and so is which type is first
        ignored = {"concat-order", "absent-variable"}
        return {essence(d) for d in decision.differences if d.kind not in ignored}

    plain, permuted = archive.summaries(), archive.summaries(order)
    assert found(decide(plain, NESTED)) == found(decide(permuted, NESTED))
    by_coords = Options(combine="by_coords")
    assert found(decide(plain, by_coords)) == found(decide(permuted, by_coords))


@given(archives())
def test_examples_are_of_the_sources_that_have_the_value(archive: Archive) -> None:
    decision = archive.decide()
    for difference in decision.differences:
        urls = [example.url for example in difference.examples]
        assert len(set(urls)) == len(urls)
        assert sum(example.sources for example in difference.examples) <= ARCHIVE
        assert difference.refused == (difference in decision.refused)
        assert difference.note


@given(archives())
def test_interning_changes_nothing(archive: Archive) -> None:
    """Each source summarised apart, as if in its own process: the same is found."""
    together = archive.summaries()
    apart: list[SourceSummary] = []
    for number in range(ARCHIVE):
        archive.make = Summarizer()
        apart += archive.summaries([number])
    assert decide(apart, NESTED) == decide(together, NESTED)


@given(st.data())
def test_a_coordinate_compared_with_itself(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["f8", "f4", "i2", "u8", "M8[ns]", "M8[D]", "m8[s]"]))
    steps = st.lists(st.integers(1, 9), min_size=1, max_size=8)
    numbers = np.cumsum(data.draw(steps)).astype("i8")
    values = numbers.astype(dtype)
    one = Content.of(values)
    assert compare(one, Content.of(values.copy())).verdict == "same"
    turned = compare(one, Content.of(values[::-1].copy()))
    assert turned.verdict == ("same" if len(values) == 1 else "reversed")
    longer = Content.of(np.append(values, values[-1:]))
    assert compare(one, longer).verdict == "length"
    far = (numbers + 1000).astype(dtype)
    assert compare(one, Content.of(far)).verdict == "values"
    if dtype in ("f8", "M8[ns]") and len(values) > 1:
        near = (numbers.astype("f8") + 0.25) if dtype == "f8" else None
        if near is not None:
            assert compare(one, Content.of(near)).verdict == "jitter"
            assert compare(one, Content.of(near)).distance == 0.25


ATTRIBUTES = st.one_of(
    st.text(max_size=5),
    st.integers(-9, 9),
    st.floats(),
    st.booleans(),
    st.none(),
    st.sampled_from(["f4", "f8", "i2", ">i2"]).map(lambda dtype: np.dtype(dtype).type(1)),
    st.lists(st.integers(0, 9)).map(lambda items: np.array(items, "i4")),
    st.lists(st.text(max_size=2), min_size=1).map(lambda items: np.array(items, object)),
)


@given(ATTRIBUTES, ATTRIBUTES)
def test_frozen_values(one: Any, other: Any) -> None:
    frozen = freeze(one)
    assert hash(frozen) == hash(freeze(one))
    assert frozen == freeze(one), "NaN too"
    assert show(frozen)
    if isinstance(frozen, Typed):
        assert np.array_equal(np.asarray(one), frozen.value, equal_nan=frozen.dtype[1] == "f")
    if type(one) is not type(other):
        alike = isinstance(one, list | np.ndarray) or one is None or other is None
        assert alike or freeze(one) != freeze(other)


def test_interned_arrays_are_one_object() -> None:
    make = Summarizer()
    first, same, other = times(0), times(0), times(1)
    assert make.intern(first) is first
    assert make.intern(same) is first
    assert make.intern(other) is other
    assert make.intern(first.astype("M8[s]")) is not first
    one = make.variable(**index("time", first))
    assert make.variable(**index("time", same)) is one
    assert one.content is not None
    assert one.content.values is first
