"""Batches that are too large to be inflated as a whole, and records that are too large to be read at all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minikafka.client.consumer import Consumer
from minikafka.client.consumer.errors import LargeRecord
from minikafka.client.structs import TopicPartition
from minikafka.protocol.records import BatchBuilder, BatchView, Compression
from tests.client.consumer.reading import open_consumer
from tests.client.consumer.test_scripted_broker import LogPeer, batch

TP = TopicPartition("t", 0)
MIB = 1 << 20


def large_batch(start: int, stop: int, sizes: dict[int, int]) -> bytearray:
    """Records whose values are their offsets and so many more bytes."""
    builder = BatchBuilder()
    for number in range(start, stop):
        builder.append(1000, b"%d" % number, b"%d" % number + bytes(sizes.get(number, 0)))
    data = builder.build(compression=Compression.ZSTD)
    BatchView(data).patch(start, 0)
    return data


# More than 20 MiB in two kilobytes: piece by piece, with a record in the middle that is larger than a piece.
WHOLE = dict.fromkeys(range(3, 103), 200000) | {50: 3 * MIB}


def offsets_from(start: int) -> list[int]:
    return [*range(start, 106)]


async def read_all(consumer: Consumer, count: int) -> list[tuple[int, int, bytes]]:
    """Offset, size of the value, and what it says."""
    found: list[tuple[int, int, bytes]] = []
    while len(found) < count:
        for records in (await consumer.getmany(timeout_ms=5000)).values():
            found += [(each.offset, len(each.value), each.value.rstrip(b"\0")) for each in records]
    return found


@pytest.fixture
def log() -> Iterator[list[bytearray]]:
    yield [batch(0, 3), large_batch(3, 103, WHOLE), batch(103, 106)]


async def test_large_batch_is_read_in_pieces(log: list[bytearray]) -> None:
    async with LogPeer(*log) as peer, open_consumer(peer.bootstrap, "t") as consumer:
        found = await read_all(consumer, 106)
        assert [(offset, text) for offset, _, text in found] == [(n, b"%d" % n) for n in offsets_from(0)]
        assert max(size for _, size, _ in found) == 3 * MIB + 2
        assert await consumer.position(TP) == 106 and consumer.metrics().buffered_bytes == 0


async def test_large_batch_is_read_by_columns_and_from_its_middle(log: list[bytearray]) -> None:
    async with LogPeer(*log) as peer, open_consumer(peer.bootstrap, "t") as consumer:
        for start in (0, 2, 3, 49, 50, 51, 102, 103):
            consumer.seek(TP, start)
            offsets: list[int] = []
            while not offsets or offsets[-1] < 105:
                found = await consumer.getbatch(timeout_ms=5000, max_records=40)
                assert found is not None
                offsets += [*found.offsets]
                assert await consumer.position(TP) == offsets[-1] + 1
            assert offsets == offsets_from(start)


async def test_records_one_by_one_out_of_pieces(log: list[bytearray]) -> None:
    async with LogPeer(*log) as peer, open_consumer(peer.bootstrap, "t") as consumer:
        consumer.seek(TP, 48)
        assert [(await consumer.getone()).offset for _ in range(58)] == offsets_from(48)


async def test_record_above_the_limit_is_named_and_can_be_skipped(log: list[bytearray]) -> None:
    async with LogPeer(*log) as peer, open_consumer(peer.bootstrap, "t", max_record_bytes=MIB) as consumer:
        assert [offset for offset, _, _ in await read_all(consumer, 50)] == [*range(50)]
        for _ in range(2):
            with pytest.raises(LargeRecord, match="t-0 at offset 50 takes") as caught:
                await consumer.getmany(timeout_ms=5000)
            assert (caught.value.partition, caught.value.offset) == (TP, 50)
        with pytest.raises(LargeRecord):
            await consumer.getbatch(timeout_ms=5000)
        consumer.seek(TP, 51)
        assert [offset for offset, _, _ in await read_all(consumer, 55)] == offsets_from(51)
