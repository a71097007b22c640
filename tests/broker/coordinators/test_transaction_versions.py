"""Transaction version 2 through the handlers (KIP-890): leaders add partitions, ends bring epochs, late comers fail."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from minikafka.broker.coordinators.transactions.states import State
from minikafka.broker.coordinators.transactions.transaction import VERSION_2, Identity
from minikafka.broker.coordinators.transactions.writing import Marker
from minikafka.broker.internal_topics import GROUP_OFFSETS
from minikafka.protocol.errors import ErrorCode, ProducerFencedError
from minikafka.protocol.messages.transactions import (
    EndTxnRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.coordinators.txn_bench import TxnBench, txn_bench

OK = ErrorCode.NONE
PRODUCE, COMMIT_OFFSETS, END = 12, 5, 5
"""The first versions of the requests that are of transaction version 2."""


@pytest.fixture
async def bench() -> AsyncIterator[TxnBench]:
    async with txn_bench() as made:
        await made.lead()
        yield made


async def end(bench: TxnBench, who: Identity, *, is_committed: bool = True) -> tuple[ErrorCode, Identity]:
    request = EndTxnRequest(
        transactional_id="x", producer_id=who.producer_id, producer_epoch=who.epoch, committed=is_committed
    )
    answer = await bench.station.ask(request, END)
    return ErrorCode(answer.error_code), Identity(answer.producer_id, answer.producer_epoch)


async def run_one(bench: TxnBench, who: Identity) -> Identity:
    """A whole transaction; who the producer is after it."""
    assert await bench.produce(who, version=PRODUCE) == OK
    code, after = await end(bench, who)
    assert code == OK
    await bench.wait_state(State.COMPLETE_COMMIT)
    return after


async def test_produce_12_adds_its_partition_and_end_5_brings_an_epoch(bench: TxnBench) -> None:
    who = await bench.begin()
    assert await bench.produce(who, version=PRODUCE) == OK
    assert bench.transactions.describe("x").partitions == {("t", 0)}
    assert await end(bench, who) == (OK, Identity(who.producer_id, who.epoch + 1))
    await bench.wait_state(State.COMPLETE_COMMIT)
    assert bench.is_stable
    assert await end(bench, who) == (OK, Identity(who.producer_id, who.epoch + 1))
    assert await end(bench, who, is_committed=False) == (ErrorCode.INVALID_TXN_STATE, Identity(-1, -1))


async def test_produce_11_adds_nothing(bench: TxnBench) -> None:
    assert await bench.produce(await bench.begin(), version=PRODUCE - 1) == ErrorCode.TRANSACTION_ABORTABLE


async def test_txn_offset_commit_5_adds_the_partition_of_its_group(bench: TxnBench) -> None:
    who = await bench.begin()
    assert await bench.commit_offset(who, 7, version=COMMIT_OFFSETS) == OK
    assert bench.transactions.describe("x").partitions == {(GROUP_OFFSETS, 0)}
    code, after = await end(bench, who)
    assert code == OK
    await bench.wait_state(State.COMPLETE_COMMIT)
    assert await bench.committed_offset() == 7
    assert await bench.commit_offset(who, 9, version=COMMIT_OFFSETS) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await bench.commit_offset(after, 9, version=COMMIT_OFFSETS) == OK


async def test_batch_of_an_ended_transaction_is_refused_in_every_partition(bench: TxnBench) -> None:
    """Also where the transaction wrote nothing, and so its marker did not come."""
    await bench.lead("u")
    who = await bench.begin()
    after = await run_one(bench, who)
    late = {topic: bench.batch(who, 1) for topic in ("t", "u")}
    assert await bench.produce_all(late, PRODUCE) == [ErrorCode.INVALID_PRODUCER_EPOCH] * 2
    assert bench.state is State.COMPLETE_COMMIT
    assert await bench.produce(after, version=PRODUCE) == OK
    assert await bench.produce_all(late, PRODUCE) == [ErrorCode.INVALID_PRODUCER_EPOCH] * 2


async def test_marker_of_version_2_ends_only_an_earlier_epoch(bench: TxnBench) -> None:
    """Sent again while nothing is open it is written again: the first may not be replicated yet."""
    after = await run_one(bench, await bench.begin())
    epoch = bench.transactions.shards.of("x").coordinator_epoch
    marker = Marker(after.producer_id, after.epoch, True, epoch, (("t", 0),), VERSION_2)
    assert await bench.all.writer.write(marker) == {("t", 0): OK}
    assert await bench.produce(after, version=PRODUCE) == OK
    assert await bench.all.writer.write(marker) == {("t", 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    assert not bench.is_stable
    # Of an earlier version it would be the end of what is open.
    assert await bench.all.writer.write(marker._replace(version=0)) == {("t", 0): OK}
    assert bench.is_stable


async def test_late_end_does_not_end_the_next_transaction_after_a_reload(bench: TxnBench) -> None:
    who = await bench.begin()
    after = await run_one(bench, who)
    assert await bench.produce(after, version=PRODUCE) == OK
    await bench.lead()
    assert (await end(bench, who))[0] == ErrorCode.PRODUCER_FENCED
    assert bench.state is State.ONGOING
    assert (await end(bench, after))[0] == OK


@pytest.mark.parametrize("is_committed", [True, False])
async def test_marker_of_a_stranger_commits_nothing(bench: TxnBench, is_committed: bool) -> None:
    """Kafka's tools abort what hangs; a commit can only be a replay, or of a broker that is gone."""
    who = await bench.begin()
    await bench.add(who)
    assert await bench.produce(who) == OK
    marker = WritableTxnMarker(
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        transaction_result=is_committed,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=bench.transactions.shards.of("x").coordinator_epoch,
    )
    bench.station.connection.number = bench.station.context.arrivals.next()
    answer = await bench.station.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
    (partition,) = answer.markers[0].topics[0].partitions
    assert partition.error_code == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED if is_committed else OK)
    assert bench.is_stable is not is_committed


async def test_session_of_an_earlier_epoch_leaves_the_open_transaction_alone(bench: TxnBench) -> None:
    """It is late, or its producer was replaced: it gets no session, so nothing is aborted for it."""
    who = await bench.begin()
    after = await run_one(bench, who)
    assert await bench.produce(after, version=PRODUCE) == OK
    for expected in (who, Identity(after.producer_id, after.epoch + 1)):
        with pytest.raises(ProducerFencedError):
            await bench.begin(expected)
    assert bench.state is State.ONGOING
    assert (await end(bench, after))[0] == OK
