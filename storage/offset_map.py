"""The newest offset of every key in the dirty part of a log.

A million keys take about 120 MB: a dict's slot has some 40 bytes, the key 48, the offset 32. A key of less than 15
bytes is kept as it is, a longer one as a hash of 15 bytes, so that either takes 48 bytes in memory, and a key can never
be taken for a hash. Two keys with one hash would cost the older one its record; with 120 bits nobody will see that
happen, by chance or on purpose.

Whoever fills the map stops when it is full and leaves the rest of the log for the next time. A batch that was begun is
taken in whole, so that a map of any size makes progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

KEYS_MAX: Final = 1_000_000

_HASH_BYTES: Final = 15


class OffsetMap:
    """Keys to offsets; valid for records up to `latest_offset`."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self.keys_max = keys_max
        self.latest_offset = -1
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self.keys_max

    def put(self, keys: Sequence[bytes], offsets: Sequence[int]) -> None:
        """Take in records, which must be newer than those before."""
        self._offsets.update(zip(_folded(keys), offsets, strict=True))

    def are_newest(self, keys: Sequence[bytes], offsets: Sequence[int]) -> list[bool]:
        """For each record whether there is none of its key after it."""
        found = map(self._offsets.get, _folded(keys))
        return [newest is None or offset >= newest for newest, offset in zip(found, offsets, strict=True)]


def _folded(keys: Sequence[bytes]) -> list[bytes]:
    return [key if len(key) < _HASH_BYTES else blake2b(key, digest_size=_HASH_BYTES).digest() for key in keys]
