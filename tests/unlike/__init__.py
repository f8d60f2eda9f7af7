"""Unlike HDF5 files from declarative specs: the generator that the tests of values stand on."""

from tests.unlike.special import SpecialVariable
from tests.unlike.specs import (
    Attribute,
    Dimension,
    FileSpec,
    Filter,
    GroupSpec,
    VariableSpec,
    chunk_grid,
    dimension,
    text,
    typed,
    variable,
)
from tests.unlike.values import Position, held_values, stored_values
from tests.unlike.write import write_file, write_files

__all__ = [
    "Attribute",
    "Dimension",
    "FileSpec",
    "Filter",
    "GroupSpec",
    "Position",
    "SpecialVariable",
    "VariableSpec",
    "chunk_grid",
    "dimension",
    "held_values",
    "stored_values",
    "text",
    "typed",
    "variable",
    "write_file",
    "write_files",
]
