"""Reading, with the library, what lies in other files than the one that was scanned.

HDF5 takes a mapped file that it can't open for one that is not there, and may crash where virtual
datasets are parts of themselves. So everything that is led to is looked at first.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from intarsia.errors import SourceChanged, SourceMissing
from intarsia.references import Source
from intarsia.scan.hdf5_files import Files
from intarsia.scan.hdf5_layout import Unreferable
from intarsia.scan.hdf5_links import Absent, found_dataset
from intarsia.scan.hdf5_open import opened
from intarsia.scan.hdf5_placing import Stored
from intarsia.scan.hdf5_virtual import Survey, surveyed
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
        SourceMissing, SourceChanged
            The file is gone, or is another one.
        """
        try:
            stat = os.stat(self.source.url)
        except FileNotFoundError as error:
            raise SourceMissing("there is no such file", url=self.source.url) from error
        if (stat.st_size, stat.st_mtime_ns) != (self.source.size, self.source.mtime_ns):
            reason = "the file is not the one that was scanned"
            raise SourceChanged(reason, url=self.source.url)
        return self.loader()


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
        """
        with opened(self.path) as file:
            try:
                identifier = found_dataset(file, self.name)
                now = surveyed(Stored.of(Files(file).home(identifier), identifier))
            except (Unreferable, Absent) as error:
                reason = f"what it is made of is no longer as it was scanned: {error}"
                raise SourceChanged(reason, url=self.path, array=self.name) from error
            if (tuple(now.pins.values()), tuple(now.missing)) != (self.pins, self.missing):
                reason = "the files that it is made of are not those that were scanned"
                raise SourceChanged(reason, url=self.path, array=self.name)
            return self.loader()
