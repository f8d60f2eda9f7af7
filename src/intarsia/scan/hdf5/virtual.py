"""Virtual datasets of HDF5, which are made of parts of datasets of other files, as segments.

What stands where nothing is mapped, or where a mapped file is not there, is the fill value, as for
HDF5. HDF5 lets the same happen where a mapped file can't be opened, and finds a growing dataset
shorter for it; here that is refused.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
from h5py import h5o

from intarsia.array import VirtualArray
from intarsia.errors import IntarsiaError
from intarsia.references import Source
from intarsia.scan.hdf5.boxes import mapped
from intarsia.scan.hdf5.files import Files
from intarsia.scan.hdf5.joining import Laid, joined
from intarsia.scan.hdf5.layout import Unreferable
from intarsia.scan.hdf5.links import Absent, found_dataset, found_file
from intarsia.scan.hdf5.mappings import Mapping, growing, mappings, named
from intarsia.scan.hdf5.mosaic import TooEntangled
from intarsia.scan.hdf5.opening import Opened, opened
from intarsia.scan.hdf5.placing import Placed, Stored, place, require_plain, require_same_values
from intarsia.scan.hdf5.selections import (
    Hyperslab,
    OutOfBounds,
    Selected,
    TooManyPieces,
    selected,
)

MAX_DEPTH = 32
"""Virtual datasets of virtual datasets are followed so far."""

NAMED = 8
"""So many of the files that are not there are named."""

SHORTER = "a virtual dataset of HDF5 that is longer than HDF5 says: not all parts could be opened"

TOO_MANY = "a virtual dataset of HDF5 whose parts are too many, or too entangled"


@dataclass(slots=True)
class Survey:
    """What was looked at for a virtual dataset and those that are mapped onto it.

    Parameters
    ----------
    files
        Of the scan.
    pins
        The mapped files, as they were found.
    missing
        Those that are not there, and datasets that are in none; in order, each once.
    shown
        Paths of the mapped files of which something shows.
    obstacle
        Why there are no references, though the library could read the values.
    """

    files: Files
    pins: dict[str, Source] = field(default_factory=dict[str, Source])
    missing: dict[str, None] = field(default_factory=dict[str, None])
    shown: set[str] = field(default_factory=set[str])
    obstacle: Unreferable | None = None

    def hinder(self, error: Unreferable) -> None:
        """Keep the first reason; one for which nothing can read the values is raised at once."""
        if not error.readable:
            raise error
        if self.obstacle is None:
            self.obstacle = error


def place_virtual(files: Files, stored: Stored, name: str) -> Placed:
    """Find what a virtual dataset is made of.

    Parameters
    ----------
    files
        Of the scan.
    stored
        The virtual dataset.
    name
        Of the variable.

    Raises
    ------
    Unreferable
        It can't be expressed as references, or a mapped file can't be read.
    """
    survey = Survey(files)
    array = _survey(survey, stored, name, ())
    if survey.obstacle is not None:
        raise survey.obstacle
    for path, source in survey.pins.items():
        files.number(path, source)
    if survey.missing:
        array = array.with_notes(_missing_note(list(survey.missing)))
    return Placed(array, stored.fill()[0])


def surveyed(stored: Stored) -> Survey:
    """Look at everything that a virtual dataset leads to, so that the library may read it.

    Raises
    ------
    Unreferable
        Something can't be read, or the library would go wrong.
    """
    survey = Survey(Files(stored.file))
    _survey(survey, stored, "", ())
    return survey


def _missing_note(missing: list[str]) -> str:
    named = ", ".join(missing[:NAMED])
    rest = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
    return f"the fill value stands for what is not there: {named}{rest}"


def _survey(
    survey: Survey, stored: Stored, name: str, above: tuple[tuple[str, int], ...]
) -> VirtualArray:
    """The array of a virtual dataset; `above` are those that it is mapped onto."""
    here = stored.file.source.url, int(h5o.get_info(stored.id).addr)
    if here in above:
        raise Unreferable("a virtual dataset of HDF5 that is a part of itself", readable=False)
    if len(above) >= MAX_DEPTH:
        reason = f"virtual datasets of HDF5, more than {MAX_DEPTH} deep"
        raise Unreferable(reason, readable=False)
    try:
        require_plain(stored)
    except Unreferable as error:
        survey.hinder(error)
    laid = _all_laid(survey, stored, name, (*above, here))
    if survey.obstacle is not None:
        return VirtualArray.full(stored.shape, 0, np.int8)  # nobody looks at it
    try:
        return joined(stored, laid, name)
    except TooEntangled:
        survey.hinder(Unreferable(TOO_MANY))
        return VirtualArray.full(stored.shape, 0, np.int8)


def _all_laid(
    survey: Survey, stored: Stored, name: str, chain: tuple[tuple[str, int], ...]
) -> list[Laid]:
    """What the mappings come to, in their order; each file that several name is opened once."""
    found: list[tuple[int, Laid]] = []
    by_file: dict[str, list[tuple[int, Mapping]]] = {}
    for number, mapping in enumerate(mappings(stored)):
        by_file.setdefault(mapping.file, []).append((number, mapping))
    for file, those in by_file.items():
        with _Parts(survey, stored, name, chain) as parts:
            for number, mapping in those:
                grows = growing(mapping.space) is not None
                if grows and len(chain) > 1:
                    # HDF5 takes the length that was written, whatever has become of it
                    reason = "a virtual dataset of HDF5 that grows, as a part of another one"
                    survey.hinder(Unreferable(reason))
                if not grows or growing(mapping.source) is not None:
                    parts.lay(number, mapping, named(file), named(mapping.dataset))
                else:
                    _lay_series(parts, stored, number, mapping)
            found += parts.found
    return [laid for _, laid in sorted(found, key=lambda pair: pair[0])]


def _lay_series(parts: _Parts, stored: Stored, number: int, mapping: Mapping) -> None:
    """Lay blocks that lie in files or datasets with numbers in their names, up to the first gap."""
    slab, dim = mapping.space, growing(mapping.space)
    assert isinstance(slab, Hyperslab)
    assert dim is not None
    if "%b" not in mapping.file.replace("%%", "") + mapping.dataset.replace("%%", ""):
        reason = "a virtual dataset of HDF5 that grows, with a part that does not"
        raise Unreferable(reason, readable=False)
    there, index = True, 0
    while there and slab.starts[dim] + index * slab.strides[dim] < stored.shape[dim]:
        names = named(mapping.file, index), named(mapping.dataset, index)
        there = parts.lay(number, mapping._replace(space=slab.part(index)), *names)
        index += 1
    if there and parts.is_there(named(mapping.file, index), named(mapping.dataset, index)):
        raise Unreferable(SHORTER, readable=False)


class _Parts:
    """Mapped datasets of files of one name; closes the files that were opened.

    Parameters
    ----------
    survey, stored, name
        The survey, the virtual dataset, and the variable.
    chain
        The virtual datasets that are looked at.

    Attributes
    ----------
    found
        Numbers of mappings, and what they come to.
    """

    def __init__(
        self, survey: Survey, stored: Stored, name: str, chain: tuple[tuple[str, int], ...]
    ) -> None:
        self._survey = survey
        self._stored = stored
        self._name = name
        self._chain = chain
        self._open = ExitStack()
        self._file: tuple[str, Opened] | None = None
        self._arrays: dict[tuple[str, str], tuple[VirtualArray, str]] = {}
        self.found: list[tuple[int, Laid]] = []

    def __enter__(self) -> _Parts:
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    def lay(self, number: int, mapping: Mapping, file: str, dataset: str) -> bool:
        """Find what a mapping comes to, and say whether what it maps is there.

        Parameters
        ----------
        number, mapping
            The mapping.
        file, dataset
            Their names.
        """
        try:
            array, path = self._array(file, dataset)
        except Absent as error:
            self._survey.missing[str(error)] = None
            return False
        try:
            whole, source = _matched(self._stored.shape, array.shape, mapping, self._is_whole)
            if whole.size:
                self._survey.shown.add(path)
                self.found.append((number, Laid(mapped(whole, source), array)))
        except TooManyPieces:
            self._survey.hinder(Unreferable(TOO_MANY))
        return True

    def is_there(self, file: str, dataset: str) -> bool:
        """Whether there is something to be mapped, were the virtual dataset longer."""
        try:
            self._array(file, dataset)
        except Absent:
            return False
        return self._is_whole

    @property
    def _is_whole(self) -> bool:
        """Whether it has the length that HDF5 finds now, and not that which was written."""
        return len(self._chain) == 1

    def _array(self, file: str, dataset: str) -> tuple[VirtualArray, str]:
        """A mapped dataset, with the values that the virtual one shows of it; and its file."""
        key = file, dataset
        if key not in self._arrays:
            array = self._found(file, dataset)  # may forget those of another file
            self._arrays[key] = array
        return self._arrays[key]

    def _found(self, file: str, dataset: str) -> tuple[VirtualArray, str]:
        if file == ".":
            return self._placed(self._stored.file, dataset)
        if self._file is None or self._file[0] != file:
            self._open.close()
            self._arrays.clear()
            path = found_file(file, self._stored.file, "virtual")
            try:
                self._file = file, self._open.enter_context(opened(path))
            except IntarsiaError as error:
                raise _unreadable(error) from error
        return self._placed(self._file[1], dataset)

    def _placed(self, file: Opened, dataset: str) -> tuple[VirtualArray, str]:
        survey = self._survey
        identifier = found_dataset(file, dataset)
        try:
            if identifier.fileno != file.id.fileno:
                file = survey.files.home(identifier)
            survey.pins.setdefault(file.source.url, file.source)
            part = Stored.of(file, identifier)
            array = None
            if part.is_virtual:
                array = _survey(survey, part, self._name, self._chain)
            try:
                require_same_values(part, self._stored)
                if array is None:
                    array = place(survey.files, part, self._name).array
                if survey.obstacle is None:
                    native = self._stored.element.dtype.newbyteorder("=")
                    return array.astype(native), file.source.url
            except Unreferable as error:
                survey.hinder(error)
        except IntarsiaError as error:
            raise _unreadable(error) from error
        # nobody looks at it
        return VirtualArray.full(part.shape, 0, np.int8), file.source.url


def _unreadable(error: IntarsiaError) -> Unreferable:
    where = f" {error.url}" if error.url else ""
    reason = f"a part of it can't be read: {error.reason}{where}"
    return Unreferable(reason, error.remedy or "", readable=False)


def _matched(
    shape: Sequence[int], extents: Sequence[int], mapping: Mapping, is_whole: bool
) -> tuple[Selected, Selected]:
    """What is selected of both sides, which is as much of one as of the other.

    Parameters
    ----------
    shape, extents
        Of the virtual dataset, and of the one that is mapped.
    mapping
        What is selected.
    is_whole
        Whether the shape is as large as the mapped datasets make it.

    Raises
    ------
    Unreferable
        The selections do not fit, where HDF5 fails or reads what is not there.
    TooManyPieces
        They come to too many runs.
    """
    try:
        whole, source = selected(mapping.space, shape), selected(mapping.source, extents)
    except OutOfBounds as error:
        reason = f"a virtual dataset of HDF5 that is mapped onto what is not there: {error}"
        raise Unreferable(reason, readable=False) from error
    mine, theirs = growing(mapping.space), growing(mapping.source)
    if mine is not None and theirs is not None:
        # as many as both have along the dimensions without a limit
        assert whole.axes is not None
        assert source.axes is not None
        one, two = whole.axes[mine], source.axes[theirs]
        if is_whole and one.size < two.size:
            raise Unreferable(SHORTER, readable=False)
        size = min(one.size, two.size)
        whole.axes[mine], source.axes[theirs] = one.first(size), two.first(size)
    if whole.size != source.size:
        reason = (
            f"a virtual dataset of HDF5 of which {whole.size} elements are mapped onto "
            f"{source.size} of {mapping.dataset} in {mapping.file}"
        )
        raise Unreferable(reason, readable=False)
    return whole, source
