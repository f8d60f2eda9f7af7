"""Reading, with the library, what lies in other files than the one that was scanned.

HDF5 takes a mapped file that it can't open for one that is not there, and may crash where virtual
datasets are parts of themselves. So everything that is led to is looked at first, and it is seen to
afterwards that HDF5 did open each file.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from h5py import h5f, h5p

from intarsia.errors import SourceChanged, SourceMissing, SourceUnreadable
from intarsia.forks import after_fork
from intarsia.references import Source
from intarsia.scan.hdf5.files import Files
from intarsia.scan.hdf5.layout import Unreferable
from intarsia.scan.hdf5.links import Absent, found_dataset
from intarsia.scan.hdf5.opening import HDF5_ERRORS, opened
from intarsia.scan.hdf5.placing import Stored
from intarsia.scan.hdf5.virtual import Survey, surveyed
from intarsia.scan.protocol import Loader


@dataclass(frozen=True, slots=True)
class LinkedLoader:
    """Reads what an external link leads to, if that is still the file that was scanned.

    Parameters
    ----------
    loader
        Reads the values.
    source
        The file that it leads to, with its pins.
    """

    loader: Loader
    source: Source

    def __call__(self) -> Any:
        """Read all values.

        Raises
        ------
        SourceMissing, SourceUnreadable, SourceChanged
            The file is gone, can't be reached, or is another one.
        """
        _require_same(self.source)
        values = self.loader()
        _require_same(self.source)  # nor was it written to meanwhile
        return values


@dataclass(frozen=True, slots=True)
class VirtualLoader:
    """Reads a virtual dataset with the library, once all that it leads to is seen to be readable.

    Parameters
    ----------
    loader
        Reads the values.
    path, name
        Of the file, and of the dataset in it.
    pins, missing
        The mapped files as they were scanned, and those that were not there.
    """

    loader: Loader
    path: str
    name: str
    pins: tuple[Source, ...]
    missing: tuple[str, ...]

    @classmethod
    def of(cls, loader: Loader, path: str, name: str, survey: Survey) -> VirtualLoader:
        """Remember what a survey has found."""
        return cls(loader, path, name, tuple(survey.pins.values()), tuple(survey.missing))

    def __call__(self) -> Any:
        """Read all values.

        Raises
        ------
        SourceChanged
            A mapped file is not the one that was scanned, is gone, or has come.
        SourceUnreadable
            HDF5 could not open a mapped file.
        """
        with _one_by_one, opened(self.path) as file:
            try:
                identifier = found_dataset(file, self.name)
                now = surveyed(Stored.of(Files(file).home(identifier), identifier))
            except (Unreferable, Absent) as error:
                reason = f"what it is made of is no longer as it was scanned: {error}"
                raise SourceChanged(reason, url=self.path, array=self.name) from error
            if (tuple(now.pins.values()), tuple(now.missing)) != (self.pins, self.missing):
                reason = "the files that it is made of are not those that were scanned"
                raise SourceChanged(reason, url=self.path, array=self.name)
            # it keeps open what it opens for a dataset, as long as that is open here
            values = self.loader()
            _require_opened(now.shown)
            for pin in self.pins:
                _require_same(pin)
            return values


_one_by_one = threading.Lock()
"""What HDF5 has open must not be for another one's sake."""


@after_fork
def _after_fork() -> None:
    """The lock may have been held."""
    global _one_by_one
    _one_by_one = threading.Lock()


def _require_same(source: Source) -> None:
    """Refuse a file that is not the one that was scanned."""
    try:
        stat = os.stat(source.url)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SourceMissing("there is no such file", url=source.url) from error
    except OSError as error:
        reason = f"the file can't be reached ({error.strerror})"
        raise SourceUnreadable(reason, url=source.url) from error
    if (stat.st_size, stat.st_mtime_ns) != (source.size, source.mtime_ns):
        raise SourceChanged("the file is not the one that was scanned", url=source.url)


def _require_opened(paths: Iterable[str]) -> None:
    """Refuse if HDF5 has not opened a file: it gave the fill value in place of what is in it.

    Files are opened with a degree of closing that nobody asks for. HDF5 refuses another one than
    that with which a file is open.

    Raises
    ------
    SourceUnreadable
        One is not open.
    """
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fclose_degree(h5f.CLOSE_SEMI)
    for path in paths:
        try:
            file = h5f.open(os.fsencode(path), h5f.ACC_RDONLY, fapl=access)
        except HDF5_ERRORS as error:
            if "close degree" in str(error):
                continue
            reason = f"it can't be told whether HDF5 has read the file ({error})"
            raise SourceUnreadable(reason, url=path) from error
        file.close()
        raise SourceUnreadable(
            "HDF5 could not open the file",
            url=path,
            remedy="are too many files open? Else try again",
        )
