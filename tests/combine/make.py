"""Hand-made summaries: a small archive of three like files, and changes to single files of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from intarsia.combine import (
    Decision,
    Difference,
    Options,
    SourceSummary,
    Summarizer,
    VariableSummary,
    decide,
)

NESTED = Options(combine="nested", concat_dims=("time",))
BY_COORDS = Options(combine="by_coords")

SST: dict[str, Any] = {
    "dims": ("time", "lat"),
    "shape": (3, 4),
    "dtype": np.dtype("f4"),
    "attrs": {"units": "K", "long_name": "temperature"},
    "stored": np.dtype("<i2"),
    "filters": ("shuffle", "zlib"),
    "chunks": (1, 4),
    "layout": "chunked",
    "scale": np.float32(0.01),
    "offset": np.float32(273.15),
    "fills": (np.int16(-999),),
    "raw_fill": np.int16(-999),
}
LAT = np.array([-30.0, -10.0, 10.0, 30.0])


def times(start: int, length: int = 3) -> np.ndarray[Any, Any]:
    """Consecutive days, from `start` days after the epoch."""
    return np.arange(start, start + length).astype("M8[D]").astype("M8[ns]")


class Archive:
    """Three files of one layout, of three days each, as mappings that a test may change.

    ``archive.sst(1, chunks=(3, 4))`` changes variable ``sst`` of file 1; ``None`` for a file
    stands for all.
    """

    def __init__(self, count: int = 3) -> None:
        self.make = Summarizer()
        self.files: list[dict[str, dict[str, Any]]] = []
        self.attrs: list[dict[str, Any]] = []
        for number in range(count):
            self.files.append(
                {
                    "sst": {**SST, "attrs": dict(SST["attrs"])},
                    "time": index("time", times(3 * number), units="days since 1970-01-01"),
                    "lat": index("lat", LAT, attrs={"units": "degrees_north"}),
                }
            )
            self.attrs.append({"title": "SST"})

    def change(
        self, file: int, name: str, *, attrs: Mapping[str, Any] = {}, **fields: Any
    ) -> Archive:
        """Change fields of a variable, or add it; attributes are updated, None removes one."""
        variable = self.files[file].setdefault(name, {"attrs": {}})
        variable.update(fields)
        merged = {**variable.get("attrs", {}), **attrs}
        variable["attrs"] = {key: value for key, value in merged.items() if value is not None}
        return self

    def everywhere(self, name: str, **fields: Any) -> Archive:
        """Change a variable in every file."""
        for file in range(len(self.files)):
            self.change(file, name, **fields)
        return self

    def without(self, file: int, name: str) -> Archive:
        del self.files[file][name]
        return self

    def summaries(self, order: Sequence[int] | None = None) -> list[SourceSummary]:
        numbers = range(len(self.files)) if order is None else order
        return [
            self.make.source(
                f"{'abcdefghij'[number]}.nc",
                {name: self._variable(fields) for name, fields in self.files[number].items()},
                attrs=self.attrs[number],
            )
            for number in numbers
        ]

    def decide(self, options: Options = NESTED) -> Decision:
        return decide(self.summaries(), options)

    def the(self, kind: str, options: Options = NESTED) -> Difference:
        """The only difference of a kind."""
        found = [d for d in self.decide(options).differences if d.kind == kind]
        assert len(found) == 1, [d.kind for d in self.decide(options).differences]
        return found[0]

    def kinds(self, options: Options = NESTED) -> set[str]:
        return {difference.kind for difference in self.decide(options).differences}

    def _variable(self, fields: Mapping[str, Any]) -> VariableSummary:
        return self.make.variable(**fields)


def index(name: str, values: np.ndarray[Any, Any], **fields: Any) -> dict[str, Any]:
    """Fields of an index coordinate."""
    return {
        "dims": (name,),
        "shape": values.shape,
        "dtype": values.dtype,
        "is_coordinate": True,
        "is_index": True,
        "values": values,
        "attrs": {},
        **fields,
    }


def told(difference: Difference) -> list[tuple[str, str, int]]:
    """(text, first source, number of sources) of each value."""
    return [(example.text, example.url, example.sources) for example in difference.examples]
