"""How an opened dataset comes apart, and is put together again: its records, and their parts.

A record is an object of a known class that is wholly told by a few parts. Records that are
*frozen* are never changed by anyone, with all that is in them: many datasets may point to one.
"""

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr
from xarray.indexes import PandasIndex

from intarsia.array import VirtualArray
from intarsia.encoding import Case
from intarsia.references import References, Sources
from intarsia.segments import Block, Fields, Segments
from intarsia.xarray.internals import (
    PandasIndexingAdapter,
    adapter_of,
    dataset_parts,
    made_dataset,
    made_variable,
    variable_parts,
)

__all__ = ["RECORDS", "NotPacked", "Record", "record_of"]


class NotPacked(Exception):
    """Something that has no packed form: the dataset is pickled instead."""


class Record(NamedTuple):
    """A class whose objects come apart.

    Parameters
    ----------
    kind
        The class.
    parts
        Gives the parts of an object, or None for one that has more to it; raises `NotPacked` where
        it can't be pickled by itself either.
    build
        Makes the object of its parts.
    frozen
        Whether the object and its parts are never changed.
    """

    kind: type[Any]
    parts: Callable[[Any], tuple[Any, ...] | None]
    build: Callable[..., Any]
    frozen: bool


def _array(array: VirtualArray) -> tuple[Any, ...]:
    if array._read is not None:
        raise NotPacked("an array of a store, which is read when it is needed")
    return array.segments, array.dtype, array.name, array.notes


def _segments(segments: Segments) -> tuple[Any, ...]:
    return segments.shape, segments.blocks, segments.cases, segments.pages, segments.sources


def _references(page: References) -> tuple[Any, ...]:
    return (
        page.offsets, page.lengths, page.masks, page.states, page.chunks, page.inline, page.form,
    )  # fmt: skip


def _sources(sources: Sources) -> tuple[Any, ...]:
    return (
        sources.containers, sources.keys, sources.sizes, sources.mtimes_ns, sources.etags,
        sources.samples, sources.scans, sources.accesses,
    )  # fmt: skip


def _fields(fields: Fields) -> tuple[int, int]:
    return fields.ndim, fields.source_ndim


def _block(block: Block) -> tuple[Any, ...]:
    return block.fields, block.columns


def _case(case: Case) -> tuple[Any, ...]:
    return case.encoding, case.rows


def _plain_index(index: Any) -> tuple[Any, ...] | None:
    """Labels and name of an index that its labels make again."""
    labels: Any = index.values
    if not isinstance(labels, np.ndarray) or labels.dtype != index.dtype:
        return None
    labels = cast("npt.NDArray[Any]", labels)
    if labels.dtype.hasobject or getattr(index, "freq", None) is not None:
        return None
    return labels, index.name


def _made_index(labels: npt.NDArray[Any], name: Any) -> Any:
    return pd.Index(labels, name=name, copy=False)


def _pandas_index(index: PandasIndex) -> tuple[Any, ...]:
    return index.index, index.dim, index.coord_dtype


def _made_pandas_index(index: Any, dim: Any, dtype: Any) -> PandasIndex:
    return PandasIndex(index, dim, dtype, fastpath=True)


def _adapter(data: Any) -> tuple[Any, ...]:
    return data.array, data.dtype


def _dataset(dataset: xr.Dataset) -> tuple[Any, ...]:
    if dataset._close is not None:
        raise NotPacked("a dataset that holds a file open")
    return dataset_parts(dataset)


RECORDS: tuple[Record, ...] = (
    Record(Fields, _fields, Fields, True),
    Record(Block, _block, Block, True),
    Record(Case, _case, Case, True),
    Record(References, _references, References, True),
    Record(Sources, _sources, Sources, True),
    Record(Segments, _segments, Segments, True),
    Record(VirtualArray, _array, VirtualArray, True),
    Record(pd.Index, _plain_index, _made_index, True),
    Record(pd.DatetimeIndex, _plain_index, _made_index, True),
    Record(pd.TimedeltaIndex, _plain_index, _made_index, True),
    Record(PandasIndex, _pandas_index, _made_pandas_index, True),
    Record(PandasIndexingAdapter, _adapter, adapter_of, True),
    Record(xr.Variable, variable_parts, partial(made_variable, xr.Variable), False),
    Record(xr.IndexVariable, variable_parts, partial(made_variable, xr.IndexVariable), False),
    Record(xr.Dataset, _dataset, made_dataset, False),
)
"""In the order of their numbers, which are the same on both sides."""

_NUMBERS = {record.kind: number for number, record in enumerate(RECORDS)}


def record_of(kind: type[Any]) -> int | None:
    """Number of the record of a class, or None."""
    return _NUMBERS.get(kind)
