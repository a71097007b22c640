"""Calls on one transaction at the same time, and ends of it that are asked for again."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from minikafka.client.errors import IllegalState, RequestTimeout, TransactionFailed
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.message import Response
from minikafka.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.broker.eventually import eventually
from tests.client.producer.test_faults import producer_for, values
from tests.client.producer.test_interrupted_transactions import IMPATIENT, Coordinator, commit_another

WAIT_S = 10
OFFSETS = {TopicPartition("t", 0): 5}


class Fencing(Coordinator):
    """Counts its producer's epochs, fences the ends of an earlier one, and answers a repeated end as Kafka does."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = -1
        self.last_end: tuple[int, bool] | None = None
        self.answers[InitProducerIdRequest] = self.next_epoch
        self.answers[TxnOffsetCommitRequest] = self.take_offsets

    def next_epoch(self, _: InitProducerIdRequest) -> Response:
        self.epoch += 1
        return InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch)

    def take_offsets(self, request: TxnOffsetCommitRequest) -> Response:
        topics = [
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return TxnOffsetCommitResponse(topics=topics)

    def _end(self, request: EndTxnRequest) -> Response:
        if request.producer_epoch != self.epoch:
            return EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
        end = (request.producer_epoch, request.committed)
        if not self.has_heard and end == self.last_end:
            return EndTxnResponse()
        self.last_end = end
        return super()._end(request)

    @property
    def order(self) -> list[str]:
        """Offsets and ends in the order in which they were asked for."""
        kinds = {TxnOffsetCommitRequest: "offsets", EndTxnRequest: "end"}
        return [kinds[type(request)] for request in self.requests if type(request) in kinds]


async def test_abort_whose_new_epoch_was_not_answered_can_be_repeated() -> None:
    async with Fencing() as peer, producer_for(peer, **IMPATIENT) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"first")
        peer.codes = iter([ErrorCode.INVALID_RECORD])
        await producer.send("t", b"refused")
        with pytest.raises(TransactionFailed):
            await producer.commit_transaction()

        def lose_answer(_: InitProducerIdRequest) -> None:
            peer.epoch = 1

        peer.answers[InitProducerIdRequest] = lose_answer
        with pytest.raises(RequestTimeout):
            await producer.abort_transaction()
        assert peer.ends == [False]
        peer.answers[InitProducerIdRequest] = lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=1)
        await asyncio.wait_for(producer.abort_transaction(), WAIT_S)
        assert peer.ends == [False]
        await commit_another(producer, b"second")
        assert peer.written[-1].epoch == 1


async def test_two_aborts_at_once_end_one_transaction() -> None:
    async with Fencing() as peer, producer_for(peer, **IMPATIENT) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"first")
        await asyncio.gather(producer.abort_transaction(), producer.abort_transaction())
        assert peer.ends == [False]
        await commit_another(producer, b"second")
        assert peer.ends == [False, True]


async def test_two_commits_at_once_end_one_transaction() -> None:
    async with Fencing() as peer, producer_for(peer, **IMPATIENT) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"first")
        await asyncio.gather(producer.commit_transaction(), producer.commit_transaction())
        assert peer.ends == [True]
        await commit_another(producer, b"second")
        assert values(peer.written) == [b"first", b"second"]


async def test_abort_during_the_answer_to_a_commit_is_refused() -> None:
    async with Fencing() as peer, producer_for(peer, **IMPATIENT) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"first")
        peer.answers[EndTxnRequest] = lambda _: None
        committing = asyncio.ensure_future(producer.commit_transaction())
        await eventually(lambda: peer.ends)
        with pytest.raises(IllegalState, match="is being committed"):
            await producer.abort_transaction()
        peer.answers[EndTxnRequest] = peer._end
        await asyncio.wait_for(committing, WAIT_S)
        assert {*peer.ends} == {True}


async def test_commit_waits_for_offsets_that_are_being_sent() -> None:
    async with Fencing() as peer, producer_for(peer, **IMPATIENT) as producer:
        await producer.begin_transaction()
        peer.answers[TxnOffsetCommitRequest] = lambda _: None
        sending = asyncio.ensure_future(producer.send_offsets_to_transaction(OFFSETS, "group"))
        await eventually(lambda: peer.asked(TxnOffsetCommitRequest))
        committing = asyncio.ensure_future(producer.commit_transaction())
        await eventually(lambda: len(peer.asked(TxnOffsetCommitRequest)) == 2)
        peer.answers[TxnOffsetCommitRequest] = peer.take_offsets
        await asyncio.wait_for(asyncio.gather(sending, committing), WAIT_S)
        assert peer.order == ["offsets", "offsets", "offsets", "end"]


async def test_abort_stops_offsets_that_are_being_sent() -> None:
    options = {**IMPATIENT, "max_block_ms": 60_000}
    async with Fencing() as peer, producer_for(peer, **options) as producer:
        await producer.begin_transaction()
        peer.answers[AddOffsetsToTxnRequest] = lambda _: None
        sending = asyncio.ensure_future(producer.send_offsets_to_transaction(OFFSETS, "group"))
        await eventually(lambda: peer.asked(AddOffsetsToTxnRequest))
        await asyncio.wait_for(producer.abort_transaction(), WAIT_S)
        with pytest.raises(TransactionFailed, match="before its offsets were written"):
            await sending
        assert not peer.asked(TxnOffsetCommitRequest)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_transaction_cannot_be_committed_if_its_offsets_may_be_written_later(is_cancelled: bool) -> None:
    async with Fencing() as peer, producer_for(peer, **IMPATIENT) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"first")
        peer.answers[TxnOffsetCommitRequest] = lambda _: None
        sending = asyncio.ensure_future(producer.send_offsets_to_transaction(OFFSETS, "group"))
        await eventually(lambda: peer.asked(TxnOffsetCommitRequest))
        if is_cancelled:
            sending.cancel()
        with pytest.raises(asyncio.CancelledError if is_cancelled else RequestTimeout):
            await sending
        with pytest.raises(TransactionFailed, match="offsets"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        assert {*peer.ends} == {False}
        await commit_another(producer, b"second")
        assert [batch.epoch for batch in peer.written] == [0, 1]


async def test_any_two_calls_on_a_transaction_at_once_leave_a_producer_that_works() -> None:
    """Each pair, begun a few steps of the loop apart: an error is one that the documents name."""
    async with Fencing() as peer, producer_for(peer, **{**IMPATIENT, "max_block_ms": 5_000}) as producer:
        calls = {
            "commit": producer.commit_transaction,
            "abort": producer.abort_transaction,
            "offsets": lambda: producer.send_offsets_to_transaction(OFFSETS, "group"),
            "send": lambda: producer.send("t", b"x"),
            "flush": producer.flush,
            "begin": producer.begin_transaction,
        }
        for (first, second), steps in itertools.product(itertools.product(calls, repeat=2), (0, 1, 3, 8, 20)):
            await producer.begin_transaction()
            await producer.send("t", b"in it")
            tasks = [asyncio.ensure_future(calls[first]())]
            for _ in range(steps):
                await asyncio.sleep(0)
            tasks.append(asyncio.ensure_future(calls[second]()))
            async with asyncio.timeout(WAIT_S):
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            wrong = [
                outcome
                for outcome in outcomes
                if isinstance(outcome, BaseException) and not isinstance(outcome, IllegalState | TransactionFailed)
            ]
            assert not wrong, (first, second, steps, outcomes)
            transactions = producer._require_transactions()
            if transactions.may_abort:
                await asyncio.wait_for(producer.abort_transaction(), WAIT_S)
        await commit_another(producer, b"last")
        assert producer.metrics().buffered_bytes == 0
