"""Ways to damage a store, each drawn from a number, so that any of them can be repeated."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.store.hostile import parts, roots
from tests.store.hostile.basics import Damaged, Objects


def damage(number: int, seed: int, objects: Objects, other: Objects, *, zipped: bool) -> Damaged:
    """The damage of this number.

    Parameters
    ----------
    number, seed
        What everything is drawn from.
    objects, other
        Of a store, and of another one, from which things may be taken.
    zipped
        Whether the store is a zip file.
    """
    draw = random.Random(f"{seed}:{number}")
    makers: list[tuple[int, Callable[..., Damaged]]] = [
        (12, roots.text),
        (40, roots.tree),
        (15, roots.table),
        (8, roots.case),
        (15, parts.part),
        (14, parts.content),
        (14, parts.shard),
        (6, roots.names),
        (2, roots.pairs),
    ]
    if zipped:
        makers.append((60, parts.zipped_file))
    weights, functions = zip(*makers, strict=True)
    (make,) = draw.choices(functions, weights)
    return make(draw, dict(objects), other)
