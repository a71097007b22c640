"""A batch that its program fills itself, as aiokafka's `create_batch` has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from minikafka.client.producer.batch import RECORD_OVERHEAD_BYTES, Batch, RecordHeaders, headers_size
from minikafka.client.producer.checks import check_timestamp, copy_headers
from minikafka.client.producer.config import RECORDS_MAX
from minikafka.client.serializers import Serializer, serialize
from minikafka.protocol.records import HEADER_BYTES


class AppendedRecord(NamedTuple):
    """A record of a batch that is being filled: its place, the bytes that it takes at most, and its timestamp."""

    offset: int
    size: int
    timestamp: int


class BatchBuilder:
    """See the module's description. Made by `Producer.create_batch`, sent by `send_batch`, to one partition."""

    def __init__(
        self,
        size_max: int,
        key_serializer: Serializer | None,
        value_serializer: Serializer | None,
        wall_ms: Callable[[], int],
    ) -> None:
        self._size_max: Final = size_max
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._wall_ms = wall_ms
        self._records: list[tuple[int, bytes | None, bytes | None, RecordHeaders]] = []
        self._size = HEADER_BYTES
        self._is_closed = False

    def append(
        self, *, timestamp: int | None = None, key: object = None, value: object = None, headers: RecordHeaders = ()
    ) -> AppendedRecord | None:
        """Add a record; None if the batch is full or closed. The first record is taken whatever its size."""
        if self._is_closed:
            return None
        if timestamp is not None:
            check_timestamp(timestamp)
        bare_key = None if key is None else serialize(self._key_serializer, key)
        bare_value = serialize(self._value_serializer, value)
        copied = copy_headers(headers or ())
        size = RECORD_OVERHEAD_BYTES + len(bare_key or b"") + len(bare_value or b"") + headers_size(copied)
        index = len(self._records)
        if index and (self._size + size > self._size_max or index >= RECORDS_MAX):
            self.close()
            return None
        stamp = self._wall_ms() if timestamp is None else timestamp
        self._records.append((stamp, bare_key, bare_value, copied))
        self._size += size
        return AppendedRecord(index, size, stamp)

    def close(self) -> None:
        """Take no more records."""
        self._is_closed = True

    def closed(self) -> bool:
        return self._is_closed

    def size(self) -> int:
        """What the batch takes before compression, at most."""
        return self._size

    def record_count(self) -> int:
        return len(self._records)

    def copy_to(self, batch: Batch) -> int:
        """Add the records to a batch that has room for them; the index of the first one there."""
        first = len(batch)
        for stamp, key, value, headers in self._records:
            if headers:
                batch.headers[len(batch)] = headers
            batch.extend(stamp, [value], [key], 0)
        batch.size += self._size - HEADER_BYTES
        return first
