"""Batches that inflate to more than a reader wants in memory: read piece by piece, and large records left out."""

from __future__ import annotations

import tracemalloc

import pytest

from minikafka.protocol.compression import Compression, compress
from minikafka.protocol.errors import CorruptRecord, RecordTooLarge
from minikafka.protocol.records import BatchBuilder, BatchView, iter_columns, iter_plain_batches, iter_records
from minikafka.protocol.records.builder import recompress_in_pieces
from minikafka.protocol.records.pieces import WHOLE_BYTES_MAX, iter_pieces
from tests.storage.batches import make_batch

MIB = 1 << 20
NOW_MS = 1_750_000_000_000
CODECS = [codec for codec in Compression if codec is not Compression.NONE]


def batch_of(*values: bytes, codec: Compression = Compression.ZSTD) -> BatchView:
    builder = BatchBuilder()
    for number, value in enumerate(values):
        builder.append(NOW_MS + number, b"k%d" % number, value, (("h", b"x"),))
    return BatchView(builder.build(compression=codec, base_offset=100))


def large(codec: Compression = Compression.ZSTD) -> BatchView:
    return batch_of(*(bytes([number % 251]) * 50_000 for number in range(WHOLE_BYTES_MAX // 50_000 + 60)), codec=codec)


@pytest.mark.parametrize("codec", CODECS)
def test_pieces_hold_all_records(codec: Compression) -> None:
    batch = large(codec)
    pieces = [*iter_pieces(batch)]
    assert sum(piece.rows for piece in pieces) == batch.record_count
    assert b"".join(piece.payload for piece in pieces) == batch.payload()
    if codec is not Compression.SNAPPY:
        assert len(pieces) > 5 and max(len(piece.payload) for piece in pieces) < 2 * MIB


def test_readers_see_the_same_records() -> None:
    batch = large()
    records = [*iter_records(batch)]
    assert [record.offset for record in records] == [*range(100, 100 + batch.record_count)]
    assert [record.timestamp_ms for record in records] == [*range(NOW_MS, NOW_MS + batch.record_count)]
    columns = [*iter_columns(batch)]
    assert len(columns) > 5
    assert [record for part in columns for record in part.records()] == records
    plain = [*iter_plain_batches(batch)]
    assert len(plain) > 5 and [record for part in plain for record in iter_records(part)] == records
    assert [part.next_offset for part in plain] == [[*iter_records(part)][-1].offset + 1 for part in plain]


def test_memory_is_that_of_a_piece() -> None:
    batch = batch_of(*(bytes(100_000) for _ in range(1500)))
    assert batch.size < 100_000
    tracemalloc.start()
    try:
        assert sum(len(record.value or b"") for record in iter_records(batch)) == 150_000_000
        assert tracemalloc.get_traced_memory()[1] < 40 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_record_above_the_limit_is_named_or_left_out(codec: Compression) -> None:
    batch = batch_of(b"a", bytes(12 * MIB), b"b", bytes(9 * MIB), b"c", codec=codec)
    with pytest.raises(RecordTooLarge) as caught:
        [*iter_records(batch, record_bytes_max=10 * MIB)]
    assert (caught.value.offset, caught.value.limit) == (101, 10 * MIB) and caught.value.size > 12 * MIB
    skipped: list[RecordTooLarge] = []
    for record_bytes_max, offsets in ((13 * MIB, []), (10 * MIB, [101]), (MIB, [101, 103]), (2, [*range(100, 105)])):
        skipped.clear()
        records = [*iter_records(batch, record_bytes_max=record_bytes_max, on_too_large=skipped.append)]
        assert [each.offset for each in skipped] == offsets
        assert [record.offset for record in records] == [at for at in range(100, 105) if at not in offsets]


@pytest.mark.parametrize("flaw", ["cut", "one too few", "one too many", "bytes behind"])
def test_payload_that_is_not_what_the_header_states(flaw: str) -> None:
    payload, count = large().payload(), large().record_count
    payload = {"cut": payload[:-1], "bytes behind": payload + b"x"}.get(flaw, payload)
    count += {"one too few": 1, "one too many": -1}.get(flaw, 0)
    packed = compress(Compression.ZSTD, payload)
    with pytest.raises(CorruptRecord):
        [*iter_pieces(BatchView(make_batch(1, payload=packed, attributes=4, record_count=count)))]


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", [*Compression])
def test_recompressed_in_pieces(source: Compression, target: Compression) -> None:
    batch = large(source)
    copy = recompress_in_pieces(batch, target, None, size_max=100 * MIB, inflated_bytes_max=100 * MIB)
    assert copy is not None
    after = BatchView(copy)
    after.check_crc()
    assert after.compression is target and after.payload() == batch.payload()
    assert recompress_in_pieces(batch, target, None, size_max=1000, inflated_bytes_max=100 * MIB) is None
    with pytest.raises(CorruptRecord, match="more than"):
        recompress_in_pieces(batch, target, None, size_max=100 * MIB, inflated_bytes_max=MIB)
