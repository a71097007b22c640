"""Deliveries as futures, and batches that a program fills itself: what aiokafka's users know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from minikafka.client.errors import RecordTooLarge, SerializationFailed
from minikafka.client.producer import Delivery
from minikafka.client.producer.batch import Batch
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import ErrorCode, InvalidRecordError
from minikafka.protocol.messages.produce import ProduceRequest
from tests.client.peer import Peer
from tests.client.producer.test_faults import producer_for, values

WAIT_S = 10


async def test_delivery_can_be_waited_for_by_asyncio() -> None:
    async with Peer() as peer, producer_for(peer) as producer:
        peer.codes = iter([ErrorCode.NONE, ErrorCode.INVALID_RECORD])
        deliveries = [await producer.send("t", b"%d" % number) for number in range(2)]
        done, pending = await asyncio.wait(deliveries, timeout=WAIT_S)  # type: ignore[type-var]
        assert done == {*deliveries} and not pending
        assert isinstance(deliveries[1].exception(), InvalidRecordError)
        done, pending = await asyncio.wait(deliveries, return_when=asyncio.FIRST_EXCEPTION)  # type: ignore[type-var]
        assert done == {*deliveries}


async def test_wait_that_times_out_leaves_no_callback() -> None:
    async with Peer() as peer, producer_for(peer) as producer:
        peer.answers[ProduceRequest] = lambda _: None
        delivery = await producer.send("t", b"x")
        done, pending = await asyncio.wait([delivery], timeout=0.01)  # type: ignore[type-var]
        assert not done and pending == {delivery}
        assert not delivery._batch.callbacks
        assert not delivery.cancel() and not delivery.cancelled()
        await producer.stop(flush=False)


async def test_removed_callback_is_not_called() -> None:
    async with Peer() as peer, producer_for(peer) as producer:
        calls: list[Delivery] = []
        first, second = [await producer.send("t", value, partition=0) for value in (b"0", b"1")]
        for delivery in (first, first, second):
            delivery.add_done_callback(calls.append)
        assert first.remove_done_callback(calls.append) == 2
        assert first.remove_done_callback(calls.append) == 0
        await asyncio.gather(first, second)
        assert calls == [second]


class Interrupted(list[Any]):
    """Callbacks of a batch, while something else happens just before or after one is added, as in another thread."""

    def __init__(self, happens: Callable[[], object], is_before: bool) -> None:
        super().__init__()
        self.happens = happens
        self.is_before = is_before

    def append(self, entry: Any) -> None:
        happens, self.happens = self.happens, lambda: None
        if self.is_before:
            happens()
        super().append(entry)
        if not self.is_before:
            happens()


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("is_split", [True, False])
async def test_callback_that_is_added_while_the_batch_ends_is_called_once(is_split: bool, is_before: bool) -> None:
    batch = Batch(TopicPartition("t", 0), (1,), 0, 0)
    batch.extend(5, [b"a", b"b"], None, 100)
    batch.callbacks = Interrupted(batch.split if is_split else batch.finish, is_before)
    calls: list[Delivery] = []
    delivery = Delivery(batch, 1)
    delivery.add_done_callback(calls.append)
    if is_split:
        assert not calls
        assert batch.parts is not None
        batch.parts[2].finish()
    assert calls == [delivery]


# -------------------------------------------------------------------------------------------------- create_batch


async def test_batch_that_was_filled_is_sent_whole() -> None:
    async with Peer(partitions=2) as peer, producer_for(peer, max_batch_size=1 << 16, key_serializer="str") as producer:
        batch = producer.create_batch()
        appended = batch.append(key="k", value=b"0", timestamp=7, headers=[("h", b"v")])
        assert appended is not None and (appended.offset, appended.timestamp) == (0, 7)
        assert batch.append(key=None, value=b"1", timestamp=None) is not None
        assert batch.append(value=None) is not None
        assert (batch.record_count(), batch.closed()) == (3, False)
        delivery = await producer.send_batch(batch, "t", partition=1)
        assert batch.closed() and batch.append(value=b"late") is None
        where = await asyncio.wait_for(delivery, WAIT_S)
        assert (where.partition, where.offset, where.timestamp) == (1, 0, 7)
        assert values(peer.written) == [b"0", b"1", None]
        assert producer.metrics().buffered_bytes == 0


async def test_batch_that_is_full_takes_no_more() -> None:
    async with Peer() as peer, producer_for(peer, max_batch_size=1_000, max_request_size=2_000) as producer:
        batch = producer.create_batch()
        while batch.append(value=b"x" * 100) is not None:
            assert batch.size() <= 1_000
        assert batch.closed() and batch.record_count() == 7
        await (await producer.send_batch(batch, "t", partition=0))
        large = producer.create_batch()
        assert large.append(value=b"x" * 3_000) is not None
        with pytest.raises(RecordTooLarge):
            await producer.send_batch(large, "t", partition=0)
        with pytest.raises(ValueError, match="needs a record"):
            await producer.send_batch(producer.create_batch(), "t", partition=0)
        with pytest.raises(SerializationFailed):
            producer.create_batch().append(value=5)
