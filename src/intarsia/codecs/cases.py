"""Cases as JSON: how a store and the `intarsia.switch` codec write an encoding down, and its key.

A case is an encoding without the values of its parameters. Its JSON has no floats and no integers
that a double can't hold, and there is one way only to write each case down, so that its key (the
first 8 bytes of the SHA-256 of the canonical text) is the same whoever wrote it. See
``spec/cases.md``.

Cases come from strangers. `encoding_of` accepts only what it knows, of bounded size, and only as
`case_json` would have written it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from intarsia.codecs.cases_filters import filter_json, filter_of
from intarsia.codecs.cases_hdf5 import hdf5_configuration, hdf5_filter
from intarsia.codecs.cases_steps import parameters_json, parameters_of, steps_json, steps_of
from intarsia.codecs.cases_types import data_type_json, data_type_of, entries, fail, text_of
from intarsia.codecs.cases_zarr import zarr_configuration, zarr_filter_of
from intarsia.encoding import Codec, Encoding

__all__ = [
    "CaseTable",
    "canonical",
    "case_json",
    "case_key",
    "encoding_of",
    "key_of",
    "merge_tables",
]

MAX_TEXT = 1 << 16
"""Characters of a case's canonical JSON."""
MAX_DEPTH = 16
MAX_INT = 1 << 53
MAX_CASES = 1 << 12
MAX_FILTERS = 32
"""As many as HDF5 allows."""

CF, WINDOW, BYTES, HDF5 = "intarsia.cf", "intarsia.window", "bytes", "intarsia.hdf5"
ZARR = "intarsia.zarr"


def canonical(value: Any) -> str:
    r"""The one text of a JSON value: sorted keys, no spaces, ASCII.

    Raises
    ------
    ValueError
        If it has floats, integers beyond 2^53, keys that are not strings, or what JSON has no
        words for, or is nested too deeply.

    Examples
    --------
    >>> canonical({"b": [1, None], "a": "é"})
    '{"a":"\u00e9","b":[1,null]}'
    """
    _check(value, 0)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _check(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError(f"JSON is nested deeper than {MAX_DEPTH} levels")
    if value is None or isinstance(value, str | bool):
        return
    if isinstance(value, int):
        if abs(value) > MAX_INT:
            raise ValueError(f"the integer {value} is beyond 2^53")
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            _check(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in cast("dict[Any, Any]", value).items():
            if not isinstance(key, str):
                raise ValueError(f"the key {key!r} is not a string")
            _check(item, depth + 1)
    else:
        raise ValueError(f"{text_of(value)} can't be in a case (no floats, only JSON)")


def case_key(case: Mapping[str, Any]) -> str:
    """Key of a case: 16 hexadecimal digits, of the SHA-256 of its canonical text.

    Raises
    ------
    ValueError
        As for `canonical`.
    """
    return _key(canonical(case))


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).digest()[:8].hex()


@lru_cache(maxsize=4096)
def key_of(encoding: Encoding) -> str:
    """Key of an encoding's case.

    Raises
    ------
    ValueError
        As for `case_json`.
    """
    return _key(_text(encoding))


def case_json(encoding: Encoding) -> dict[str, Any]:
    """Write an encoding down as a case; a new dictionary with each call.

    Raises
    ------
    ValueError
        If there is no case for it: it refuses to be read, or has a type or filter that the format
        does not know.
    """
    return json.loads(_text(encoding))


@lru_cache(maxsize=4096)
def _text(encoding: Encoding) -> str:
    codecs: list[dict[str, Any]] = []
    if encoding.steps:
        codecs.append({"name": CF, "configuration": {"steps": steps_json(encoding.steps)}})
    codecs.append({"name": WINDOW})
    codecs.append(_bytes_json(encoding.stored))
    codecs += [_filter_json(codec) for codec in encoding.filters]
    text = canonical(
        {
            "data_type": data_type_json(encoding.stored),
            "codecs": codecs,
            "parameters": parameters_json(encoding.parameters),
        }
    )
    _parsed(text)  # what can be written can be read, or is refused now
    return text


def _bytes_json(stored: np.dtype[Any]) -> dict[str, Any]:
    order = np.dtype(stored).str[0]
    if order == "|":
        return {"name": BYTES}
    return {"name": BYTES, "configuration": {"endian": "big" if order == ">" else "little"}}


def _filter_json(codec: Codec) -> dict[str, Any]:
    if codec.name == "hdf5":
        return {"name": HDF5, "configuration": hdf5_configuration(codec)}
    if codec.name == "zarr":
        return {"name": ZARR, "configuration": zarr_configuration(codec)}
    if codec.name == "refused":
        raise ValueError(f"it can't be read: {codec.config.get('reason')}")
    return filter_json(codec)


def encoding_of(case: Mapping[str, Any]) -> Encoding:
    """The encoding that a case stands for; the same object for equal cases.

    Parameters
    ----------
    case
        JSON from anywhere.

    Raises
    ------
    ValueError
        If it isn't a case, knows a codec, type or parameter that we don't, is too large, or is not
        written the one way a case is. Says which.
    """
    return _parsed(canonical(case))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Encoding:
    if len(text) > MAX_TEXT:
        raise ValueError(f"the case is longer than {MAX_TEXT} characters")
    case = entries(json.loads(text), "a case", ("data_type", "codecs", "parameters"))
    codecs: Any = case["codecs"]
    if not isinstance(codecs, list):
        raise fail("codecs", codecs, "a list")
    rest = [_named(codec) for codec in cast("list[Any]", codecs)]
    steps: tuple[Codec, ...] = ()
    native = data_type_of(case["data_type"])
    if rest and rest[0][0] == CF:
        config = entries(rest.pop(0)[1], CF, ("steps",))
        steps = steps_of(config["steps"])
    if not rest or rest.pop(0) != (WINDOW, None):
        raise ValueError(f"its codecs don't begin with {CF}, if any, and then {WINDOW}")
    if not rest or rest[0][0] != BYTES:
        raise ValueError(f"{WINDOW} is not followed by {BYTES}")
    stored = _stored(native, rest.pop(0)[1])
    filters = tuple(_filter_of(name, config, stored) for name, config in rest)
    if len(filters) > MAX_FILTERS:
        raise ValueError(f"it has more than {MAX_FILTERS} filters")
    for alone, name in (("hdf5", HDF5), ("zarr", ZARR)):
        if len(filters) > 1 and any(codec.name == alone for codec in filters):
            raise ValueError(f"{name} stands beside other filters")
    parameters = parameters_of(case["parameters"], stored, steps)
    encoding = Encoding.shared(filters, stored, steps, parameters)
    if _rewritten(case, stored) != text:
        raise ValueError("it is not written as cases are (spec/cases.md)")
    return encoding


def _rewritten(case: dict[str, Any], stored: np.dtype[Any]) -> str:
    """The case's text with all that may be written in two ways written the right way."""
    codecs: list[Any] = []
    for codec in case["codecs"]:
        name, config = _named(codec)
        if name == BYTES:
            codecs.append(_bytes_json(stored))
        else:
            codecs.append({"name": name} | ({} if config is None else {"configuration": config}))
    return canonical(case | {"codecs": codecs, "data_type": data_type_json(stored)})


def _named(codec: Any) -> tuple[str, Any]:
    """Name and configuration of a codec."""
    found = entries(codec, "a codec", ("name",), ("configuration",))
    name: Any = found["name"]
    if not isinstance(name, str):
        raise fail("a codec's name", name, "a string")
    if "configuration" in found and not isinstance(found["configuration"], dict):
        raise fail(f"the configuration of {name[:64]}", found["configuration"], "an object")
    return name, found.get("configuration")


def _stored(native: np.dtype[Any], configuration: Any) -> np.dtype[Any]:
    """The stored type, in the byte order that the `bytes` codec has."""
    if native.str[0] == "|":
        if configuration is not None:
            raise ValueError(f"{BYTES} has a configuration, but {native} has no byte order")
        return native
    endian = entries(configuration, BYTES, ("endian",))["endian"]
    if endian not in ("little", "big"):
        raise fail("endian", endian, "'little' or 'big'")
    return native.newbyteorder("<" if endian == "little" else ">")


def _filter_of(name: str, configuration: Any, stored: np.dtype[Any]) -> Codec:
    if name == HDF5:
        return hdf5_filter(configuration, stored)
    if name == ZARR:
        return zarr_filter_of(configuration, stored)
    return filter_of(name, configuration)


@dataclass(frozen=True, slots=True, eq=False)
class CaseTable:
    """The cases of an array, compiled, in the order of their keys.

    Parameters
    ----------
    keys
        Sorted; the 8 bytes of each as a little-endian integer.
    encodings
        Of each case.
    widths, itemsizes
        Bytes of one row of parameters of each, and of one stored element.
    numbers
        Row of each key.
    """

    keys: npt.NDArray[np.uint64]
    encodings: tuple[Encoding, ...]
    widths: npt.NDArray[np.int64]
    itemsizes: npt.NDArray[np.int64]
    numbers: dict[int, int]

    @classmethod
    def of(cls, encodings: Sequence[Encoding]) -> CaseTable:
        """Make the table of some encodings, which need not be distinct.

        Raises
        ------
        ValueError
            If one can't be written as a case (see `case_json`), or two have the same key.
        """
        return cls.from_json(merge_tables(*({key_of(e): case_json(e)} for e in encodings)))

    @classmethod
    def from_json(cls, cases: Any) -> CaseTable:
        """Check and compile the ``cases`` of a configuration; equal ones are compiled once.

        Raises
        ------
        ValueError
            If a case is refused (see `encoding_of`), or its key is not that of its content.
        """
        if not isinstance(cases, Mapping) or not cases:
            raise fail("cases", cases, "an object with at least one case")
        table = cast("Mapping[Any, Any]", cases)
        if len(table) > MAX_CASES:
            raise ValueError(f"there are more than {MAX_CASES} cases")
        return _compiled(tuple((str(key), canonical(case)) for key, case in table.items()))

    def __repr__(self) -> str:
        return f"CaseTable({', '.join(key_of(encoding) for encoding in self.encodings)})"

    def __eq__(self, other: object) -> bool:
        # a key is a digest of its case's content
        return isinstance(other, CaseTable) and np.array_equal(self.keys, other.keys)

    def __hash__(self) -> int:
        return hash(self.keys.tobytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return CaseTable.from_json, (self.json(),)

    def json(self) -> dict[str, dict[str, Any]]:
        """Key -> case, as configurations have it."""
        return {key_of(encoding): case_json(encoding) for encoding in self.encodings}


@lru_cache(maxsize=256)
def _compiled(table: tuple[tuple[str, str], ...]) -> CaseTable:
    found: list[tuple[int, Encoding]] = []
    for key, text in table:
        try:
            encoding = _parsed(text)
        except ValueError as error:
            raise ValueError(f"case {key[:64]!r}: {error}") from error
        if _key(text) != key:
            raise ValueError(f"case {key[:64]!r}: its content has the key {_key(text)!r}")
        found.append((key_number(key), encoding))
    found.sort(key=lambda pair: pair[0])
    return CaseTable(
        np.array([number for number, _ in found], np.uint64),
        tuple(encoding for _, encoding in found),
        np.array([encoding.parameters.itemsize for _, encoding in found], np.int64),
        np.array([encoding.stored.itemsize for _, encoding in found], np.int64),
        {number: row for row, (number, _) in enumerate(found)},
    )


def key_number(key: str) -> int:
    """The 8 bytes of a key as a little-endian integer, as columns have them."""
    return int.from_bytes(bytes.fromhex(key), "little")


def merge_tables(*tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The union of tables of cases: what an array made of other arrays has.

    Raises
    ------
    ValueError
        If two tables have different cases under the same key.
    """
    merged: dict[str, Any] = {}
    for table in tables:
        for key, case in table.items():
            known = merged.setdefault(key, case)
            if known is not case and canonical(known) != canonical(case):
                raise ValueError(f"two different cases have the key {key!r}")
    return dict(sorted(merged.items()))
