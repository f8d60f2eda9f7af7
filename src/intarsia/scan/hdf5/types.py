"""HDF5 datatypes as NumPy's: which are plain bytes, which the library converts, and the rest."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from h5py import h5t

type Form = Literal["plain", "converted", "string", "other"]


class ElementType(NamedTuple):
    """A datatype.

    Parameters
    ----------
    dtype
        As h5py gives it, and with it xarray; ``V`` of the right size where h5py has none.
    form
        ``"plain"``: the stored bytes are elements of `stored`. ``"converted"``: numbers that the
        library turns into elements of `stored` (odd precision, other float formats).
        ``"string"``: text of variable length. ``"other"``: none of these.
    stored
        `dtype` without metadata.
    readable
        Whether h5py can read it at all.
    """

    dtype: np.dtype[Any]
    form: Form
    stored: np.dtype[Any]
    readable: bool = True

    @property
    def is_list(self) -> bool:
        """Whether each value is a list of its own length."""
        return self.form == "other" and h5t.check_vlen_dtype(self.dtype) is not None

    @property
    def name(self) -> str:
        """What it is called, for messages."""
        if self.form == "string":
            return "strings of variable length"
        if self.is_list:
            return "lists of variable length"
        kinds = {"O": "objects", "V": "compound or opaque values", "S": "padded strings"}
        return kinds.get(self.dtype.kind, str(self.dtype))


def element_type(datatype: Any) -> ElementType:
    """Classify a low-level datatype."""
    try:
        dtype = datatype.dtype
    except TypeError:
        dtype = np.dtype(("V", datatype.get_size()))
        return ElementType(dtype, "other", dtype, readable=False)
    kind = datatype.get_class()
    if kind == h5t.STRING:
        if datatype.is_variable_str():
            return ElementType(dtype, "string", np.dtype(object))
        stored = np.dtype(("S", dtype.itemsize))
        padding = datatype.get_strpad()
        # The library cuts a null-terminated string at its first null, and strips padding of spaces.
        # Nothing of that can happen to one character that is not padded.
        whole = padding == h5t.STR_NULLPAD or (dtype.itemsize == 1 and padding == h5t.STR_NULLTERM)
        return ElementType(dtype, "plain" if whole else "other", stored)
    if dtype.kind not in "biufc" or dtype.subdtype is not None:
        return ElementType(dtype, "other", dtype)
    stored = np.dtype(dtype.str)
    # an enum's members may come in another order; its bytes are those of its integers
    base = datatype.get_super() if kind == h5t.ENUM and dtype.kind != "b" else datatype
    if base.equal(_standard(stored)):
        return ElementType(dtype, "plain", stored)
    converted = kind in (h5t.INTEGER, h5t.FLOAT)
    return ElementType(dtype, "converted" if converted else "other", stored)


@lru_cache(maxsize=64)
def _standard(dtype: np.dtype[Any]) -> Any:
    """The datatype whose bytes are those of `dtype`."""
    return h5t.py_create(dtype)


def enum_dtype(dtype: np.dtype[Any], name: str | None) -> np.dtype[Any]:
    """The dtype that xarray keeps for an enum, to write it again.

    Parameters
    ----------
    dtype
        As h5py gives it, with the members in its metadata.
    name
        Of the committed type, or None where there is none.
    """
    members = h5t.check_enum_dtype(dtype)
    if name is None or members is None:
        return dtype
    return np.dtype(dtype.str, metadata={"enum": members, "enum_name": name})
