"""Another codec, the same records."""

import gzip
import random
from typing import Any

import pytest

from minikafka.protocol.compression import Compression, compress
from minikafka.protocol.errors import InvalidRecordError
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.reader import iter_records
from minikafka.storage.recompression import recompress
from tests.storage.batches import NOW_MS, Pair, make_batch

LIMIT = 1 << 20
ALL = [*Compression]


def some_records() -> list[Pair]:
    rng = random.Random(7)
    return [(rng.choice([None, b"", b"key"]), rng.choice([None, b"", b"value" * 20])) for _ in range(50)]


def batch_in(codec: Compression) -> BatchView:
    pairs = some_records()
    fields: dict[str, Any] = {
        "timestamps": [NOW_MS + 7 * (row % 5) for row in range(len(pairs))],
        "producer_id": 77,
        "producer_epoch": 3,
        "base_sequence": 2**31 - 10,
        "leader_epoch": 12,
        "base_offset": 1000,
    }
    plain = make_batch(pairs, attributes=0x10, **fields)
    data = make_batch(pairs, attributes=0x10 | codec, payload=compress(codec, plain[61:]), **fields)
    return BatchView(data)


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("target", ALL)
def test_all_but_the_codec_stays(source: Compression, target: Compression) -> None:
    before = batch_in(source)
    after = recompress(before, target, None, LIMIT)
    after.check_crc()
    assert after.compression is target
    assert [*iter_records(after)] == [*iter_records(before)]
    for field in set(BatchView.__slots__) - {"attributes", "batch_length", "crc", "data", "size"}:
        assert getattr(after, field) == getattr(before, field), field
    assert after.attributes & ~7 == before.attributes & ~7
    assert after.size == len(after.data) == after.batch_length + 12


def test_records_are_not_looked_at() -> None:
    odd = BatchView(make_batch(1, payload=b"these are no records"))
    assert recompress(odd, Compression.LZ4, None, LIMIT).payload() == bytes(odd.data[61:])


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_the_level_counts(codec: Compression) -> None:
    rng = random.Random(1)
    value = bytes(rng.choices(b"abcdefgh", k=20_000))
    batch = BatchView(make_batch([(None, value)]))
    assert recompress(batch, codec, 9, LIMIT).size != recompress(batch, codec, 1, LIMIT).size


def test_the_inflated_size_is_limited() -> None:
    bomb = BatchView(make_batch(1, attributes=1, payload=gzip.compress(bytes(2 * LIMIT))))
    with pytest.raises(InvalidRecordError):
        recompress(bomb, Compression.LZ4, None, LIMIT)


def test_what_is_not_compressed_has_no_such_limit() -> None:
    batch = BatchView(make_batch([(None, b"x" * 100)]))
    assert recompress(batch, Compression.LZ4, None, 10).size < batch.size


def test_broken_data() -> None:
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        with pytest.raises(InvalidRecordError):
            recompress(
                BatchView(make_batch(1, attributes=int(codec), payload=b"\xff" * 9)), Compression.NONE, None, LIMIT
            )


def test_what_is_in_the_codec_already_is_kept() -> None:
    for codec in ALL:
        batch = BatchView(make_batch(1, attributes=int(codec), payload=b"not looked at"))
        assert recompress(batch, codec, 9, LIMIT) is batch


def test_markers_are_not_compressed() -> None:
    marker = BatchView(make_batch(1, attributes=0x30))
    assert recompress(marker, Compression.GZIP, None, LIMIT) is marker


@pytest.mark.parametrize("codec", ALL)
def test_a_batch_that_compaction_has_emptied(codec: Compression) -> None:
    empty = BatchView(make_batch([], last_offset_delta=4, attributes=3, base_offset=9))
    after = recompress(empty, codec, None, LIMIT)
    assert (after.record_count, after.base_offset, after.last_offset, after.size) == (0, 9, 13, 61)
