"""Batches of which nobody knows whether they were written: what is sent after them, and what a transaction does."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from minikafka.client.errors import ConnectionFailed, DeliveryTimeout, SerializationFailed, TransactionFailed
from minikafka.client.producer import Delivery, Producer
from minikafka.client.producer.batch import Batch
from minikafka.client.producer.lane import Outcome
from minikafka.client.producer.queues import PartitionQueue
from minikafka.client.producer.sequences import Identity, is_refusal
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import ErrorCode, InvalidRecordError
from minikafka.protocol.message import Response
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest, InitProducerIdResponse
from tests.broker.eventually import eventually
from tests.client.peer import Peer
from tests.client.producer.test_faults import AHEAD, BUSY, OK, known_to_leader, producer_for, send_all, values
from tests.client.producer.test_interrupted_transactions import Coordinator

WAIT_S = 10

TRANSACTIONAL = {"transactional_id": "id", "request_timeout_ms": 4_000, "max_batch_size": 1 << 16}


def numbers(peer: Peer, value: bytes) -> list[tuple[int, int]]:
    """Epoch and sequence of every attempt to send a batch with one value."""
    return [(batch.epoch, batch.sequence) for batch in peer.written if batch.values == [value]]


async def send_two_without_answers(peer: Peer, producer: Producer) -> list[Delivery]:
    """Two batches in flight whose connection ends before they are answered."""
    await known_to_leader(producer)
    peer.answers[ProduceRequest] = lambda _: None
    deliveries = await send_all(producer, [b"first", b"second"])
    await eventually(lambda: len(peer.asked(ProduceRequest)) == 2)
    peer.answers[ProduceRequest] = peer.produced
    return deliveries


# ------------------------------------------------------------------------------------------------------ numbers


async def test_batch_without_an_answer_is_never_renumbered() -> None:
    """The first one is refused for good, so the second one is out of order: but an attempt of it had no answer."""
    async with Peer() as peer, producer_for(peer) as producer:
        first, second = await send_two_without_answers(peer, producer)
        peer.codes = iter([ErrorCode.INVALID_RECORD, AHEAD, AHEAD, AHEAD, OK])
        peer.hang_up()
        with pytest.raises(InvalidRecordError, match="the outcome is unknown"):
            await first
        third = await producer.send("t", b"third", partition=0)
        await asyncio.wait_for(asyncio.gather(second, third), WAIT_S)
        assert numbers(peer, b"second") == [(0, 1)] * 5
        assert numbers(peer, b"third") == [(1, 0)]


async def test_batch_without_an_answer_fails_at_its_timeout_as_unknown() -> None:
    async with Peer() as peer, producer_for(peer) as producer:
        first, second = await send_two_without_answers(peer, producer)
        peer.codes = iter([ErrorCode.INVALID_RECORD, *[AHEAD] * 1000])
        peer.hang_up()
        with pytest.raises(InvalidRecordError):
            await first
        third = await producer.send("t", b"third", partition=0)
        await eventually(lambda: len(numbers(peer, b"second")) > 3)
        assert not numbers(peer, b"third")
        second._batch.deadline_ms = 0
        peer.answers[ProduceRequest] = lambda request: accept_next_epoch(peer, request)
        with pytest.raises(DeliveryTimeout, match="the outcome is unknown"):
            await asyncio.wait_for(second, WAIT_S)
        await asyncio.wait_for(third, WAIT_S)
        assert {*numbers(peer, b"second")} == {(0, 1)}
        assert numbers(peer, b"third") == [(1, 0)]


def accept_next_epoch(peer: Peer, request: ProduceRequest) -> Response:
    peer.codes = iter([OK if peer.written[-1].epoch == 1 else AHEAD])
    return peer.produced(request)


async def test_batch_past_its_deadline_is_sent_again_for_the_one_behind_it() -> None:
    """The leader takes the second one only after the first one."""
    async with Peer() as peer, producer_for(peer) as producer:
        first, second = await send_two_without_answers(peer, producer)
        first._batch.deadline_ms = 0
        with pytest.raises(DeliveryTimeout, match="the outcome is unknown"):
            await asyncio.wait_for(first, WAIT_S)
        third = await producer.send("t", b"third", partition=0)
        peer.hang_up()
        await asyncio.wait_for(asyncio.gather(second, third), WAIT_S)
        assert values(peer.written) == [b"first", b"second", b"first", b"second", b"third"]
        assert numbers(peer, b"first") == [(0, 0)] * 2
        assert numbers(peer, b"second") == [(0, 1)] * 2
        assert numbers(peer, b"third") == [(1, 0)]
        metrics = producer.metrics()
        assert (metrics.records_delivered, metrics.records_failed, metrics.buffered_bytes) == (2, 1, 0)


async def test_batch_past_its_deadline_is_not_sent_again_if_nothing_depends_on_it() -> None:
    async with Peer() as peer, producer_for(peer) as producer:
        first, second = await send_two_without_answers(peer, producer)
        for delivery in (first, second):
            delivery._batch.deadline_ms = 0
        for delivery in (first, second):
            with pytest.raises(DeliveryTimeout):
                await asyncio.wait_for(delivery, WAIT_S)
        third = await producer.send("t", b"third", partition=0)
        assert len(peer.written) == 2
        peer.hang_up()
        await asyncio.wait_for(third, WAIT_S)
        assert numbers(peer, b"first") == [(0, 0)]
        assert numbers(peer, b"third") == [(1, 0)]


async def test_batches_that_were_refused_are_renumbered_at_once_after_a_timeout() -> None:
    """NOT_ENOUGH_REPLICAS is said before anything is written."""
    async with Peer() as peer, producer_for(peer) as producer:
        await known_to_leader(producer)
        peer.codes = itertools.repeat(BUSY)
        first, second = await send_all(producer, [b"first", b"second"])
        await eventually(lambda: len(peer.written) >= 4)
        first._batch.deadline_ms = 0
        with pytest.raises(DeliveryTimeout):
            await asyncio.wait_for(first, WAIT_S)
        await eventually(lambda: (1, 0) in numbers(peer, b"second"))
        peer.codes = None
        await asyncio.wait_for(second, WAIT_S)
        assert {*numbers(peer, b"second")} == {(0, 1), (1, 0)}


async def test_batch_with_a_number_that_cannot_be_written_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A half of a batch that was too large, which had its number from the whole."""
    build = Batch.build

    def fail_for_half(batch: Batch, *args: Any) -> bytearray:
        if batch.values == [b"half"]:
            raise ValueError("not today")
        return build(batch, *args)

    monkeypatch.setattr(Batch, "build", fail_for_half)
    async with Peer() as peer, producer_for(peer, max_batch_size=1 << 16) as producer:
        peer.codes = iter([ErrorCode.MESSAGE_TOO_LARGE])
        first = await producer.send("t", b"half", partition=0)
        second = await producer.send("t", b"other half", partition=0)
        with pytest.raises(SerializationFailed):
            await asyncio.wait_for(first, WAIT_S)
        await asyncio.wait_for(second, WAIT_S)
        third = await producer.send("t", b"third", partition=0)
        await asyncio.wait_for(third, WAIT_S)
        assert numbers(peer, b"other half") == [(1, 0)]


@pytest.mark.parametrize(
    ("outcome", "is_uncertain"),
    [
        (Outcome(error=ConnectionFailed("broke")), True),
        (Outcome(error=ConnectionFailed("was not open"), was_sent=False), False),
        (Outcome(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), True),
        (Outcome(ErrorCode.NOT_LEADER_OR_FOLLOWER), True),
        (Outcome(ErrorCode.REQUEST_TIMED_OUT), True),
        (Outcome(ErrorCode.KAFKA_STORAGE_ERROR), True),
        (Outcome(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), False),
        (Outcome(ErrorCode.NOT_ENOUGH_REPLICAS), False),
        (Outcome(ErrorCode.MESSAGE_TOO_LARGE), False),
    ],
)
def test_outcome_is_uncertain_unless_it_rules_a_write_out(outcome: Outcome, is_uncertain: bool) -> None:
    assert outcome.is_uncertain is is_uncertain


def test_no_code_of_waiting_for_replicas_is_a_refusal() -> None:
    """DelayedProduce answers with these for what is written already."""
    for code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_SERVER_ERROR):
        assert not is_refusal(code)


def queue_with(*marks: str) -> tuple[PartitionQueue, list[Batch]]:
    """Batches that wait to be sent again: `u`ncertain, `d`one; one without a number is `n`ew."""
    queue = PartitionQueue(TopicPartition("t", 0))
    batches = [queue.new_batch(0, 0) for _ in marks]
    queue.close_open()
    for number, (batch, mark) in enumerate(zip(batches, marks, strict=True)):
        if "n" not in mark:
            batch.identity, batch.sequence = Identity(7, 0), number
        batch.is_uncertain, batch.is_done = "u" in mark, "d" in mark
    return queue, batches


@pytest.mark.parametrize(
    ("marks", "dropped"),
    [
        (["ud", "u"], []),
        (["ud", "ud", "u"], []),
        (["u", "ud"], [1]),
        (["ud", "", "n"], [0]),
        (["d", "u"], []),
        (["ud", "u", "ud", "nd"], [2, 3]),
    ],
)
def test_queue_keeps_what_a_later_batch_depends_on(marks: list[str], dropped: list[int]) -> None:
    queue, batches = queue_with(*marks)
    assert queue.to_drop() == [batches[index] for index in dropped]


def test_queue_stays_in_its_epoch_while_a_batch_is_uncertain() -> None:
    queue, (first, second, _) = queue_with("", "u", "n")
    queue.leaves_epoch = True
    assert not queue.leave_epoch()
    assert queue.is_sendable(0, 1, 5)
    queue.take(1), queue.take(1)
    assert not queue.is_sendable(0, 1, 5)
    queue.in_flight.clear()
    queue.failed = [first]
    queue.requeue_failed()
    assert queue.leave_epoch()
    assert first.sequence == -1 and second.sequence == 1
    assert not queue.leaves_epoch


# ------------------------------------------------------------------------------------------------- transactions


async def test_transaction_with_a_batch_past_its_deadline_cannot_be_committed() -> None:
    async with Coordinator() as peer, producer_for(peer, **TRANSACTIONAL) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"first", partition=0)
        peer.answers[ProduceRequest] = lambda _: None
        lost = await producer.send("t", b"second", partition=0)
        await eventually(lambda: len(peer.asked(ProduceRequest)) == 2)
        lost._batch.deadline_ms = 0
        with pytest.raises(DeliveryTimeout):
            await asyncio.wait_for(lost, WAIT_S)
        with pytest.raises(TransactionFailed, match="not acknowledged within"):
            await asyncio.wait_for(producer.commit_transaction(), WAIT_S)
        assert peer.ends == []
        await asyncio.wait_for(producer.abort_transaction(), WAIT_S)
        assert peer.ends == [False]


async def test_abort_waits_for_a_batch_past_its_deadline_and_takes_another_epoch() -> None:
    async with Coordinator() as peer:
        epochs = itertools.count()
        peer.answers[InitProducerIdRequest] = lambda _: InitProducerIdResponse(
            producer_id=7, producer_epoch=next(epochs)
        )
        async with producer_for(peer, **TRANSACTIONAL) as producer:
            in_flight: list[int] = []
            ended = peer.answers[EndTxnRequest]

            def end(request: EndTxnRequest) -> Response | None:
                in_flight.append(len(producer._accumulator.incomplete))
                return ended(request)

            peer.answers[EndTxnRequest] = end
            peer.answers[ProduceRequest] = lambda _: None
            await producer.begin_transaction()
            lost = await producer.send("t", b"lost", partition=0)
            await eventually(lambda: peer.asked(ProduceRequest))
            lost._batch.deadline_ms = 0
            with pytest.raises(DeliveryTimeout):
                await asyncio.wait_for(lost, WAIT_S)
            await asyncio.wait_for(producer.abort_transaction(), WAIT_S)
            assert in_flight == [0]
            peer.answers[ProduceRequest] = peer.produced
            async with producer.transaction():
                await producer.send("t", b"next", partition=0)
            assert numbers(peer, b"lost") == [(0, 0)]
            assert numbers(peer, b"next") == [(1, 0)]
