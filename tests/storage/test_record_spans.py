"""Where records begin and end: the same as the record reader finds, or the same refusal."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.builder import BatchBuilder
from minikafka.protocol.records.reader import iter_records
from minikafka.storage.record_spans import find_spans, timestamp_delta
from tests.storage.batches import make_batch

cells = st.none() | st.binary(max_size=70) | st.integers(100, 20_000).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
rows = st.lists(st.tuples(cells, cells, headers, st.integers(-(2**40), 2**40), st.integers(0, 9000)), max_size=8)


@settings(max_examples=150, deadline=None)
@given(rows)
def test_the_same_as_the_reader(
    records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes]], int, int]],
) -> None:
    builder = BatchBuilder()
    offset = -1
    for key, value, some, timestamp_ms, gap in records:
        offset += gap + 1
        builder.append(timestamp_ms, key, value, some, offset)
    batch = BatchView(builder.build())
    payload = batch.payload()
    found = [*iter_records(batch)]
    spans = find_spans(payload, batch.record_count)
    assert spans.keys == [record.key for record in found]
    assert spans.offset_deltas == [record.offset for record in found]
    assert spans.tombstones == [row for row, record in enumerate(found) if record.value is None]
    assert spans.bounds[-1] == len(payload)
    stamps = [batch.base_timestamp + timestamp_delta(payload, start) for start in spans.bounds[:-1]]
    assert stamps == [record.timestamp_ms for record in found]
    # Each span by itself is the record.
    for start, stop, record in zip(spans.bounds, spans.bounds[1:], found, strict=False):
        alone = make_batch(1, payload=payload[start:stop], base_timestamp=batch.base_timestamp)
        assert [*iter_records(BatchView(alone))] == [record]


GOOD = BatchView(make_batch([(b"key", b"value"), (b"k" * 100, None), (None, b"x" * 300)]))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(GOOD.payload()) - 1), st.integers(0, 255))
def test_bytes_that_are_no_records(position: int, byte: int) -> None:
    payload = bytearray(GOOD.payload())
    payload[position] = byte
    try:
        spans = find_spans(bytes(payload), 3)
    except CorruptRecord:
        return
    assert len(spans.keys) == 3 and sorted(spans.bounds) == spans.bounds and spans.bounds[-1] == len(payload)


@pytest.mark.parametrize("count", [0, 1, 2, 4, 1000])
def test_more_or_fewer_records_than_stated(count: int) -> None:
    with pytest.raises(CorruptRecord):
        find_spans(GOOD.payload(), count)


def test_records_that_are_cut_off() -> None:
    for size in range(len(GOOD.payload())):
        with pytest.raises(CorruptRecord):
            find_spans(GOOD.payload()[:size], 3)


def test_lengths_that_cannot_be() -> None:
    assert find_spans(bytes.fromhex("0c 00 00 00 01 01 00"), 1).tombstones == [0]
    for bad in ("0d 00 00 00 01 01 00", "0c 00 00 00 0e 01 00", "04 00 00 00 01 01 00", "81808080 80 01 000000010100"):
        with pytest.raises(CorruptRecord):
            find_spans(bytes.fromhex(bad), 1)
