"""What is refused is what xarray can not do or does wrongly, and nothing else."""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings

from intarsia.combine import Decision, Options, Summarizer, decide

TYPES = ["?", "i2", "u8", "f4", "c8", "U3", "S3", "O", "M8[s]", "M8[ns]", "m8[s]", "m8[ns]"]


def summarised(datasets: list[xr.Dataset], options: Options) -> Decision:
    make = Summarizer()
    return decide(
        [
            make.source(
                f"{number}.nc",
                {
                    str(name): make.variable(
                        map(str, variable.dims),
                        variable.shape,
                        variable.dtype,
                        attrs=variable.attrs,
                        is_coordinate=name in dataset.coords,
                        is_index=name in dataset.indexes,
                        values=variable.values if name in dataset.indexes else None,
                    )
                    for name, variable in dataset.variables.items()
                },
                attrs=dataset.attrs,
                sizes=dict(dataset.sizes),
            )
            for number, dataset in enumerate(datasets)
        ],
        options,
    )


@pytest.mark.filterwarnings("ignore:.*object dtype:UserWarning")
@pytest.mark.parametrize(("one", "other"), [*itertools.combinations_with_replacement(TYPES, 2)])
def test_types(one: str, other: str) -> None:
    """Refused exactly where xarray fails, mixes in an array of objects, or joins bare numbers."""
    values = {"O": "text", "U3": "ab", "S3": b"ab"}
    datasets = [
        xr.Dataset({"v": ("time", np.array([values.get(dtype, 1)], dtype))})
        for dtype in (one, other)
    ]
    refused = summarised(datasets, Options(combine="nested", concat_dims=("time",))).refused
    try:
        result = xr.concat(datasets, "time", data_vars="minimal").v
    except TypeError:
        assert refused
        return
    kinds = {np.dtype(one).kind, np.dtype(other).kind}
    mixed = result.dtype == object and not kinds <= {"O", "U"}
    wrong = "m" in kinds and len(kinds) > 1
    assert bool(refused) == (mixed or wrong), result


# Coordinates of few values: equal, shifted, jittered, reversed, shorter.
AXES = st.sampled_from(
    [
        (0.0, 1.0, 2.0),
        (0.0, 1.0, 2.0 + 1e-9),
        (2.0, 1.0, 0.0),
        (0.0, 1.0),
        (1.0, 2.0, 3.0),
        (3.0, 4.0, 5.0),
        (6.0, 7.0, 8.0),
        (0.0,),
        (9.0,),
    ]
)


@st.composite
def nested(draw: st.DrawFn) -> tuple[list[xr.Dataset], tuple[str, ...], list[tuple[int, ...]]]:
    """Tiles with coordinates, some of which agree, and some with none."""
    shape = draw(st.sampled_from([(2,), (3,), (2, 2), (3, 2)]))
    dims = ("y", "x")[: len(shape)]
    common = {
        (dim, place): draw(AXES)
        for dim, size in zip(dims, shape, strict=True)
        for place in range(size)
    }
    other = draw(AXES)
    datasets: list[xr.Dataset] = []
    tiles = list(np.ndindex(*shape))
    for tile in tiles:
        axes = {dim: common[dim, place] for dim, place in zip(dims, tile, strict=True)}
        axes["z"] = draw(AXES) if draw(st.integers(0, 9)) == 0 else other
        if draw(st.integers(0, 9)) == 0:
            axes[draw(st.sampled_from(dims))] = draw(AXES)
        bare = draw(st.sampled_from([(), (), (), ("z",)]))
        coords = {dim: (dim, list(values)) for dim, values in axes.items() if dim not in bare}
        data = np.zeros([len(values) for values in axes.values()], "f4")
        datasets.append(xr.Dataset({"v": (tuple(axes), data)}, coords))
    return datasets, dims, tiles


@settings(max_examples=80, deadline=None)
@given(nested())
def test_coordinates_of_nested_tiles(
    drawn: tuple[list[xr.Dataset], tuple[str, ...], list[tuple[int, ...]]],
) -> None:
    """Refused exactly where xarray's ``join="exact"`` refuses."""
    datasets, dims, tiles = drawn
    decision = summarised(datasets, Options(combine="nested", concat_dims=dims, tiles=tiles))
    lists: Any = datasets
    if len(dims) == 2:
        width = tiles[-1][1] + 1
        lists = [datasets[start : start + width] for start in range(0, len(datasets), width)]
    aligned = True
    try:
        xr.combine_nested(
            lists, list(dims), join="exact", compat="override", coords="minimal",
            data_vars="minimal",
        )  # fmt: skip
    except xr.AlignmentError:
        aligned = False
    except ValueError as error:  # pieces that do not fit, found after aligning
        assert "conflicting" in str(error) or "not aligned" in str(error), error
        aligned = False
    assert aligned == (not decision.refused), [d.note for d in decision.differences]


@st.composite
def scattered(draw: st.DrawFn) -> list[xr.Dataset]:
    """Files to be put together by their coordinates, mostly a whole grid of tiles."""
    datasets: list[xr.Dataset] = []
    steps = draw(st.sampled_from([(1, 2), (2, 2), (3, 1), (2, 3)]))
    for y, x in draw(st.permutations(list(np.ndindex(*steps)))):
        coords = {"y": 10.0 * y + np.arange(2 + y), "x": 10.0 * x + np.arange(3)}
        if draw(st.integers(0, 19)) == 0:
            coords["x"] = np.array(draw(AXES))
        data = np.full((len(coords["y"]), len(coords["x"])), 10.0 * y + x)
        datasets.append(xr.Dataset({"v": (("y", "x"), data)}, coords))
    return datasets


@settings(max_examples=80, deadline=None)
@given(scattered())
def test_coordinates_that_order(datasets: list[xr.Dataset]) -> None:
    """What is not refused is put together by xarray, every element at its coordinates."""
    decision = summarised(datasets, Options(combine="by_coords"))
    if decision.refused or len(datasets) < 2:
        return
    holes = any(difference.kind == "missing-tiles" for difference in decision.differences)
    arguments: Any = {"compat": "override", "coords": "minimal", "data_vars": "minimal"}
    try:
        whole = xr.combine_by_coords(datasets, join="outer" if holes else "exact", **arguments)
    except pd.errors.InvalidIndexError:
        return  # coordinates that repeat can't be joined: xarray says so
    except xr.AlignmentError:
        pytest.fail("coordinates differ where they should not, and were not refused")
    except ValueError as error:
        allowed = "hypercube", "Could not find any dimension", "neither monotonically", "monotonic"
        assert any(words in str(error) for words in allowed), error
        return
    grown = tuple(d for d in ("y", "x") if whole.sizes[d] > max(ds.sizes[d] for ds in datasets))
    assert set(grown) <= set(decision.concat_dims)
    assert bool(whole.v.isnull().any()) == holes
    for dataset in datasets:
        xr.testing.assert_equal(whole.v.sel(y=dataset.y, x=dataset.x), dataset.v)


def test_xarray_still_loses_files_that_begin_at_one_place() -> None:
    """If this fails, xarray has mended it, and the row can go."""
    datasets = [
        xr.Dataset({"v": ("x", [value] * 2)}, {"x": [start, start + 1]})
        for value, start in ((1, 0), (2, 2), (3, 2))
    ]
    whole = xr.combine_by_coords(
        datasets, join="outer", compat="override", coords="minimal", data_vars="minimal"
    )
    assert whole.v.values.tolist() == [1, 1, 3, 3]
    refused = summarised(datasets, Options(combine="by_coords", join="outer")).refused
    assert [difference.kind for difference in refused] == ["xarray-fault-same-place"]
