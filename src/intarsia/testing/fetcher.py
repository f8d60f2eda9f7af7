"""What every fetcher has to keep: ranges are read whole, in order, from the pinned source."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from intarsia.errors import ShortRead, SourceChanged, SourceError, SourceMissing
from intarsia.io.fetch import Fetcher, observe
from intarsia.io.sampling import UNKNOWN, sample_digest
from intarsia.references import Source

DATA = Random(0).randbytes(10_000)


class FetcherContract(ABC):
    """Tests of an `intarsia.io.fetch.Fetcher`.

    A subclass gives a fixture ``fetcher``, and says how to `put`, `replace` and `remove` a source.
    """

    @pytest.fixture
    @abstractmethod
    def fetcher(self) -> Fetcher:
        """The fetcher under test."""

    @abstractmethod
    def put(self, name: str, data: bytes) -> Source:
        """Store bytes under a new name; the source, pinned as a scan would pin it."""

    @abstractmethod
    def replace(self, source: Source, data: bytes) -> None:
        """Put other bytes in the place of a source."""

    @abstractmethod
    def remove(self, source: Source) -> None:
        """Remove a source."""

    @pytest.mark.parametrize(
        "ranges",
        [
            [(0, 10_000)],
            [(0, 1)],
            [(9_999, 1)],
            [(5, 10), (2_000, 300), (9_000, 1_000)],
            [(9_000, 10), (5, 10), (5, 10)],
            [(0, 500), (250, 500)],
            [(0, 0), (17, 3), (10_000, 0)],
            [],
        ],
    )
    def test_ranges_are_read_whole_and_in_order(
        self, fetcher: Fetcher, ranges: list[tuple[int, int]]
    ) -> None:
        """Also those that overlap, repeat, run backwards or are empty."""
        source = self.put("a", DATA)
        read = fetcher.read(source, ranges)
        assert [bytes(part) for part in read] == [DATA[a : a + n] for a, n in ranges]

    @pytest.mark.parametrize("wanted", [(9_990, 11), (10_000, 1), (20_000, 5)])
    def test_past_the_end_is_an_error(self, fetcher: Fetcher, wanted: tuple[int, int]) -> None:
        """Never fewer bytes than were asked for."""
        source = self.put("a", DATA)
        with pytest.raises(ShortRead) as error:
            fetcher.read(source, [(0, 5), wanted])
        assert error.value.url == source.url

    def test_a_missing_source_is_an_error(self, fetcher: Fetcher) -> None:
        """Never empty bytes."""
        source = self.put("a", DATA)
        self.remove(source)
        with pytest.raises(SourceMissing) as error:
            fetcher.read(source, [(0, 5)])
        assert error.value.url == source.url

    @pytest.mark.parametrize("data", [DATA[:-1], DATA + b"x", DATA[::-1], b""])
    def test_a_changed_source_is_an_error(self, fetcher: Fetcher, data: bytes) -> None:
        """Of another length, or of the same length and another time or tag."""
        source = self.put("a", DATA)
        self.replace(source, data)
        with pytest.raises(SourceChanged) as error:
            fetcher.read(source, [(0, 5)])
        assert error.value.url == source.url
        assert isinstance(error.value, SourceError)

    def test_what_is_unknown_pins_nothing(self, fetcher: Fetcher) -> None:
        """A source without size and time is read as it is."""
        source = self.put("a", DATA)._replace(size=-1, mtime_ns=-1, etag=None)
        (read,) = fetcher.read(source, [(3, 4)])
        assert bytes(read) == DATA[3:7]

    def test_a_sample_stands_for_the_time(self, fetcher: Fetcher) -> None:
        """Where that is not known: the same content is the source, another is not."""
        sample = sample_digest(len(DATA), [DATA])
        source = self.put("a", DATA)._replace(mtime_ns=-1, etag=None, sample=sample)
        self.replace(source, DATA)
        (read,) = fetcher.read(source, [(3, 4)])
        assert bytes(read) == DATA[3:7]
        self.replace(source, DATA[::-1])
        with pytest.raises(SourceChanged) as error:
            fetcher.read(source, [(3, 4)])
        assert error.value.url == source.url

    def test_what_must_not_be_read_is_not(self, fetcher: Fetcher) -> None:
        """A source that a store reaches for without knowing it."""
        source = self.put("a", DATA)._replace(mtime_ns=-1, etag=None, sample=UNKNOWN)
        with pytest.raises(SourceChanged):
            fetcher.read(source, [(0, 5)])

    def test_requests_are_told(self, fetcher: Fetcher) -> None:
        """Observers see each range that is read."""
        source = self.put("a", DATA)
        with observe() as reads:
            fetcher.read(source, [(10, 20), (500, 30)])
        assert reads.ranges == [(source.url, 10, 20), (source.url, 500, 30)]

    def test_many_threads(self, fetcher: Fetcher) -> None:
        """One fetcher serves several threads at once."""
        sources = [self.put(f"{n}", DATA[n:] + DATA[:n]) for n in range(3)]

        def read(number: int) -> bool:
            n, begin = number % 3, number * 37 % 5_000
            found = fetcher.read(sources[n], [(begin, 100), (begin + 1_000, 50)])
            data = DATA[n:] + DATA[:n]
            wanted = [data[begin : begin + 100], data[begin + 1_000 : begin + 1_050]]
            return [bytes(part) for part in found] == wanted

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(read, range(64)))

    def test_sources_cross_processes(self, fetcher: Fetcher) -> None:
        """What a source says is all that is needed to read it elsewhere."""
        source = pickle.loads(pickle.dumps(self.put("a", DATA)))
        (read,) = fetcher.read(source, [(1, 2)])
        assert bytes(read) == DATA[1:3]
