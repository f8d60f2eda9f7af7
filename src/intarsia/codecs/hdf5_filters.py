"""HDF5's filters by number: their names, which need no library, and where the others come from.

A filter that the HDF5 library lacks may be in the package ``hdf5plugin``, which is imported when
such a filter is met. It need not be there.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
from __future__ import annotations

from collections.abc import Sequence

from intarsia.encoding import Codec

__all__ = [
    "LIBRARY_FILTERS",
    "Filter",
    "filter_name",
    "native_codec",
    "plugins_loaded",
    "remedy_for",
    "unavailable",
]

type Filter = tuple[int, int, tuple[int, ...], str]
"""Number, flags, ``cd_values`` and name."""

DEFLATE, SHUFFLE, FLETCHER32, SZIP, NBIT, SCALEOFFSET = 1, 2, 3, 4, 5, 6
BZIP2, LZF, BLOSC, LZ4, BITSHUFFLE, ZSTD = 307, 32000, 32001, 32004, 32008, 32015
LIBRARY_FILTERS = frozenset([DEFLATE, SHUFFLE, FLETCHER32, SZIP, NBIT, SCALEOFFSET, LZF])
"""Those that HDF5, or h5py, brings along."""

_NAMES = {
    1: "deflate",
    2: "shuffle",
    3: "fletcher32",
    4: "szip",
    5: "nbit",
    6: "scaleoffset",
    305: "LZO",
    307: "bzip2",
    32000: "lzf",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32017: "sz",
    32018: "fcidecomp",
    32019: "jpeg",
    32022: "granular bitround",
    32023: "bitround",
    32024: "sz3",
    32026: "blosc2",
    32028: "sperr",
    32033: "htj2k",
}
_PACKAGED = frozenset(
    [307, 32001, 32004, 32008, 32013, 32015, 32017, 32018, 32024, 32026, 32028, 32033]
)
"""What ``hdf5plugin`` knows."""

_PLAIN = {DEFLATE: "zlib", FLETCHER32: "fletcher32", BZIP2: "bz2", LZ4: "lz4", ZSTD: "zstd"}
_COMPRESSORS = {2: "lz4", 3: "zstd"}
_SNAPPY = 3
MAX_ELEMENTSIZE = 1 << 20


def filter_name(number: int, name: str = "") -> str:
    """Name of a registered filter; the name the file gives, and the number, of any other.

    Examples
    --------
    >>> filter_name(32015)
    'zstd'
    >>> filter_name(40000, "ours; see https://example.org")
    'ours (40000)'
    """
    known = _NAMES.get(number)
    if known is not None:
        return known
    given = name.split(";")[0].strip()
    return f"{given} ({number})" if given else f"number {number}"


def native_codec(entry: Filter, itemsize: int) -> Codec | None:
    """The codec that undoes a filter without the HDF5 library, or None (see `codecs.filters`).

    Parameters
    ----------
    entry
        The filter.
    itemsize
        Bytes of an element as it is stored.
    """
    number, _, values, _ = entry
    if number in _PLAIN:
        return Codec.make(_PLAIN[number])
    if number == SHUFFLE:
        return Codec.make("shuffle", elementsize=values[0] if values else itemsize)
    if number == BLOSC and not (len(values) > 6 and values[6] == _SNAPPY):
        return Codec.make("blosc")
    if number == BITSHUFFLE:
        return _bitshuffle(values)
    return None


def _bitshuffle(values: Sequence[int]) -> Codec | None:
    """Parameters: two of version, bytes of an element, elements of a block, compressor, level."""
    size, block, compressor = (*values[2:5], 0, 0, 0)[:3]
    if not 0 < size <= MAX_ELEMENTSIZE or block % 8:
        return None
    if compressor in _COMPRESSORS:  # streams say themselves how long their blocks are
        name = _COMPRESSORS[compressor]
        return Codec.make("bitshuffle", elementsize=size, compressor=name)
    if compressor:
        return None
    block = block or max(8192 // size // 8 * 8, 128)
    return Codec.make("bitshuffle", elementsize=size, blocksize=block)


def unavailable(pipeline: Sequence[Filter]) -> list[Filter]:
    """The filters that can't be undone with the HDF5 library at hand, nor with ``hdf5plugin``."""
    missing = [entry for entry in pipeline if not _is_there(entry[0])]
    if missing and plugins_loaded():
        missing = [entry for entry in missing if not _is_there(entry[0])]
    return missing


def _is_there(number: int) -> bool:
    from h5py import h5z  # pyright: ignore[reportAttributeAccessIssue]

    if not h5z.filter_avail(number):
        return False
    return bool(h5z.get_filter_info(number) & h5z.FILTER_CONFIG_DECODE_ENABLED)


def plugins_loaded() -> bool:
    """Import ``hdf5plugin``, which gives the HDF5 library its filters; False without it."""
    try:
        import hdf5plugin  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        return False
    return True


def remedy_for(missing: Sequence[Filter]) -> str:
    """What makes the filters of `unavailable` available."""
    if any(number in _PACKAGED for number, _, _, _ in missing) and not plugins_loaded():
        return "install hdf5plugin (pip install 'intarsia[filters]')"
    names = ", ".join(filter_name(number, name) for number, _, _, name in missing)
    return f"install the HDF5 plug-in for {names}"
