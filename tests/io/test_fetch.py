"""Pins of local files: what each of them notices, when it is looked at, and what is said."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from intarsia.errors import (
    NotAFile,
    ShortRead,
    SourceChanged,
    SourceError,
    SourceMissing,
    SourceUnreadable,
    UnsupportedError,
)
from intarsia.io import fetch
from intarsia.io.fetch import LocalFetcher, changed_sources, fetcher_for, observe, sampled
from intarsia.io.sampling import sample_of
from intarsia.references import Source, Sources

DATA = bytes(range(256)) * 400  # more than is sampled whole


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.nc"
    path.write_bytes(DATA)
    return path


def source_of(path: Path) -> Source:
    return Sources.of_file(path)[0]


def read(source: Source) -> bytes:
    (part,) = LocalFetcher().read(source, [(1, 3)])
    return bytes(part)


def touch(path: Path, by: int = 1) -> None:
    time = path.stat().st_mtime_ns + by
    os.utime(path, ns=(time, time))


def keep_time(path: Path, data: bytes) -> None:
    time = path.stat().st_mtime_ns
    path.write_bytes(data)
    os.utime(path, ns=(time, time))


def test_one_nanosecond_is_a_change_and_is_seen_in_the_message(path: Path) -> None:
    source = source_of(path)
    touch(path)
    with pytest.raises(SourceChanged) as error:
        read(source)
    message = str(error.value)
    for time in (source.mtime_ns, source.mtime_ns + 1):
        assert f"{time // 10**9}.{time % 10**9:09d}" in message
    assert "size" not in error.value.reason
    assert "'pin': 'size'" in message


def test_a_copy_with_whole_seconds_is_a_change(path: Path) -> None:
    """As documented: who copies so says that the size is enough, or takes samples."""
    time = 1_700_000_000_123_456_789
    os.utime(path, ns=(time, time))
    source = source_of(path)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    with pytest.raises(SourceChanged, match=r"1700000000\.123456789 and is 1700000000\.000000000"):
        read(source)
    assert read(source._replace(mtime_ns=-1)) == DATA[1:4]


def test_both_changes_are_told(path: Path) -> None:
    source = source_of(path)
    path.write_bytes(DATA + b"x")
    touch(path)
    with pytest.raises(SourceChanged, match=r"size was 102400 bytes and is 102401 and its modif"):
        read(source)


def test_size_alone(path: Path) -> None:
    source = source_of(path)._replace(mtime_ns=-1)
    touch(path)
    path.write_bytes(DATA[::-1])
    assert read(source) == DATA[::-1][1:4]
    path.write_bytes(DATA[:-1])
    with pytest.raises(SourceChanged, match="size"):
        read(source)


def test_a_time_spares_the_sample(path: Path) -> None:
    source = source_of(path)._replace(sample="0" * 64)
    with observe() as reads:
        assert read(source) == DATA[1:4]
    assert reads.requests == 1


def test_a_sample_is_taken_once_for_each_state_of_a_file(path: Path) -> None:
    source = sampled(source_of(path))._replace(mtime_ns=-1)
    assert source.sample == sample_of(path)
    touch(path)
    with observe() as reads:
        for _ in range(3):
            assert read(source) == DATA[1:4]
    assert reads.requests == 8 + 3
    keep_time(path, b"y" + DATA[1:])  # size and modification time stay
    with pytest.raises(SourceChanged, match="sampled content"):
        read(source)
    keep_time(path, DATA)
    assert read(source) == DATA[1:4]


def test_remembered_samples_are_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_REMEMBERED", 3)
    monkeypatch.setattr(fetch, "_samples", {})
    source = sampled(source_of(path))._replace(mtime_ns=-1)
    for _ in range(20):
        touch(path)
        read(source)
        assert len(fetch._samples) <= 6


def test_a_sample_is_of_what_was_scanned(path: Path) -> None:
    source = source_of(path)
    touch(path)
    with pytest.raises(SourceChanged):
        sampled(source)


@pytest.mark.parametrize("pinned", ["mtime", "sample", "size"])
def test_written_to_while_it_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch, pinned: str
) -> None:
    source = sampled(source_of(path))
    source = source if pinned == "mtime" else source._replace(mtime_ns=-1)
    source = source if pinned == "sample" else source._replace(sample=None)
    pread = os.pread
    pending = [DATA[:-1] if pinned == "size" else b"z" + DATA[1:]]
    read(source)  # what is sampled is sampled now

    def late(descriptor: int, length: int, offset: int) -> bytes:
        data = pread(descriptor, length, offset)
        if length == 3 and pending:
            path.write_bytes(pending.pop())
            touch(path)
        return data

    monkeypatch.setattr(os, "pread", late)
    with pytest.raises(SourceChanged):
        read(source)


def test_replaced_between_opening_and_looking(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pin is that of the file that is read, not of the one that has its name by then."""
    source = source_of(path)
    os.rename(path, path.with_suffix(".old"))
    path.write_bytes(DATA)
    touch(path, 10)
    fstat = os.fstat

    def restored(descriptor: int) -> os.stat_result:
        os.replace(path.with_suffix(".old"), path)
        monkeypatch.setattr(os, "fstat", fstat)
        return fstat(descriptor)

    monkeypatch.setattr(os, "fstat", restored)
    with pytest.raises(SourceChanged):
        read(source)
    assert read(source) == DATA[1:4]


@pytest.mark.parametrize(
    ("make", "words"),
    [(os.mkdir, "a directory"), (os.mkfifo, "not a regular file")],
)
@pytest.mark.timeout(10)
def test_what_is_no_file(path: Path, make: Callable[[Path], None], words: str) -> None:
    """And nothing is waited for."""
    for source in (source_of(path), source_of(path)._replace(size=-1, mtime_ns=-1)):
        path.unlink()
        make(path)
        with pytest.raises(NotAFile, match=words):
            read(source)
        assert [type(error) for _, error in changed_sources([source])] == [NotAFile]
        path.rmdir() if path.is_dir() else path.unlink()
        path.write_bytes(DATA)


def test_a_device_is_no_file() -> None:
    with pytest.raises(NotAFile):
        read(Source("/dev/", "zero", -1, -1))


def test_a_folder_that_is_a_file_now(path: Path) -> None:
    with pytest.raises(SourceMissing):
        read(Source(f"{path}/", "b.nc", -1, -1))


@pytest.mark.parametrize("key", ["x" * 5_000, "loop"])
def test_what_the_system_refuses(tmp_path: Path, key: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(SourceUnreadable, match=key[:100]):
        read(Source(f"{tmp_path}/", key, -1, -1))


def test_all_changes_at_once(tmp_path: Path) -> None:
    sources: list[Source] = []
    for number in range(8):
        path = tmp_path / f"{number}.nc"
        path.write_bytes(DATA)
        sources.append(sampled(source_of(path)))
    touch(tmp_path / "1.nc")
    (tmp_path / "2.nc").unlink()
    (tmp_path / "3.nc").write_bytes(b"")
    sources[4] = sources[4]._replace(mtime_ns=-1)
    touch(tmp_path / "4.nc")
    sources[5] = sources[5]._replace(mtime_ns=-1)
    (tmp_path / "5.nc").write_bytes(DATA[::-1])
    sources[6] = sources[6]._replace(size=-1, mtime_ns=-1, sample=None)
    (tmp_path / "6.nc").write_bytes(b"")

    found = changed_sources(Sources.of(sources))
    assert [(number, type(error)) for number, error in found] == [
        (1, SourceChanged),
        (2, SourceMissing),
        (3, SourceChanged),
        (5, SourceChanged),
    ]
    for number, error in found:
        assert error.url == sources[number].url
        with pytest.raises(type(error)) as again:
            read(sources[number])
        assert str(again.value) == str(error)


def test_looking_reads_nothing(path: Path) -> None:
    with observe() as reads:
        assert changed_sources([source_of(path)] * 3) == []
    assert reads.requests == 0


def test_a_file_cut_while_it_is_sampled(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = sampled(source_of(path))._replace(mtime_ns=-1)
    touch(path)
    pread = os.pread

    def cut(descriptor: int, length: int, offset: int) -> bytes:
        os.truncate(path, 10)
        return pread(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", cut)
    with pytest.raises(ShortRead) as error:
        read(source)
    assert error.value.url == source.url
    assert isinstance(error.value, SourceError)


@pytest.mark.parametrize("container", ["ftp://host/", "file:///data/"])
def test_places_that_nothing_reads(container: str) -> None:
    source = Source(container, "a.nc", -1, -1)
    with pytest.raises(UnsupportedError, match="there are: local paths"):
        fetcher_for(source)
    with pytest.raises(UnsupportedError):
        changed_sources([source])
