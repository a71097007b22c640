"""Segments that Apache Kafka 3.9.1 wrote: every batch is read, and built again to the same bytes."""

import pytest

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records import (
    BatchBuilder,
    BatchView,
    Compression,
    ControlType,
    EndMarker,
    TimestampType,
    build_marker,
    iter_records,
    read_batches,
    read_marker,
    read_whole_batches,
)
from minikafka.protocol.records.reader import base_of
from tests.protocol.record_samples import DATA, NOW_MS, WAYS, from_columns, reading, second_opinion

SEGMENTS = sorted(DATA.glob("*.bin"))


def batches(name: str) -> list[BatchView]:
    return read_batches((DATA / f"{name}.bin").read_bytes())


@pytest.mark.parametrize("path", SEGMENTS, ids=lambda path: str(path.stem))
def test_read(path: object) -> None:
    segment = path.read_bytes()  # type: ignore[attr-defined]
    offset = 0
    for batch in read_batches(segment):
        batch.check_crc()
        assert batch.base_offset >= offset
        offset = batch.next_offset
        records = [*iter_records(batch)]
        assert len(records) == batch.record_count
        assert records == second_opinion(batch.payload(), batch.record_count, base_of(batch))
        for way in WAYS:
            with reading(way):
                assert records == from_columns(batch)
    assert read_whole_batches(segment[:-1])[1] < len(segment)


@pytest.mark.parametrize("path", SEGMENTS, ids=lambda path: str(path.stem))
def test_build_the_same(path: object) -> None:
    for batch in read_batches(path.read_bytes()):  # type: ignore[attr-defined]
        append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        builder = BatchBuilder(base_timestamp=batch.base_timestamp)
        for record in iter_records(batch):
            _, timestamp_ms, key, value, headers = record
            # What the producer's timestamps were is not to be seen any more, but they were all the same here.
            builder.append(
                batch.base_timestamp if append_time else timestamp_ms,
                key,
                value,
                headers,
                record.offset - batch.base_offset,
            )
        again = builder.build(
            base_offset=batch.base_offset,
            leader_epoch=batch.leader_epoch,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
            append_time_ms=batch.max_timestamp if append_time else None,
            has_delete_horizon=batch.has_delete_horizon,
            last_offset_delta=batch.last_offset_delta,
        )
        if batch.compression is Compression.NONE:
            assert again == batch.data
        else:
            assert again[61:] == batch.payload()


@pytest.mark.parametrize("codec", Compression)
def test_codecs(codec: Compression) -> None:
    first, second = batches(f"codec-{codec.name.lower()}")
    assert first.compression is second.compression is codec
    records = [*iter_records(first), *iter_records(second)]
    assert [record.offset for record in records] == [*range(40)]
    assert (records[39].key, records[39].headers) == (b"k39", (("h", b"v39"),))
    assert (second.base_sequence, second.last_sequence) == (20, 39)


def test_append_time() -> None:
    (batch,) = batches("append-time")
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    records = [*iter_records(batch)]
    assert {record.timestamp_ms for record in records} == {batch.max_timestamp}
    assert [record.value for record in records] == [b"m%d" % row for row in range(300)]


def test_compacted() -> None:
    (batch,) = batches("compacted")
    records = [*iter_records(batch)]
    assert (batch.base_offset, batch.next_offset, batch.record_count) == (800, 1000, 40)
    assert (records[0].offset, records[-1].offset) == (960, 999)
    # The base timestamp is the time after which tombstones may go, a day after the records here.
    assert batch.delete_horizon_ms == batch.base_timestamp
    assert 86_400_000 <= batch.base_timestamp - batch.max_timestamp < 86_500_000
    assert {record.timestamp_ms for record in records} == {batch.max_timestamp}
    assert None in {record.value for record in records}


def test_transactions() -> None:
    found = batches("transactions")
    markers = [read_marker(batch) for batch in found if batch.is_control]
    assert markers == [EndMarker(ControlType(int(i % 3 < 2)), 0) for i in range(12)]
    assert all(batch.is_transactional and batch.producer_id == 5 for batch in found)


def test_markers_are_built_as_kafka_does() -> None:
    for batch in batches("transactions"):
        if batch.is_control:
            marker = read_marker(batch)
            assert marker is not None
            ours = BatchView(
                build_marker(
                    marker.type,
                    producer_id=batch.producer_id,
                    producer_epoch=batch.producer_epoch,
                    coordinator_epoch=marker.coordinator_epoch,
                    timestamp_ms=batch.max_timestamp,
                )
            )
            ours.patch(batch.base_offset, batch.leader_epoch)
            assert ours.data == batch.data


def control_batch(key: bytes | None, value: bytes | None, rows: int = 1) -> BatchView:
    builder = BatchBuilder()
    for _ in range(rows):
        builder.append(NOW_MS, key, value)
    return BatchView(builder.build(is_control=True))


def test_markers() -> None:
    assert read_marker(control_batch(b"\0\0\0\1", b"\0\0\0\0\0\7")) == EndMarker(ControlType.COMMIT, 7)
    # A later version, with more fields.
    assert read_marker(control_batch(b"\0\1\0\0x", b"\0\1\0\0\0\7y")) == EndMarker(ControlType.ABORT, 7)
    # Of Kafka's quorum.
    assert read_marker(control_batch(b"\0\0\0\2", b"")) is None


@pytest.mark.parametrize(
    ("key", "value", "rows"),
    [
        (None, b"\0\0\0\0\0\7", 1),
        (b"\0\0\0", b"\0\0\0\0\0\7", 1),
        (b"\xff\xff\0\1", b"\0\0\0\0\0\7", 1),
        (b"\0\0\0\1", None, 1),
        (b"\0\0\0\1", b"\0\0\0\0\0", 1),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\7", 1),
        (b"\0\0\0\1", b"\0\0\0\0\0\7", 2),
        (b"\0\0\0\1", b"\0\0\0\0\0\7", 0),
    ],
)
def test_what_is_no_marker(key: bytes | None, value: bytes | None, rows: int) -> None:
    with pytest.raises(CorruptRecord):
        read_marker(control_batch(key, value, rows))
