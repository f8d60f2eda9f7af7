"""Contract tests of Intarsia's seams, to be subclassed by whoever fills one.

A fetcher that reads a new kind of place, or a scan of a new format, is right if it passes. With
pytest::

    from intarsia.testing import FetcherContract

    class TestMyFetcher(FetcherContract):
        @pytest.fixture
        def fetcher(self):
            return MyFetcher()

        def put(self, name, data):
            ...  # store the bytes, and give the pinned source

Needs pytest, which Intarsia itself does not.
"""

from intarsia.testing.fetcher import FetcherContract
from intarsia.testing.scan import ScanContract

__all__ = ["FetcherContract", "ScanContract"]
