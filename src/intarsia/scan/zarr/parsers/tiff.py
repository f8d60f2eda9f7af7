"""TIFF, by virtual-tiff: what it takes for plain pixels, and are others, is refused.

It takes samples of odd widths for whole bytes, which in narrow images come out in the same number;
it undoes predictors where TIFF has none, and not those that it does not know; it does not look at
the order of bits in a byte. Of what stands for missing pixels it knows the numbers of their own
type only, and ends at others: here those that no pixel can have stand for none.
"""

# The parser is looked at by its attributes.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from intarsia.scan.zarr.parsers.here import is_called_here

__all__ = ["mend"]

WIDTHS = frozenset([8, 16, 32, 64, 128])
"""Bits of a sample."""

PREDICTED = frozenset([5, 8, 32946, 34925, 50000, 50013])
"""Compressions in which a predictor means something: LZW, deflate, LZMA, Zstandard."""

FILL_ORDER = 266
"""Tag that says which bit of a byte comes first."""

FLOATS = 3
"""The sample format, and also the predictor, of floats."""

COMPLEX = 6

MISSING = ("_FillValue", "missing_value", "gdal_no_data")


def mend() -> None:
    """Have the parser refuse what it can't read, when it is called from here.

    Raises
    ------
    ImportError
        If virtual-tiff, or what it needs, is not installed.
    """
    module: Any = importlib.import_module("virtual_tiff.parser")
    if not isinstance(module._construct_manifest_array, _Described):
        module._construct_manifest_array = _Described(module._construct_manifest_array)
        module._consolidate_fill_value = _Missing(module._consolidate_fill_value)


class _Described:
    """Describes an image, if it can be."""

    def __init__(self, describe: Any) -> None:
        self._describe = describe

    def __call__(self, *, ifd: Any, endian: str, **more: Any) -> Any:
        reason = _beyond(ifd, endian) if is_called_here() else None
        if reason is not None:
            raise NotImplementedError(reason)
        return self._describe(ifd=ifd, endian=endian, **more)


def _beyond(directory: Any, order: str) -> str | None:
    """What of an image is not as the parser takes it, in words."""
    widths = {int(width) for width in directory.bits_per_sample} - WIDTHS
    if widths:
        return f"its samples have {min(widths)} bits"
    if (directory.other_tags or {}).get(FILL_ORDER, 1) != 1:
        return "the bits of its bytes are in reverse"
    predictor = int(directory.predictor or 1)
    if predictor == 1:
        return None
    if int(directory.compression) not in PREDICTED:
        return "it tells of a predictor, and its compression has none"
    kinds = {int(kind) for kind in directory.sample_format}
    if predictor == 2 and order == "big" and kinds == {COMPLEX}:
        return "its complex numbers are big-endian, and predicted as integers of 64 bits"
    if predictor == 2 or (predictor == FLOATS and kinds == {FLOATS}):
        return None
    return f"it has the predictor {predictor}"


class _Missing:
    """Finds what stands for missing pixels among the attributes."""

    def __init__(self, find: Any) -> None:
        self._find = find

    def __call__(self, attrs: dict[str, Any], dtype: np.dtype[Any]) -> Any:
        if not is_called_here() or dtype.kind not in "iu":
            return self._find(attrs, dtype)
        texts = {name: attrs[name] for name in MISSING if isinstance(attrs.get(name), str)}
        known = {name: _integer(text, dtype) for name, text in texts.items()}
        plain = {name: value for name, value in attrs.items() if name not in texts}
        plain |= {name: text for name, text in known.items() if text is not None}
        found, fill = self._find(plain, dtype)
        if "gdal_no_data" in texts:
            found["gdal_no_data"] = texts["gdal_no_data"]
        return found, fill


def _integer(text: str, dtype: np.dtype[Any]) -> str | None:
    """A number as text of an integer, or None if the type has none such."""
    limits = np.iinfo(dtype)
    try:
        value = int(text)
    except ValueError:
        try:
            number = float(text)
        except ValueError:
            return text  # which the parser refuses
        if not number.is_integer():
            return None
        value = int(number)
    return str(value) if limits.min <= value <= limits.max else None
