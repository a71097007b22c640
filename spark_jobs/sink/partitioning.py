"""Which partitions rows go to, for whole columns at a time.

Keys choose partitions by murmur2, as in every Kafka client. In Python that is microseconds for each key, so here all
keys of a column are hashed together, a word of four bytes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from minikafka.protocol.hashing import partition_for_key
from minikafka.spark_jobs.sink.columns import Part, group_rows

# In the place of a partition: whichever is being filled. No row can name it, as columns of partitions have 32 bits.
_ANY: Final = 1 << 40

# Every word of the longest key is a step for all keys; keys that are longer are hashed on their own.
_KEY_BYTES_MAX: Final = 256

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)
_MASK_31: Final = np.uint32(0x7FFFFFFF)


def group_by_partition(part: Part, partition_count: int) -> Iterator[tuple[int | None, Part]]:
    """The rows for each partition, in their order; None for those that any partition may take."""
    if part.keys is None and part.partitions is None:
        yield None, part
        return
    for code, rows in group_rows(_partitions(part, partition_count)):
        yield None if code == _ANY else code, part.take(rows) if len(rows) < len(part) else part


def _partitions(part: Part, partition_count: int) -> NDArray[np.int64]:
    chosen = np.full(len(part), _ANY, np.int64)
    if part.keys is not None:
        has_key = _is_filled(part.keys)
        chosen[has_key] = partitions_for_keys(part.keys, partition_count)[has_key]
    if part.partitions is not None:
        is_given = _is_filled(part.partitions)
        chosen[is_given] = part.partitions.fill_null(0).to_numpy()[is_given]
    return chosen


def _is_filled(column: Any) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return found


def partitions_for_keys(keys: Any, partition_count: int) -> NDArray[np.int64]:
    """The partition for each of an Arrow column of keys; for null anything."""
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    found = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    starts, sizes = ends[:-1], np.diff(ends)
    long_ones = np.flatnonzero(sizes > _KEY_BYTES_MAX)
    hashed = _murmur2(found, starts, np.where(sizes > _KEY_BYTES_MAX, 0, sizes))
    chosen = ((hashed & _MASK_31) % np.uint32(partition_count)).astype(np.int64)
    for row in long_ones:
        chosen[row] = partition_for_key(found[starts[row] : ends[row + 1]].tobytes(), partition_count)
    return chosen


def _murmur2(data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.uint32]:
    """`protocol.hashing.murmur2` of each span of the data. Numbers of 32 bits wrap around as Java's do."""
    hashed = np.uint32(_SEED) ^ sizes.astype(np.uint32)
    for at in range(0, int(sizes.max(initial=0)) & ~3, 4):
        rows = np.flatnonzero(sizes >= at + 4)
        word = _word(data, starts[rows] + at, 4) * _M
        word = (word ^ (word >> np.uint32(24))) * _M
        hashed[rows] = (hashed[rows] * _M) ^ word
    for left in (1, 2, 3):
        rows = np.flatnonzero(sizes & 3 == left)
        tail = _word(data, starts[rows] + (sizes[rows] & ~3), left)
        hashed[rows] = (hashed[rows] ^ tail) * _M
    hashed = (hashed ^ (hashed >> np.uint32(13))) * _M
    return hashed ^ (hashed >> np.uint32(15))


def _word(data: NDArray[np.uint8], positions: NDArray[np.int64], count: int) -> NDArray[np.uint32]:
    """So many bytes at each position as a number, the lowest first."""
    word = np.zeros(len(positions), np.uint32)
    for index in range(count):
        word |= data[positions + index].astype(np.uint32) << np.uint32(8 * index)
    return word
