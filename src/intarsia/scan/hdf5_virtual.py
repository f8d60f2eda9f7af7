"""Virtual datasets of HDF5, which are made of parts of datasets of other files, as segments.

What stands where nothing is mapped, or where a mapped file is not there, is the fill value, as for
HDF5. HDF5 lets the same happen where a mapped file can't be read; here that is refused.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from h5py import h5o

from intarsia.array import VirtualArray
from intarsia.errors import IntarsiaError
from intarsia.references import Source
from intarsia.scan.hdf5_boxes import mapped
from intarsia.scan.hdf5_files import Files
from intarsia.scan.hdf5_joining import Laid, joined
from intarsia.scan.hdf5_layout import Unreferable
from intarsia.scan.hdf5_links import Absent, found_dataset, found_file
from intarsia.scan.hdf5_mosaic import TooEntangled
from intarsia.scan.hdf5_open import Opened, opened
from intarsia.scan.hdf5_placing import Placed, Stored, place, require_plain, require_same_values
from intarsia.scan.hdf5_selections import (
    Hyperslab,
    OutOfBounds,
    Points,
    Selected,
    Selection,
    TooManyPieces,
    described,
    selected,
)

MAX_DEPTH = 32
"""Virtual datasets of virtual datasets are followed so far."""

NAMED = 8
"""So many of the files that are not there are named."""

TOO_MANY = "a virtual dataset of HDF5 whose parts are too many, or too entangled"


class Mapping(NamedTuple):
    """One mapping of a virtual dataset.

    Parameters
    ----------
    space, source
        Selections of the virtual dataset, and of the one that is mapped.
    file, dataset
        Their names as they stand there.
    """

    space: Selection
    source: Selection
    file: str
    dataset: str


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
    obstacle
        Why there are no references, though the library could read the values.
    """

    files: Files
    pins: dict[str, Source] = field(default_factory=dict[str, Source])
    missing: dict[str, None] = field(default_factory=dict[str, None])
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


# -- mappings ------------------------------------------------------------------------------------


def mappings(stored: Stored) -> list[Mapping]:
    """The mappings of a virtual dataset, in their order.

    Raises
    ------
    Unreferable
        Single points are selected.
    """
    creation = stored.creation
    try:
        # nothing of HDF5's is kept: closing a file looks through everything that is open
        return [
            Mapping(
                described(creation.get_virtual_vspace(number)),
                described(creation.get_virtual_srcspace(number)),
                _text(creation.get_virtual_filename(number)),
                _text(creation.get_virtual_dsetname(number)),
            )
            for number in range(creation.get_virtual_count())
        ]
    except Points as error:
        reason = "a virtual dataset of HDF5 with a selection of points"
        raise Unreferable(reason, readable=False) from error


def _text(name: str | bytes) -> str:
    return os.fsdecode(name) if isinstance(name, bytes) else name


def _named(name: str, number: int | None = None) -> str:
    """A name with its escapes undone, and the number of a block in its places."""
    parts = name.split("%%")
    if number is not None:
        parts = [part.replace("%b", str(number)) for part in parts]
    return "%".join(parts)


def _growing(selection: Selection) -> int | None:
    """The dimension along which a selection has no limit."""
    return selection.growing if isinstance(selection, Hyperslab) else None


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
                grows = _growing(mapping.space) is not None
                if grows and len(chain) > 1:
                    # HDF5 takes the length that was written, whatever has become of it
                    reason = "a virtual dataset of HDF5 that grows, as a part of another one"
                    survey.hinder(Unreferable(reason))
                if not grows or _growing(mapping.source) is not None:
                    parts.lay(number, mapping, _named(file), _named(mapping.dataset))
                else:
                    _lay_series(parts, stored, number, mapping)
            found += parts.found
    return [laid for _, laid in sorted(found, key=lambda pair: pair[0])]


def _lay_series(parts: _Parts, stored: Stored, number: int, mapping: Mapping) -> None:
    """Lay blocks that lie in files or datasets with numbers in their names, up to the first gap."""
    slab, dim = mapping.space, _growing(mapping.space)
    assert isinstance(slab, Hyperslab)
    assert dim is not None
    if "%b" not in mapping.file.replace("%%", "") + mapping.dataset.replace("%%", ""):
        reason = "a virtual dataset of HDF5 that grows, with a part that does not"
        raise Unreferable(reason, readable=False)
    there, index = True, 0
    while there and slab.starts[dim] + index * slab.strides[dim] < stored.shape[dim]:
        names = _named(mapping.file, index), _named(mapping.dataset, index)
        there = parts.lay(number, mapping._replace(space=slab.part(index)), *names)
        index += 1


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
        self._arrays: dict[tuple[str, str], VirtualArray] = {}
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
            key = file, dataset
            array = self._arrays.get(key)
            if array is None:
                array = self._arrays[key] = self._array(file, dataset)
        except Absent as error:
            self._survey.missing[str(error)] = None
            return False
        try:
            whole, source = _matched(self._stored.shape, array.shape, mapping)
            if whole.size:
                self.found.append((number, Laid(mapped(whole, source), array)))
        except TooManyPieces:
            self._survey.hinder(Unreferable(TOO_MANY))
        return True

    def _array(self, file: str, dataset: str) -> VirtualArray:
        """A mapped dataset, with the values that the virtual one shows of it."""
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

    def _placed(self, file: Opened, dataset: str) -> VirtualArray:
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
                    return array.astype(self._stored.element.dtype.newbyteorder("="))
            except Unreferable as error:
                survey.hinder(error)
        except IntarsiaError as error:
            raise _unreadable(error) from error
        return VirtualArray.full(part.shape, 0, np.int8)  # nobody looks at it


def _unreadable(error: IntarsiaError) -> Unreferable:
    where = f" {error.url}" if error.url else ""
    reason = f"a part of it can't be read: {error.reason}{where}"
    return Unreferable(reason, error.remedy or "", readable=False)


def _matched(
    shape: Sequence[int], extents: Sequence[int], mapping: Mapping
) -> tuple[Selected, Selected]:
    """What is selected of both sides, which is as much of one as of the other.

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
    mine, theirs = _growing(mapping.space), _growing(mapping.source)
    if mine is not None and theirs is not None:
        # as many as both have along the dimensions without a limit
        assert whole.axes is not None
        assert source.axes is not None
        one, two = whole.axes[mine], source.axes[theirs]
        size = min(one.size, two.size)
        whole.axes[mine], source.axes[theirs] = one.first(size), two.first(size)
    if whole.size != source.size:
        reason = (
            f"a virtual dataset of HDF5 of which {whole.size} elements are mapped onto "
            f"{source.size} of {mapping.dataset} in {mapping.file}"
        )
        raise Unreferable(reason, readable=False)
    return whole, source
