"""What brokers answer when something is wrong, and what the producer makes of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import pytest

from minikafka.client.errors import ClientClosed, DeliveryTimeout, IllegalState, ProducerFailed
from minikafka.client.producer import Delivery, Producer
from minikafka.client.producer.sequences import EPOCH_MAX
from minikafka.protocol.errors import (
    ClusterAuthorizationFailedError,
    ErrorCode,
    InvalidRecordError,
    MessageTooLargeError,
    TopicAuthorizationFailedError,
)
from minikafka.protocol.message import Response
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.eventually import eventually
from tests.client.peer import HangUp, Peer, Written

OK = ErrorCode.NONE
AHEAD = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
BUSY = ErrorCode.NOT_ENOUGH_REPLICAS

# Every value is a batch of its own.
SMALL = {"max_batch_size": 70, "retry_backoff_ms": 1, "compression_type": "none"}


def producer_for(peer: Peer, **options: object) -> Producer:
    return Producer(**{"bootstrap_servers": peer.bootstrap, **SMALL, **options})  # type: ignore[arg-type]


async def send_all(producer: Producer, values: Iterable[bytes]) -> list[Delivery]:
    return [await producer.send("t", value, partition=0) for value in values]


async def known_to_leader(producer: Producer) -> None:
    """As if a batch had been delivered: several may be in flight."""
    (await producer._find_topic("t")).queue_at(0).known_id = 7


def values(written: Iterable[Written]) -> list[bytes | None]:
    return [value for batch in written for value in batch.values]


async def test_what_was_in_flight_comes_again_in_its_order() -> None:
    async with Peer() as peer, producer_for(peer) as producer:
        await known_to_leader(producer)
        peer.codes = iter([BUSY, AHEAD, AHEAD, AHEAD, AHEAD])
        for delivery in await send_all(producer, [b"%d" % number for number in range(8)]):
            await delivery
        assert values(peer.written) == [b"0", b"1", b"2", b"3", b"4", *(b"%d" % number for number in range(8))]
        assert peer.written[:5] == peer.written[5:10]
        assert [batch.sequence for batch in peer.written[5:]] == [*range(8)]
        assert producer.metrics().batches_retried == 5


async def test_first_batch_of_a_producer_is_alone_in_flight() -> None:
    """A leader that does not know the producer yet would take the second one after it has refused the first one."""
    async with Peer() as peer, producer_for(peer) as producer:
        peer.codes = iter([ErrorCode.NOT_LEADER_OR_FOLLOWER])
        for delivery in await send_all(producer, [b"0", b"1", b"2"]):
            await delivery
        assert values(peer.written) == [b"0", b"0", b"1", b"2"]


async def test_nothing_overtakes_while_answers_are_due() -> None:
    """The first one failed, and the second one's answer is held back: until it comes, nothing else is sent."""
    async with Peer() as peer, producer_for(peer, max_in_flight_requests_per_connection=2) as producer:
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        peer.codes = iter([BUSY])
        served = peer.answers[ProduceRequest]

        def second_is_lost(request: ProduceRequest) -> Response | None:
            if len(peer.asked(ProduceRequest)) == 2:
                held.set_result(None)
                return None
            return served(request)

        await known_to_leader(producer)
        peer.answers[ProduceRequest] = second_is_lost
        await send_all(producer, [b"0", b"1", b"2", b"3"])
        await held
        await asyncio.sleep(0.1)
        assert values(peer.written) == [b"0", b"1"]
        await producer.stop(flush=False)


async def test_a_lost_connection_is_made_again_and_the_same_bytes_are_sent() -> None:
    async with Peer() as peer, producer_for(peer) as producer:
        served = peer.answers[ProduceRequest]

        def hang_up_first(request: ProduceRequest) -> Response | None:
            if len(peer.asked(ProduceRequest)) == 1:
                raise HangUp
            return served(request)

        peer.answers[ProduceRequest] = hang_up_first
        await asyncio.gather(*(await send_all(producer, [b"0", b"1"])))
        assert values(peer.written)[-2:] == [b"0", b"1"]
        assert {(batch.epoch, batch.sequence) for batch in peer.written} == {(0, 0), (0, 1)}


async def test_a_batch_that_is_too_large_is_halved() -> None:
    async with Peer() as peer, producer_for(peer, max_batch_size=1 << 16) as producer:
        peer.codes = iter([ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE, AHEAD])
        told: list[bool] = []
        sent = await producer.send_batch("t", [b"%d" % number for number in range(8)], partition=0)
        last = await producer.send("t", b"8", partition=0, headers=[("h", b"")], timestamp_ms=5)
        last.add_done_callback(lambda delivery: told.append(delivery.done()))
        await last
        assert [each.records for each in await sent] == [2, 2, 4]
        assert told == [True]
        assert last.result().timestamp == 5
        taken = peer.written[3:]
        assert values(taken) == [b"%d" % number for number in range(9)]
        assert [batch.sequence for batch in taken] == [0, 2, 4]
        assert producer.metrics().buffered_bytes == 0


async def test_a_record_that_is_too_large_for_the_topic_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with Peer() as peer, producer_for(peer) as producer:
        peer.codes = iter([ErrorCode.MESSAGE_TOO_LARGE])
        first, second = await send_all(producer, [b"0", b"1"])
        with pytest.raises(MessageTooLargeError):
            await first
        await second
    assert "1 records were not delivered" in caplog.text


async def test_after_a_gap_batches_are_numbered_anew_in_a_new_epoch() -> None:
    """The first is given up; the leader says of the second that it is out of order, so nothing after it was written."""
    async with Peer() as peer, producer_for(peer) as producer:
        peer.codes = iter([OK, ErrorCode.INVALID_RECORD, AHEAD, AHEAD])
        first, lost, *others = await send_all(producer, [b"%d" % number for number in range(4)])
        await first
        with pytest.raises(InvalidRecordError):
            await lost
        await asyncio.gather(*others)
        assert [(batch.epoch, batch.sequence) for batch in peer.written] == [
            (0, 0),
            (0, 1),
            (0, 2),
            (0, 3),
            (1, 0),
            (1, 1),
        ]
        assert values(peer.written[4:]) == [b"2", b"3"]
        assert producer.metrics().epoch_bumps == 1


async def test_other_partitions_follow_into_the_new_epoch() -> None:
    async with Peer(partitions=2) as peer, producer_for(peer) as producer:
        await producer.send_and_wait("t", b"a", partition=1)
        peer.codes = iter([AHEAD])
        await producer.send_and_wait("t", b"b", partition=0)
        await producer.send_and_wait("t", b"c", partition=1)
        rows = [(batch.partition, batch.epoch, batch.sequence) for batch in peer.written]
        assert rows == [(1, 0, 0), (0, 0, 0), (0, 1, 0), (1, 1, 0)]


async def test_the_last_epoch_is_followed_by_another_producer_id() -> None:
    async with Peer() as peer:
        ids = iter([(7, EPOCH_MAX), (8, 0)])

        def hand_out(_: InitProducerIdRequest) -> InitProducerIdResponse:
            producer_id, epoch = next(ids)
            return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)

        peer.answers[InitProducerIdRequest] = hand_out
        async with producer_for(peer) as producer:
            peer.codes = iter([ErrorCode.UNKNOWN_PRODUCER_ID])
            await producer.send_and_wait("t", b"x")
        assert [(batch.producer_id, batch.epoch) for batch in peer.written] == [(7, EPOCH_MAX), (8, 0)]


async def test_without_idempotence_one_request_of_a_partition_is_in_flight() -> None:
    async with Peer() as peer, producer_for(peer, enable_idempotence=False) as producer:
        peer.codes = iter([BUSY, BUSY])
        await asyncio.gather(*(await send_all(producer, [b"0", b"1", b"2"])))
        assert values(peer.written) == [b"0", b"0", b"0", b"1", b"2"]
        assert {batch.producer_id for batch in peer.written} == {-1}


async def test_a_broker_that_never_answers_is_given_up_in_time() -> None:
    options = {"delivery_timeout_ms": 200, "request_timeout_ms": 400}
    async with Peer() as peer, producer_for(peer, **options) as producer:
        peer.answers[ProduceRequest] = lambda _: None
        deliveries = await send_all(producer, [b"%d" % number for number in range(8)])
        for delivery in deliveries:
            with pytest.raises(DeliveryTimeout, match="t-0: not acknowledged within 200 ms"):
                await asyncio.wait_for(delivery, 5)
        # What was in flight keeps its place until its connection has been given up too.
        await eventually(lambda: producer.metrics().buffered_bytes == 0)
        peer.answers[ProduceRequest] = peer.produced
        assert (await producer.send_and_wait("t", b"later")).offset == 0


async def test_a_partition_without_a_leader_is_waited_for_and_given_up_in_time() -> None:
    async with Peer() as peer, producer_for(peer, delivery_timeout_ms=300) as producer:
        peer.answers[MetadataRequest] = lambda request: peer.metadata(request, leader_id=-1)
        delivery = await producer.send("t", b"x")
        with pytest.raises(DeliveryTimeout):
            await delivery
        delivery = await producer.send("t", b"y")
        peer.leader_epoch += 1
        peer.answers[MetadataRequest] = peer.metadata
        await delivery


async def test_a_leader_that_moved_is_asked_for() -> None:
    async with Peer() as peer, producer_for(peer) as producer:
        peer.codes = iter([ErrorCode.NOT_LEADER_OR_FOLLOWER])
        await producer.send_and_wait("t", b"x")
        asked = len(peer.asked(MetadataRequest))
        assert asked >= 3  # to start, for the topic, and because of the error
        assert values(peer.written) == [b"x", b"x"]


async def test_what_will_not_change_fails_at_once() -> None:
    async with Peer() as peer, producer_for(peer) as producer:
        peer.codes = iter([ErrorCode.TOPIC_AUTHORIZATION_FAILED])
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("t", b"x")
        await producer.send_and_wait("t", b"y")


async def test_an_ignored_failure_makes_no_noise_but_a_line(caplog: pytest.LogCaptureFixture) -> None:
    async with Peer() as peer, producer_for(peer) as producer:
        peer.codes = iter([ErrorCode.INVALID_RECORD])
        await producer.send("t", b"x")
        await producer.flush()
        assert producer.metrics().records_failed == 1
    assert [record.levelno for record in caplog.records if record.name.startswith("minikafka")] == [logging.WARNING]


async def test_a_fenced_producer_is_of_no_more_use() -> None:
    async with Peer() as peer, producer_for(peer, linger_ms=60_000) as producer:
        peer.codes = iter([ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
        full, lingering = await send_all(producer, [b"0", b"1"])
        with pytest.raises(ClusterAuthorizationFailedError):
            await full
        with pytest.raises(ProducerFailed):
            await lingering
        for call in (producer.send("t", b"y"), producer.flush(), producer.send_batch("t", [b"z"])):
            with pytest.raises(ProducerFailed) as failure:
                await call
            assert failure.value.fatal


async def _wait(delivery: Delivery) -> None:
    try:
        await delivery
    except Exception:
        return


async def test_who_gives_up_waiting_does_not_take_the_record_back() -> None:
    async with Peer() as peer, producer_for(peer, linger_ms=50) as producer:
        delivery = await producer.send("t", b"x")
        with pytest.raises(IllegalState):
            delivery.result()
        other = asyncio.ensure_future(_wait(delivery))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(delivery, 0.001)
        await other
        assert (await delivery).offset == 0


async def test_closing_without_flushing_tells_everybody() -> None:
    async with Peer() as peer:
        peer.answers[ProduceRequest] = lambda _: None
        producer = producer_for(peer, buffer_memory=200)
        await producer.start()
        delivery = await producer.send("t", b"x" * 50, partition=0)
        waiting = asyncio.ensure_future(send_all(producer, [b"y" * 50] * 10))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await producer.stop(flush=False)
        with pytest.raises(ClientClosed):
            await delivery
        with pytest.raises(ClientClosed):
            await waiting
        with pytest.raises(ClientClosed):
            await producer.send("t", b"z")
        await producer.stop()


async def test_memory_is_a_limit_that_makes_send_wait() -> None:
    async with Peer() as peer, producer_for(peer, buffer_memory=500) as producer:
        most = 0
        for number in range(200):
            await producer.send("t", b"%d" % number)
            most = max(most, producer.metrics().buffered_bytes)
        await producer.flush()
        assert most <= 500
        assert values(peer.written) == [b"%d" % number for number in range(200)]


async def test_whoever_is_cancelled_in_line_leaves_no_trace() -> None:
    async with Peer() as peer, producer_for(peer, buffer_memory=100) as producer:
        answered = peer.answers[ProduceRequest]
        peer.answers[ProduceRequest] = lambda _: None
        await producer.send("t", b"x" * 50)
        waiting = [asyncio.ensure_future(producer.send("t", b"%d" % number + b"y" * 60)) for number in range(5)]
        await asyncio.sleep(0.02)
        for task in waiting[:3]:
            task.cancel()
        peer.answers[ProduceRequest] = answered
        await asyncio.sleep(0)
        # The first one's connection must be lost for it to be sent again.
        for connection in producer._cluster._connections:  # type: ignore[union-attr]
            connection._transport.abort()  # type: ignore[union-attr]
        await asyncio.gather(*waiting[3:])
        await producer.flush()
        assert producer.metrics().buffered_bytes == 0
        assert [value[:1] for value in values(peer.written)[-2:] if value] == [b"3", b"4"]
