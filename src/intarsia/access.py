"""How a place of the network is reached, as each source that lies there knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["PUBLIC_OPTIONS", "Access"]

PUBLIC_OPTIONS = frozenset(
    [
        "region",
        "endpoint",
        "skip_signature",
        "request_payer",
        "virtual_hosted_style_request",
        "allow_http",
        "account_name",
    ]
)
"""Options of an `Access` that may be told to anyone; all others could be secrets."""


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """How a place of the network is reached, where the usual way doesn't do.

    Two are equal where they say the same of the same store object. Pickled whole, so that other
    processes can read; a saved store keeps no more than `public`, and neither does any text.

    Parameters
    ----------
    options
        Sorted (name, value) pairs, named as obstore names its configuration.
    prefix
        URL that `store` is the root of, ending in ``/``; empty where there is none.
    store
        An object store that the caller has made, to be used in place of one of ours.
    guarded
        Whether the host's addresses have to be public ones: a stranger's store has named it.
    """

    options: tuple[tuple[str, str | bool | int], ...] = ()
    prefix: str = ""
    store: Any = None
    guarded: bool = False
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # asked for once per source; the same in other processes does not matter
        told = (self.options, self.prefix, id(self.store), self.guarded)
        object.__setattr__(self, "_hash", hash(told))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Access)
            and self.options == other.options
            and self.prefix == other.prefix
            and self.store is other.store
            and self.guarded == other.guarded
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Access, (self.options, self.prefix, self.store, self.guarded)

    def __repr__(self) -> str:
        told = [f"{name}={value!r}" for name, value in self.public]
        hidden = [f"{name}=..." for name, _ in self.options if name not in PUBLIC_OPTIONS]
        given = [f"store of {self.prefix}"] if self.store is not None else []
        return f"Access({', '.join([*told, *hidden, *given])})"

    @property
    def public(self) -> tuple[tuple[str, str | bool | int], ...]:
        """The options that are no secrets."""
        return tuple(pair for pair in self.options if pair[0] in PUBLIC_OPTIONS)
