"""Batches whose records cost much to look at: what is decided by the header, and what a thread has to do."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.protocol.compression import Compression, compress
from minikafka.protocol.errors import InvalidRecordError, InvalidTimestampError, MessageTooLargeError
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.layout import TimestampType
from minikafka.protocol.varint import INT32_MAX
from minikafka.storage.producers import Origin
from minikafka.storage.validation import RECORD_ERRORS_MAX, Costly, Limits, RejectedRecords, inspect, validate
from tests.storage.batches import NOW_MS, make_batch

RECORD = bytes([12, 0, 0, 0, 1, 1, 0])
"""Seven bytes, all offset deltas 0."""
APPEND_TIME_BIT = 8
ZSTD = int(Compression.ZSTD)
COMPACTED = Limits(is_compacted=True)


def bomb(count: int = 1_000_000, attributes: int = 0, max_timestamp: int = NOW_MS) -> BatchView:
    """So many records in about a kilobyte."""
    payload = compress(Compression.ZSTD, RECORD * count)
    fields: dict[str, Any] = {"attributes": attributes | ZSTD, "record_count": count, "last_offset_delta": count - 1}
    return BatchView(make_batch(1, payload=payload, base_timestamp=NOW_MS, max_timestamp=max_timestamp, **fields))


def mibs(count: int, codec: Compression = Compression.ZSTD) -> BatchView:
    """One record with a key and a value of so many MiB."""
    plain = make_batch([(b"key", bytes(count << 20))])
    return BatchView(make_batch(1, payload=compress(codec, plain[61:]), attributes=codec))


@pytest.fixture
def inflates(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How far batches were inflated."""
    limits: list[int] = []
    payload = BatchView.payload

    def counted(batch: BatchView, max_bytes: int = INT32_MAX) -> bytes:
        limits.append(max_bytes)
        return payload(batch, max_bytes)

    monkeypatch.setattr(BatchView, "payload", counted)
    return limits


def test_append_time_bit_is_decided_by_the_header(inflates: list[int]) -> None:
    """Kafka 3.9.1 takes the time for one of creation, and refuses what has none or is for a topic of append times."""
    late = Limits(timestamp_before_max_ms=1000)
    for stamp in (NOW_MS, NOW_MS - 1000):
        # Also one before the base timestamp, which would be looked into without the bit.
        taken = validate(bomb(attributes=APPEND_TIME_BIT, max_timestamp=stamp), late, NOW_MS, Origin.CLIENT)
        assert taken.timestamp_type is TimestampType.CREATE_TIME and taken.max_timestamp == stamp
        taken.check_crc()
    append_time = Limits(timestamp_type=TimestampType.LOG_APPEND_TIME)
    for limits, stamp in ((Limits(), -1), (append_time, NOW_MS), (append_time, -1), (late, NOW_MS - 1001)):
        with pytest.raises(RejectedRecords) as caught:
            validate(bomb(attributes=APPEND_TIME_BIT, max_timestamp=stamp), limits, NOW_MS, Origin.CLIENT)
        assert isinstance(caught.value.error, InvalidTimestampError)
        assert [error.batch_index for error in caught.value.record_errors] == [*range(RECORD_ERRORS_MAX)]
    assert inflates == []


@pytest.mark.parametrize(
    "limits", [COMPACTED, Limits(timestamp_before_max_ms=1000), Limits(compression=Compression.LZ4)]
)
def test_much_to_look_at_is_left_to_a_thread(limits: Limits, inflates: list[int]) -> None:
    batch = mibs(1)
    with pytest.raises(Costly) as caught:
        validate(batch, limits, NOW_MS, Origin.CLIENT)
    # Found out by a little of it.
    assert sum(inflates) < 100_000
    inspected = inspect(caught.value.batch, caught.value.limits, NOW_MS)
    stored = validate(batch, limits, NOW_MS, Origin.CLIENT, inspected)
    stored.check_crc()
    assert stored.payload() == mibs(1).payload()
    assert stored.compression is (limits.compression or Compression.ZSTD)
    # Other limits since then: it has to be looked at again.
    with pytest.raises(Costly):
        validate(mibs(1), limits._replace(max_message_bytes=2_000_000), NOW_MS, Origin.CLIENT, inspected)


def test_many_records_are_left_to_a_thread_and_refused_by_name_of_the_first() -> None:
    batch = bomb(50_000)
    with pytest.raises(Costly):
        validate(batch, COMPACTED, NOW_MS, Origin.CLIENT)
    with pytest.raises(RejectedRecords) as caught:
        inspect(batch, COMPACTED, NOW_MS)
    assert isinstance(caught.value.error, InvalidRecordError)
    assert len(caught.value.record_errors) == RECORD_ERRORS_MAX and "at least 100 of 50000" in str(caught.value)


def test_unset_max_timestamp_is_found_in_a_thread() -> None:
    count = 10_000
    rows = [(b"k", b"v")] * count
    plain = make_batch(rows, timestamps=[NOW_MS + 5 * (row == 7000) for row in range(count)])
    fields: dict[str, Any] = {"attributes": ZSTD, "record_count": count, "last_offset_delta": count - 1}
    data = make_batch(1, payload=compress(Compression.ZSTD, plain[61:]), max_timestamp=-1, **fields)
    with pytest.raises(Costly):
        validate(BatchView(data), Limits(), NOW_MS, Origin.CLIENT)
    inspected = inspect(BatchView(data), Limits(), NOW_MS)
    stored = validate(BatchView(data), Limits(), NOW_MS, Origin.CLIENT, inspected)
    assert stored.max_timestamp == NOW_MS + 5


@pytest.mark.parametrize("codec", [Compression.LZ4, Compression.ZSTD])
def test_batch_of_more_than_64_mib_is_taken(codec: Compression) -> None:
    """As by Kafka 3.9.1, on a compacted topic and on one with a codec of its own."""
    other = Compression.LZ4 if codec is not Compression.LZ4 else Compression.ZSTD
    for limits in (COMPACTED, Limits(compression=other, max_message_bytes=8 << 20)):
        limits = limits._replace(max_message_bytes=8 << 20)
        inspected = inspect(mibs(65, codec), limits, NOW_MS)
        assert inspected.batch.record_count == 1
        assert inspected.batch.compression is (limits.compression or codec)


def test_recompression_stops_where_the_batch_is_too_large() -> None:
    with pytest.raises(MessageTooLargeError):
        inspect(mibs(20), Limits(compression=Compression.NONE), NOW_MS)


def test_limit_of_what_is_inflated() -> None:
    for limits in (COMPACTED, Limits(compression=Compression.LZ4)):
        with pytest.raises(InvalidRecordError, match=r"the limit is|more than"):
            inspect(mibs(20), limits._replace(inflated_bytes_max=10 << 20), NOW_MS)
