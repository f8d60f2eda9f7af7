"""What CF attributes mean, as xarray decides it, for variables whose values stay in their files.

xarray decodes lazily: it wraps the array of a variable in layers, each a function that it would
apply to the values. `decode` hands xarray's own decoder a stub in place of each virtual variable,
and reads from the layers which functions, types and numbers were chosen. Nothing of the
conventions is implemented here a second time; what xarray chose is carried out, chunk by chunk,
by `intarsia.codecs.cf`.

Variables that the layers do not describe (times, strings, anything new in xarray) must be loaded
before decoding: `time_like` names the times beforehand, and `UnrecognisedDecoding` the rest.
Where xarray's answer is known to be wrong, `decode` refuses it by name.
"""

from intarsia.cf.decoding import decode
from intarsia.cf.enums import ENUM, enum_of, kept_enum, meanings_of
from intarsia.cf.options import Options
from intarsia.cf.times import time_kind, time_like
from intarsia.cf.variables import (
    Decoded,
    RawVariable,
    Recipe,
    UnrecognisedDecoding,
    VirtualVariable,
)

__all__ = [
    "ENUM",
    "Decoded",
    "Options",
    "RawVariable",
    "Recipe",
    "UnrecognisedDecoding",
    "VirtualVariable",
    "decode",
    "enum_of",
    "kept_enum",
    "meanings_of",
    "time_kind",
    "time_like",
]
