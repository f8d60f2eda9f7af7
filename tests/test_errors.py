"""The error tree: kinds that stay, messages that locate, copies and pickles that lose nothing."""

from __future__ import annotations

import copy
import pickle
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from intarsia import errors

# Written out by hand: a kind is public, so changing one must hurt here.
KINDS = {
    "IntarsiaError": "error",
    "SourceError": "source",
    "SourceMissing": "source-missing",
    "SourceChanged": "source-changed",
    "ShortRead": "short-read",
    "SourceUnreadable": "source-unreadable",
    "NotAFile": "not-a-file",
    "FormatError": "format",
    "NotHDF5": "not-hdf5",
    "CorruptFile": "corrupt-file",
    "ChunkError": "chunk",
    "CorruptChunk": "corrupt-chunk",
    "ChecksumMismatch": "checksum-mismatch",
    "WrongLength": "wrong-length",
    "UnsupportedError": "unsupported",
    "UnsupportedVariable": "unsupported-variable",
    "MissingPackage": "missing-package",
    "ConflictError": "conflict",
    "CombineConflict": "combine-conflict",
    "AlignmentConflict": "alignment-conflict",
    "StoreError": "store",
    "NotAStore": "not-a-store",
    "CorruptStore": "corrupt-store",
    "UnsafeStore": "unsafe-store",
    "StoreExists": "store-exists",
    "StoreReplaced": "store-replaced",
    "UpstreamFault": "upstream-fault",
}


def tree(cls: type[errors.IntarsiaError] = errors.IntarsiaError) -> list[type]:
    return [cls, *(found for sub in cls.__subclasses__() for found in tree(sub))]


every_class = pytest.mark.parametrize(
    "cls",
    [cls for cls in tree() if cls.__module__ == errors.__name__],
    ids=lambda cls: cls.__name__,
)
full = {"url": "a.nc", "array": "sst", "chunk": (3, 0), "remedy": "fetch it again"}


def fields(error: errors.IntarsiaError) -> dict[str, object]:
    return {"args": error.args, **error.__dict__}


def test_kinds_are_stable_and_distinct() -> None:
    found = {cls.__name__: cls.kind for cls in tree() if cls.__module__ == errors.__name__}
    assert found == KINDS
    assert len(set(KINDS.values())) == len(KINDS)
    assert sorted(errors.__all__) == sorted(KINDS)


def test_the_docstring_draws_the_tree() -> None:
    drawn: dict[str, str] = {}
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in errors.__doc__.splitlines():
        if match := re.match(r"    ([│├└─ ]*)(\w+) .*?\"([\w-]+)\"", line):
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            drawn[match[2]] = match[3]
            parents[match[2]] = path[depth - 1] if depth else "Exception"
    assert drawn == KINDS
    assert parents == {cls.__name__: cls.__bases__[0].__name__ for cls in tree()}


@pytest.mark.parametrize(
    ("cls", "base"),
    [
        (errors.SourceError, OSError),
        (errors.SourceMissing, FileNotFoundError),
        (errors.FormatError, ValueError),
        (errors.ConflictError, ValueError),
    ],
)
def test_builtin_bases(cls: type[errors.IntarsiaError], base: type[Exception]) -> None:
    with pytest.raises(base, match="no"):
        raise cls("no")


@every_class
def test_fields_and_message(cls: type[errors.IntarsiaError]) -> None:
    error = cls("the stream is broken.", **full)
    assert (error.url, error.array, error.chunk, error.remedy) == tuple(full.values())
    assert str(error) == "the stream is broken: chunk (3, 0) of 'sst' in a.nc; fetch it again"
    bare = cls("no")
    assert (bare.url, bare.array, bare.chunk, bare.remedy) == (None,) * 4
    assert str(bare) == "no"


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ({"url": "a.nc"}, "bad: a.nc"),
        ({"array": "sst"}, "bad: 'sst'"),
        ({"chunk": (1,)}, "bad: chunk (1,)"),
        ({"array": "sst", "url": "a.nc"}, "bad: 'sst' in a.nc"),
        ({"chunk": (), "url": "a.nc"}, "bad: chunk () in a.nc"),
        ({"remedy": "Do it."}, "bad; Do it"),
    ],
)
def test_message_says_what_is_known(known: dict[str, object], text: str) -> None:
    assert str(errors.ChunkError("bad", **known)) == text


@every_class
def test_pickle_keeps_everything(cls: type[errors.IntarsiaError]) -> None:
    error = cls("bad", **full)
    error.add_note("seen twice")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        back = pickle.loads(pickle.dumps(error, protocol))
        assert type(back) is cls
        assert fields(back) == fields(error)
        assert str(back) == str(error)
        assert back.__notes__ == ["seen twice"]
    assert fields(copy.deepcopy(error)) == fields(error)


def raise_conflict() -> None:
    raise errors.CombineConflict("units differ", variable="t", values="KC", files=["a", "b"])


def test_crosses_a_process() -> None:
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(errors.CombineConflict) as caught,
    ):
        pool.submit(raise_conflict).result()
    assert caught.value.variable == "t"
    assert caught.value.values == ("K", "C")


@every_class
def test_located_fills_only_what_is_missing(cls: type[errors.IntarsiaError]) -> None:
    inner = cls("bad", array="sst", remedy="look")
    inner.add_note("note")
    inner.__cause__ = cause = ZeroDivisionError()
    outer = inner.located(url="a.nc", array="other", chunk=np.array([3, 0]))
    assert type(outer) is cls
    assert (outer.url, outer.array, outer.chunk, outer.remedy) == ("a.nc", "sst", (3, 0), "look")
    assert outer.__cause__ is cause
    assert outer.__suppress_context__
    outer.add_note("more")
    assert (inner.url, inner.chunk, inner.__notes__) == (None, None, ["note"])
    assert "np." not in str(outer)
    again = outer.located(url="b.nc", chunk=(9,))
    assert fields(again) == fields(outer)


def test_located_keeps_the_traceback() -> None:
    def deep() -> None:
        raise errors.CorruptChunk("bad")

    with pytest.raises(errors.CorruptChunk) as caught:
        try:
            deep()
        except errors.ChunkError as error:
            raise error.located(chunk=(1,)) from error.__cause__
    assert any(entry.name == "deep" for entry in caught.traceback)
    assert caught.value.__cause__ is None


def test_conflict_names_values_files_and_argument() -> None:
    error = errors.CombineConflict(
        "units differ",
        variable="sst",
        values=["K", "degC"],
        files=["a.nc", "b.nc"],
        argument="on_conflict='first'",
    )
    assert error.array == error.variable == "sst"
    assert error.files == ("a.nc", "b.nc")
    assert str(error) == (
        "units differ: 'sst', 'K' in a.nc and 'degC' in b.nc; pass on_conflict='first' to override"
    )


def test_conflict_of_many_files_stays_short() -> None:
    files = [f"{i}.nc" for i in range(1000)]
    text = str(errors.AlignmentConflict("lat differs", values=range(1000), files=files))
    assert text == "lat differs: 0 in 0.nc, 1 in 1.nc, 2 in 2.nc, 3 in 3.nc and 996 more"


def test_conflict_with_files_alone_and_a_remedy() -> None:
    error = errors.AlignmentConflict(
        "lat is reversed", files=["a.nc"], argument="join='outer'", remedy="flip it"
    )
    assert str(error) == "lat is reversed: in a.nc; flip it, or pass join='outer' to override"
