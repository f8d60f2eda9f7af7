"""Which codecs of Zarr a store may name: it is a stranger's, and codecs are code.

None of these runs code that the data brings along (``pickle``), nor makes objects of bytes.
"""

from __future__ import annotations

import json
from typing import Any, cast

__all__ = ["IMAGECODECS", "LERC", "check_chain"]

CORE = frozenset(
    ["bytes", "transpose", "gzip", "zstd", "blosc", "crc32c", "scale_offset", "cast_value"]
)
"""Codecs of Zarr itself that cases may name."""

NUMCODECS = frozenset(
    f"numcodecs.{name}"
    for name in (
        *("adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3"),
        *("astype", "bitround", "delta", "fixedscaleoffset", "packbits", "quantize", "shuffle"),
        *("blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"),
    )
)
"""Those of numcodecs that cases may name: none that makes objects of bytes."""

TIFF = frozenset(["ChunkyCodec", "HorizontalDeltaCodec"])
"""How TIFF lays samples out; decoded here."""

IMAGECODECS = "imagecodecs_"
"""Prefix of those that imagecodecs has; cases may name all of them but `LERC`."""

LERC = "imagecodecs_lerc"
"""A codec of pictures with masks, which its decoder drops: missing values would come out as 0."""

MAX_CODECS = 16
MAX_CHAIN = 1 << 13
"""Characters of a chain's JSON in a case."""


def check_chain(text: str) -> None:
    """Refuse a chain that no case may have.

    Raises
    ------
    ValueError
        If it names a codec that is not on the list, or is no chain.
    """
    if len(text) > MAX_CHAIN:
        raise ValueError(f"a chain of Zarr codecs is longer than {MAX_CHAIN} characters")
    try:
        told: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("a chain of Zarr codecs is no JSON") from error
    if not isinstance(told, list) or not 0 < len(cast("list[Any]", told)) <= MAX_CODECS:
        raise ValueError(f"a chain of Zarr codecs is no list of 1 to {MAX_CODECS}")
    for codec in cast("list[Any]", told):
        name: Any = cast("dict[str, Any]", codec).get("name") if isinstance(codec, dict) else None
        if not isinstance(name, str) or not _allowed(name):
            raise ValueError(f"a store may not have the Zarr codec {str(name)[:64]!r}")
        if not isinstance(cast("dict[str, Any]", codec).get("configuration", {}), dict):
            raise ValueError(f"the configuration of the Zarr codec {name!r} is no object")
    canonical = json.dumps(told, sort_keys=True, separators=(",", ":"))
    if canonical != text:
        raise ValueError("a chain of Zarr codecs is not written the one way it is")


def _allowed(name: str) -> bool:
    if name in CORE or name in NUMCODECS or name in TIFF:
        return True
    return name.startswith(IMAGECODECS) and name != LERC
