"""What every finder of differences has to know: the sources, the options, the concatenation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from intarsia.combine.columns import Column, Group, columns, group
from intarsia.combine.options import Options
from intarsia.combine.summary import SourceSummary

__all__ = ["Scene"]


class Scene:
    """Sources to be combined, by variable, with the dimensions along which they are concatenated.

    Parameters
    ----------
    summaries
        The sources, in the order of the combination.
    options
        What was asked.
    """

    def __init__(self, summaries: Sequence[SourceSummary], options: Options) -> None:
        self.summaries = summaries
        self.options = options
        self.columns: Mapping[str, Column] = {column.name: column for column in columns(summaries)}
        self.concat_dims: tuple[str, ...] = options.dims
        """Named by the options; for ``by_coords``, found by looking at the coordinates."""
        self.holed: frozenset[int] = frozenset()
        """For ``by_coords``: sources of wholes that have missing parts."""
        self.wholes: list[list[int]] = []
        """For ``by_coords``: sources that are combined before they are merged with others."""

    def url(self, source: int) -> str:
        """Name of a source."""
        return self.summaries[source].url

    @property
    def count(self) -> int:
        """Number of sources."""
        return len(self.summaries)

    @cached_property
    def lengths(self) -> Sequence[Mapping[str, int]]:
        """Length of each dimension, in each source."""
        return [summary.lengths() for summary in self.summaries]

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """All dimensions, by first appearance."""
        return tuple(dict.fromkeys(dim for lengths in self.lengths for dim in lengths))

    @cached_property
    def new_dims(self) -> frozenset[str]:
        """Dimensions of concatenation that no source has yet."""
        return frozenset(self.concat_dims).difference(self.dims)

    @cached_property
    def grid_mappings(self) -> frozenset[str]:
        """Names of the variables that describe a grid mapping."""
        attributes = {
            entry.value.grid_mapping
            for column in self.columns.values()
            for entry in column.groups
            if entry.value.grid_mapping
        }
        return frozenset(name for text in attributes for name in _mapping_names(text))

    @cached_property
    def bounds(self) -> frozenset[str]:
        """Names of the variables that are bounds of others."""
        return frozenset(
            name
            for column in self.columns.values()
            for entry in column.groups
            if isinstance(name := entry.value.attr("bounds"), str)
        )

    def lanes(self, dim: str) -> Iterator[list[int]]:
        """List sets of sources whose coordinates along `dim` have to be the same.

        All of them, unless they are concatenated along it: then those with the same place along
        it, if there is a second dimension of concatenation; else none has to agree with another.
        """
        options = self.options
        if dim not in options.dims:
            yield list(range(self.count))
        elif options.tiles is not None and len(options.concat_dims) > 1:
            axis = options.concat_dims.index(dim)
            places = [tile[axis] for tile in options.tiles]
            for place in dict.fromkeys(places):
                yield [source for source, other in enumerate(places) if other == place]

    def has_holes(self, column: Column) -> bool:
        """Whether some part of the whole has no source with this variable.

        Along a dimension of None sources are merged, and one that has the variable is enough.
        """
        options = self.options
        if options.combine == "by_coords":
            return any(column.by_source[source] is not None for source in self.holed)
        if column.absent is None:
            return False
        if options.tiles is None:
            return bool(options.dims)
        axes = [axis for axis, dim in enumerate(options.concat_dims) if dim is not None]
        places = [tuple(tile[axis] for axis in axes) for tile in options.tiles]
        present = {
            place
            for place, summary in zip(places, column.by_source, strict=True)
            if summary is not None
        }
        return len(present) < len(set(places))

    def is_split(self, column: Column) -> bool:
        """Whether sources that are concatenated with each other have it in part only."""
        if self.options.combine == "by_coords":
            counts = [
                (sum(column.by_source[source] is not None for source in members), len(members))
                for members in self.wholes
            ]
            return any(0 < present < all_of_them for present, all_of_them in counts)
        return self.has_holes(column)

    def is_concatenated(self, column: Column) -> bool | None:
        """Whether a variable is concatenated; None where xarray decides by looking at values."""
        dims = frozenset(self.concat_dims)
        if not dims:
            return False
        if column.any(lambda summary: not dims.isdisjoint(summary.dims)):
            return True
        first = column.first
        if first.is_index:
            return False
        options = self.options
        given = options.coords if first.is_coordinate else options.data_vars
        if given is None:
            return bool(self.new_dims)
        if isinstance(given, tuple):
            return column.name in given
        return {"all": True, "minimal": False}.get(given)

    def grouped(self, values: Sequence[object]) -> list[Group]:
        """Group one value per source."""
        return group(values)


def _mapping_names(text: str) -> list[str]:
    """Names of grid mapping variables in a ``grid_mapping`` attribute, plain or extended (CF 5.6).

    Examples
    --------
    >>> _mapping_names("crs")
    ['crs']
    >>> _mapping_names("crsOSGB: x y crsWGS84: lat lon")
    ['crsOSGB', 'crsWGS84']
    """
    words = text.split()
    named = [word[:-1] for word in words if word.endswith(":")]
    return named or words
