"""A repr of dataclasses that leaves defaults out, so that failing specs stay readable."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any

import numpy as np


class Brief:
    """Base of dataclasses (``repr=False``) whose repr names what differs from the defaults."""

    def __repr__(self) -> str:
        told = []
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray) or value != _default(field):
                told.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(told)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The same for Hypothesis, which prints dataclasses in its own way."""
        printer.text("..." if cycle else repr(self))


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
