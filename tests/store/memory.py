"""Objects in memory, for tests of what is written and read."""

from __future__ import annotations

from intarsia.errors import CorruptStore


class Memory:
    """Reads and writes objects, and remembers what was read."""

    url = "memory"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.reads: list[tuple[str, int, int]] = []

    def put(self, name: str, data: bytes) -> None:
        assert name not in self.objects
        self.objects[name] = data

    def close(self) -> None:
        pass

    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        if name not in self.objects:
            raise FileNotFoundError(name)
        data = self.objects[name]
        end = len(data) if length is None else offset + length
        assert 0 <= offset <= end <= len(data)
        self.reads.append((name, offset, end - offset))
        return data[offset:end]

    def wrong(self, reason: str) -> CorruptStore:
        return CorruptStore(reason, url=self.url)

    def names(self) -> list[str]:
        return sorted(self.objects)
