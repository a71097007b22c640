"""What sends wait for: a topic, room, a broker, the start; and what they are told if it does not come."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.client.cluster import Cluster
from minikafka.client.errors import (
    AuthenticationFailed,
    ClientClosed,
    ClientError,
    ConnectionFailed,
    DeliveryTimeout,
    ProducerFailed,
)
from minikafka.client.producer import Producer
from minikafka.protocol.errors import ErrorCode, UnknownTopicOrPartitionError
from minikafka.protocol.hashing import partition_for_key
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.messages.transactions import InitProducerIdRequest
from tests.broker.eventually import eventually
from tests.client.peer import Peer
from tests.client.producer.test_faults import BUSY, producer_for, values

WAIT_S = 10


def hide_topic(peer: Peer, times: int) -> None:
    """Say of the topic so many times that it is not there yet."""
    asked = iter(range(times))

    def answer(request: MetadataRequest) -> MetadataResponse:
        names = [each.name for each in request.topics or ()]
        is_hidden = "t" in names and next(asked, None) is not None
        return peer.metadata(request, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_hidden else 0)

    peer.answers[MetadataRequest] = answer


async def test_first_records_of_a_topic_that_is_being_created_keep_their_order() -> None:
    async with Peer() as peer, producer_for(peer, retry_backoff_ms=20, max_batch_size=1 << 16) as producer:
        hide_topic(peer, 4)
        sending = [asyncio.ensure_future(producer.send("t", b"%d" % number)) for number in range(8)]
        await eventually(lambda: peer.asked(MetadataRequest)[1:])
        sending[0].cancel()
        await asyncio.wait_for(asyncio.gather(*sending[1:]), WAIT_S)
        await producer.flush()
        assert values(peer.written) == [b"%d" % number for number in range(1, 8)]


async def test_closing_ends_the_wait_for_a_topic() -> None:
    async with Peer() as peer:
        producer = producer_for(peer)
        await producer.start()
        hide_topic(peer, 1 << 30)
        sending = [asyncio.ensure_future(producer.send("t", b"x")) for _ in range(2)]
        await eventually(lambda: peer.asked(MetadataRequest)[1:])
        await producer.stop()
        for outcome in await asyncio.gather(*sending, return_exceptions=True):
            assert isinstance(outcome, ClientClosed)
        assert "find topic t" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_nothing_lingers_while_others_wait_for_room() -> None:
    options = {"max_batch_size": 1 << 16, "buffer_memory": 300, "linger_ms": 60_000}
    async with Peer() as peer, producer_for(peer, **options) as producer:
        sending = (producer.send("t", b"%d" % number * 100) for number in range(8))
        await asyncio.wait_for(asyncio.gather(*sending), WAIT_S)
        assert producer.metrics().buffered_bytes <= 300


async def test_who_waits_for_room_hears_that_the_producer_has_failed() -> None:
    async with Peer() as peer, producer_for(peer, buffer_memory=100) as producer:
        peer.codes = iter([ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
        await producer.send("t", b"x" * 50)
        with pytest.raises(ProducerFailed):
            await asyncio.wait_for(producer.send("t", b"y" * 60), WAIT_S)
        assert producer.metrics().buffered_bytes == 0


# ---------------------------------------------------------------------------------- brokers that cannot be reached


def refuse_connections(monkeypatch: pytest.MonkeyPatch, error: ClientError) -> None:
    async def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(Cluster, "connection", refuse)
    monkeypatch.setattr(Cluster, "connection_nowait", lambda *_: None)


async def test_a_login_that_is_refused_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Peer() as peer, producer_for(peer) as producer:
        await producer.send_and_wait("t", b"x")
        with monkeypatch.context() as patch:
            refuse_connections(patch, AuthenticationFailed("not with this password"))
            for _ in range(2):
                with pytest.raises(AuthenticationFailed, match="not with this password"):
                    await asyncio.wait_for(producer.send_and_wait("t", b"y"), WAIT_S)
        await asyncio.wait_for(producer.send_and_wait("t", b"z"), WAIT_S)
        assert values(peer.written) == [b"x", b"z"]


async def test_a_delivery_that_is_given_up_tells_the_last_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Peer() as peer, producer_for(peer, delivery_timeout_ms=200) as producer:
        with monkeypatch.context() as patch:
            refuse_connections(patch, ConnectionFailed("127.0.0.1:1: Connection refused"))
            with pytest.raises(DeliveryTimeout, match=r"within 200 ms: .*: Connection refused"):
                await producer.send_and_wait("t", b"x")
        await producer.send_and_wait("t", b"y")
        peer.answers[MetadataRequest] = lambda request: peer.metadata(request, leader_id=-1)
        await producer._require_usable().refresh()
        with pytest.raises(DeliveryTimeout, match="the partition has no leader"):
            await producer.send_and_wait("t", b"z")


async def test_a_delivery_that_is_given_up_tells_what_the_leader_said_last() -> None:
    async with Peer() as peer, producer_for(peer, delivery_timeout_ms=200) as producer:
        peer.codes = iter([BUSY] * 1_000)
        with pytest.raises(DeliveryTimeout, match="NOT_ENOUGH_REPLICAS"):
            await producer.send_and_wait("t", b"x")
        peer.answers[ProduceRequest] = lambda _: None
        await producer.stop(flush=False)


# ------------------------------------------------------------------------------------------------- start and stop


def tasks_beside(peer: Peer) -> set[asyncio.Task[Any]]:
    found = {task for task in asyncio.all_tasks() if not task.get_name().startswith("Task-")}
    return found - peer._tasks


async def test_starting_twice_at_once_starts_once() -> None:
    async with Peer() as peer:
        producer = producer_for(peer)
        await asyncio.gather(producer.start(), producer.start())
        assert len(peer.asked(InitProducerIdRequest)) == 1
        await producer.send_and_wait("t", b"x")
        await producer.stop()
        assert tasks_beside(peer) == set()


@pytest.mark.parametrize("request_kind", [MetadataRequest, InitProducerIdRequest])
async def test_stopping_breaks_off_a_start(request_kind: Any) -> None:
    async with Peer() as peer:
        peer.answers[request_kind] = lambda _: None
        producer = producer_for(peer)
        starting = asyncio.ensure_future(producer.start())
        await eventually(lambda: peer.asked(request_kind))
        await producer.stop()
        with pytest.raises(ClientClosed):
            await asyncio.wait_for(starting, WAIT_S)
        assert tasks_beside(peer) == set()


# --------------------------------------------------------------------------------------------- fewer partitions


async def change_partitions(peer: Peer, producer: Producer, count: int) -> None:
    peer.partitions = count
    await producer._require_usable().refresh()


async def test_a_topic_made_anew_with_fewer_partitions() -> None:
    async with Peer(partitions=4) as peer, producer_for(peer) as producer:
        for partition in range(4):
            await producer.send_and_wait("t", b"before", partition=partition)
        await change_partitions(peer, producer, 2)
        assert await producer.partitions_for("t") == {0, 1}
        with pytest.raises(UnknownTopicOrPartitionError, match="has partitions 0 to 1, not 3"):
            await producer.send("t", b"x", partition=3)
        for key in (b"%d" % number for number in range(8)):
            sent = await asyncio.wait_for(producer.send_and_wait("t", b"x", key), WAIT_S)
            assert sent.partition == partition_for_key(key, 2)
        for _ in range(8):
            await asyncio.wait_for(producer.send_and_wait("t", b"x"), WAIT_S)
        # What comes back goes on where it was: the same numbers again would be taken for the same records.
        await change_partitions(peer, producer, 4)
        await producer.send_and_wait("t", b"after", partition=3)
        assert [batch.sequence for batch in peer.written if batch.partition == 3] == [0, 1]
