"""Transactions that are cut short: refused partitions, lost answers, cancelled commits, aborts while others send."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.client.errors import ClientClosed, IllegalState, RequestTimeout, TransactionFailed
from minikafka.client.producer import Producer, transaction_calls
from minikafka.client.producer.transactions import Transactions
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import ErrorCode, TopicAuthorizationFailedError
from minikafka.protocol.message import Response
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    EndTxnRequest,
    EndTxnResponse,
)
from tests.broker.eventually import eventually
from tests.client.peer import Peer
from tests.client.producer.test_faults import producer_for, values

WAIT_S = 10

# A lost answer is noticed soon.
IMPATIENT = {"transactional_id": "id", "request_timeout_ms": 200, "max_block_ms": 500, "max_batch_size": 1 << 16}


def added(request: AddPartitionsToTxnRequest, error_code: int = 0) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error_code)
                for index in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


class Coordinator(Peer):
    """A broker that is the coordinator of transactions too, and refuses to end what it has not heard of."""

    def __init__(self) -> None:
        super().__init__()
        self.has_heard = False
        self.answers[AddPartitionsToTxnRequest] = self._add
        self.answers[AddOffsetsToTxnRequest] = self._add_offsets
        self.answers[EndTxnRequest] = self._end

    def _add(self, request: AddPartitionsToTxnRequest) -> Response:
        self.has_heard = True
        return added(request)

    def _add_offsets(self, _: AddOffsetsToTxnRequest) -> Response:
        self.has_heard = True
        return AddOffsetsToTxnResponse()

    def _end(self, _: EndTxnRequest) -> Response:
        heard, self.has_heard = self.has_heard, False
        return EndTxnResponse(error_code=ErrorCode.NONE if heard else ErrorCode.INVALID_TXN_STATE)

    def hear_and_not_answer(self, _: object) -> None:
        self.has_heard = True

    @property
    def ends(self) -> list[bool]:
        """Whether each end that was asked for was a commit."""
        return [request.committed for request in self.asked(EndTxnRequest)]


async def commit_another(producer: Producer, value: bytes) -> None:
    async with asyncio.timeout(WAIT_S), producer.transaction():
        await producer.send("t", value)


# ------------------------------------------------------------------------------------- records that come too late


async def test_who_waits_for_room_during_an_abort_does_not_get_into_the_next_transaction() -> None:
    async with Coordinator() as peer, producer_for(peer, **IMPATIENT, buffer_memory=100) as producer:
        peer.answers[AddPartitionsToTxnRequest] = lambda _: None
        await producer.begin_transaction()
        await producer.send("t", b"first" * 10)
        waiting = [asyncio.ensure_future(producer.send("t", b"waiting" * 9)) for _ in range(3)]
        await eventually(lambda: len(producer._accumulator._line) == 3)
        peer.answers[AddPartitionsToTxnRequest] = peer._add
        await producer.abort_transaction()
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(outcome, TransactionFailed)
        await commit_another(producer, b"second")
        assert values(peer.written) == [b"second"]
        assert producer.metrics().buffered_bytes == 0


async def test_who_waits_for_room_during_a_commit_is_not_left_over_for_the_next() -> None:
    async with Coordinator() as peer, producer_for(peer, **IMPATIENT, buffer_memory=100) as producer:
        peer.answers[AddPartitionsToTxnRequest] = lambda _: None
        await producer.begin_transaction()
        await producer.send("t", b"first" * 10)
        waiting = asyncio.ensure_future(producer.send("t", b"waiting" * 9))
        await eventually(lambda: producer._accumulator._line)
        peer.answers[AddPartitionsToTxnRequest] = peer._add
        await asyncio.wait_for(producer.commit_transaction(), WAIT_S)
        with pytest.raises(TransactionFailed, match="it was not sent"):
            await waiting
        await commit_another(producer, b"second")
        assert values(peer.written) == [b"first" * 10, b"second"]


async def test_who_waits_for_a_topic_during_an_abort_does_not_get_into_the_next_transaction() -> None:
    async with Coordinator() as peer, producer_for(peer, **IMPATIENT) as producer:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        peer.answers[MetadataRequest] = lambda request: peer.metadata(request, error_code=code)
        await producer.begin_transaction()
        waiting = asyncio.ensure_future(producer.send("t", b"waiting"))
        await eventually(lambda: any(request.topics for request in peer.asked(MetadataRequest)))
        await producer.abort_transaction()
        await producer.begin_transaction()
        peer.answers[MetadataRequest] = peer.metadata
        with pytest.raises(TransactionFailed, match="it was not sent"):
            await waiting
        await producer.send("t", b"second")
        await producer.commit_transaction()
        assert values(peer.written) == [b"second"]


# ---------------------------------------------------------------------------- coordinators that refuse, or are lost


async def test_a_partition_that_is_denied_fails_the_transaction_at_once() -> None:
    async with Coordinator() as peer, producer_for(peer, **IMPATIENT) as producer:
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        peer.answers[AddPartitionsToTxnRequest] = lambda request: added(request, denied)
        await producer.begin_transaction()
        delivery = await producer.send("t", b"x")
        with pytest.raises(TransactionFailed, match="TOPIC_AUTHORIZATION_FAILED"):
            await asyncio.wait_for(producer.commit_transaction(), WAIT_S)
        with pytest.raises(TopicAuthorizationFailedError):
            await delivery
        await producer.abort_transaction()
        peer.answers[AddPartitionsToTxnRequest] = peer._add
        await commit_another(producer, b"second")
        assert values(peer.written) == [b"second"]


async def test_partitions_that_the_coordinator_may_have_heard_of_are_ended() -> None:
    async with Coordinator() as peer, producer_for(peer, **IMPATIENT) as producer:
        peer.answers[AddPartitionsToTxnRequest] = peer.hear_and_not_answer
        await producer.begin_transaction()
        await producer.send("t", b"x")
        with pytest.raises(TransactionFailed):
            await asyncio.wait_for(producer.commit_transaction(), WAIT_S)
        await producer.abort_transaction()
        assert set(peer.ends) == {False}
        peer.answers[AddPartitionsToTxnRequest] = peer._add
        await commit_another(producer, b"second")
        assert peer.ends[-1]


async def test_offsets_that_the_coordinator_may_have_heard_of_are_ended() -> None:
    async with Coordinator() as peer, producer_for(peer, **IMPATIENT) as producer:
        peer.answers[AddOffsetsToTxnRequest] = peer.hear_and_not_answer
        await producer.begin_transaction()
        with pytest.raises(RequestTimeout):
            await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "group")
        with pytest.raises(TransactionFailed, match="nobody knows"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        assert set(peer.ends) == {False}
        await commit_another(producer, b"second")


async def test_a_mistake_in_adding_partitions_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(Transactions, "_ask_to_add", fail)
    async with Coordinator() as peer, producer_for(peer, **IMPATIENT) as producer:
        await producer.begin_transaction()
        delivery = await producer.send("t", b"x")
        with pytest.raises(Exception, match="a mistake"):
            await asyncio.wait_for(delivery, WAIT_S)


# ----------------------------------------------------------------------------------------------- broken-off ends


async def test_a_commit_that_is_cancelled_while_it_flushes_can_be_aborted() -> None:
    async with Coordinator() as peer, producer_for(peer, **IMPATIENT) as producer:
        peer.answers[ProduceRequest] = lambda _: None
        with pytest.raises(asyncio.CancelledError):
            async with producer.transaction():
                await producer.send("t", b"lost")
                committing = asyncio.ensure_future(producer.commit_transaction())
                await eventually(lambda: peer.asked(ProduceRequest))
                committing.cancel()
                await committing
        assert peer.ends == [False]
        peer.answers[ProduceRequest] = peer.produced
        await commit_another(producer, b"second")
        assert peer.ends == [False, True]


async def test_a_commit_that_is_cancelled_while_it_flushes_can_be_tried_again() -> None:
    async with Coordinator() as peer, producer_for(peer, **IMPATIENT) as producer:
        await producer.begin_transaction()
        delivery = await producer.send("t", b"x")
        committing = asyncio.ensure_future(producer.commit_transaction())
        await asyncio.sleep(0)
        assert not delivery.done()
        committing.cancel()
        with pytest.raises(IllegalState, match="waits for its last records"):
            await producer.send("t", b"y")
        await asyncio.wait_for(producer.commit_transaction(), WAIT_S)
        assert peer.ends == [True]
        assert values(peer.written) == [b"x"]


async def test_an_abort_beside_a_commit_that_flushes_wins() -> None:
    async with Coordinator() as peer, producer_for(peer, **IMPATIENT) as producer:
        peer.answers[ProduceRequest] = lambda _: None
        await producer.begin_transaction()
        await producer.send("t", b"x")
        committing = asyncio.ensure_future(producer.commit_transaction())
        await eventually(lambda: peer.asked(ProduceRequest))
        await producer.abort_transaction()
        await producer.begin_transaction()
        with pytest.raises(TransactionFailed, match="aborted while its commit waited"):
            await committing
        assert peer.ends == [False]


# -------------------------------------------------------------------------------------------------------- closing


@pytest.mark.parametrize("leaving", [None, ZeroDivisionError, asyncio.CancelledError])
async def test_closing_aborts_what_is_open(leaving: type[BaseException] | None) -> None:
    async with Coordinator() as peer:
        try:
            async with producer_for(peer, **IMPATIENT) as producer:
                await producer.begin_transaction()
                await producer.send_and_wait("t", b"x")
                if leaving is not None:
                    raise leaving
        except BaseException as error:
            assert type(error) is leaving
        assert peer.ends == [False]


async def test_closing_at_once_leaves_it_to_somebody_else() -> None:
    async with Coordinator() as peer:
        producer = producer_for(peer, **IMPATIENT)
        assert producer.identity is None
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"x")
        assert producer.identity == (7, 0)
        await producer.stop(flush=False)
        assert peer.ends == []


@pytest.mark.parametrize("has_records", [False, True])
async def test_closing_does_not_wait_long_for_a_cluster_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, has_records: bool
) -> None:
    monkeypatch.setattr(transaction_calls, "_LAST_ABORT_S", 0.1)
    async with Coordinator() as peer:
        options = {**IMPATIENT, "request_timeout_ms": 60_000, "max_block_ms": 60_000}
        async with asyncio.timeout(WAIT_S):
            async with producer_for(peer, **options) as producer:
                await producer.begin_transaction()
                await producer.send_and_wait("t", b"x")
                peer.answers[EndTxnRequest] = peer.answers[ProduceRequest] = lambda _: None
                if has_records:
                    await producer.send("t", b"y")
                    await eventually(lambda: len(peer.asked(ProduceRequest)) == 2)
        assert "a transaction stays open" in caplog.text
        with pytest.raises(ClientClosed):
            await producer.begin_transaction()
