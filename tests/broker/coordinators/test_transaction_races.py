"""What overtakes what in transactions: batches that wait for a coordinator, markers that come late, news that do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest

from minikafka.broker.coordinators.transactions.states import State
from minikafka.broker.coordinators.transactions.transaction import Identity, Name
from minikafka.broker.coordinators.transactions.writing import Marker
from minikafka.broker.coordinators.verifying import TxnMember
from minikafka.broker.internal_topics import GROUP_OFFSETS, TRANSACTION_STATE
from minikafka.broker.network.connection import Connection, ConnectionLimits
from minikafka.broker.network.dispatch import Call, Dispatcher, Handler, Operation, Resource, Route
from minikafka.broker.network.net import TcpNet
from minikafka.broker.zookeeper.registration import ensure_path
from minikafka.broker.zookeeper.topic_nodes import delete_topic_path, state_path
from minikafka.protocol.apis import APIS
from minikafka.protocol.control import Endpoint, LiveBroker
from minikafka.protocol.errors import ConcurrentTransactionsError, ErrorCode
from minikafka.protocol.message import Response
from minikafka.protocol.messages.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tests.broker.coordinators.txn_bench import TxnBench, txn_bench
from tests.broker.eventually import eventually
from tests.broker.handlers.station import LISTENER

OK = ErrorCode.NONE


@pytest.fixture
async def bench() -> AsyncIterator[TxnBench]:
    async with txn_bench() as made:
        await made.lead()
        yield made


class SlowCoordinator:
    """One that is another broker, and answers questions one by one when it is told to."""

    def __init__(self, bench: TxnBench, patch: pytest.MonkeyPatch) -> None:
        self._answers: list[asyncio.Event] = []
        self._ask = bench.all.verifier._ask
        patch.setattr(bench.all.verifier, "_ask", self._ask_slowly)

    async def _ask_slowly(self, txn: TxnMember, names: list[Name]) -> dict[Name, ErrorCode]:
        answered = asyncio.Event()
        self._answers.append(answered)
        await answered.wait()
        return await self._ask(txn, names)

    async def wait_asked(self, count: int) -> None:
        await eventually(lambda: len(self._answers) == count)

    def answer(self, number: int) -> None:
        self._answers[number].set()


# ------------------------------------------------------------------------------------------------- batches that wait


async def test_nothing_overtakes_a_request_with_a_batch_that_waits(
    bench: TxnBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not where the transaction is open: what comes behind it in the same connection has the next numbers."""
    await bench.lead("u")
    who = await bench.begin()
    await bench.add(who, "t", "u")
    assert await bench.produce_all({"u": bench.batch(who)}) == [OK]
    coordinator = SlowCoordinator(bench, monkeypatch)
    first = asyncio.create_task(bench.produce_all({"t": bench.batch(who), "u": bench.batch(who, 1)}))
    await coordinator.wait_asked(1)
    second = asyncio.create_task(bench.produce_all({"u": bench.batch(who, 2)}))
    await asyncio.sleep(0)
    coordinator.answer(0)
    assert (await first, await second) == ([OK, OK], [OK])


@pytest.mark.parametrize("is_known", [False, True])
async def test_what_comes_behind_a_batch_that_nobody_could_vouch_for(
    bench: TxnBench, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """The coordinator fails over when it is asked about the first, and answers about the second: both come again."""
    who = await bench.begin()
    await bench.add(who)
    if is_known:
        assert await bench.produce(who) == OK
        await bench.end(who)
        await bench.wait_state(State.COMPLETE_COMMIT)
        await bench.add(who)
    first = int(is_known)
    leadership = bench.partition("t").leadership
    assert leadership is not None
    # As it is some seconds after the election.
    leadership.early.is_watchful = False
    ask, answers = bench.all.verifier._ask, [ErrorCode.NOT_COORDINATOR]

    async def fail_over(txn: TxnMember, names: list[Name]) -> dict[Name, ErrorCode]:
        return dict.fromkeys(names, answers.pop()) if answers else await ask(txn, names)

    monkeypatch.setattr(bench.all.verifier, "_ask", fail_over)
    assert await bench.produce(who, first) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert await bench.produce(who, first + 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [await bench.produce(who, first + each) for each in range(2)] == [OK, OK]


async def test_batches_that_wait_are_written_in_their_order(bench: TxnBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is answered first, and however many more come while some are written already."""
    who = await bench.begin()
    await bench.add(who)
    coordinator = SlowCoordinator(bench, monkeypatch)
    requests = []
    for sequence in range(3):
        requests.append(asyncio.create_task(bench.produce(who, sequence)))
        await coordinator.wait_asked(sequence + 1)
    coordinator.answer(2)
    coordinator.answer(0)
    await requests[0]
    requests.append(asyncio.create_task(bench.produce(who, 3)))
    await asyncio.sleep(0)
    coordinator.answer(1)
    assert await asyncio.gather(*requests) == [OK] * 4


async def test_a_request_is_of_one_producer(bench: TxnBench) -> None:
    """The coordinator would be asked about one, and the other would open a transaction that nobody ends."""
    await bench.lead("u")
    who = await bench.begin()
    await bench.add(who, "t", "u")
    other = Identity(who.producer_id + 1, 0)
    codes = await bench.produce_all({"t": bench.batch(who), "u": bench.batch(other)})
    assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert bench.partition("u").log.log_end_offset == 0


# ------------------------------------------------------------------------------------------------------------ markers


async def test_a_partition_that_was_not_heard_of_yet_gets_its_marker(bench: TxnBench) -> None:
    """A broker is told that it coordinates before it is told of all topics."""
    who = await bench.begin()
    await ensure_path(bench.station.coord, state_path("late", 0))
    await bench.transactions.add_partitions("x", who, [("late", 0), ("t", 0)])
    await bench.end(who)
    await eventually(lambda: bench.partition("t").log.log_end_offset == 1)
    await bench.lead("late")
    await bench.wait_state(State.COMPLETE_COMMIT)
    assert bench.partition("late").log.log_end_offset == 1


async def test_a_partition_that_is_being_deleted_needs_no_marker(bench: TxnBench) -> None:
    who = await bench.begin()
    await ensure_path(bench.station.coord, state_path("doomed", 0))
    await ensure_path(bench.station.coord, delete_topic_path("doomed"))
    await bench.transactions.add_partitions("x", who, [("doomed", 0), ("t", 0)])
    await bench.end(who)
    await bench.wait_state(State.COMPLETE_COMMIT)


async def test_a_late_marker_does_not_settle_the_offsets_of_the_next_transaction(bench: TxnBench) -> None:
    """It was written by the coordinator before, and still waited for replicas of another partition."""
    who = await bench.begin()
    await bench.add(who, GROUP_OFFSETS)
    assert await bench.commit_offset(who, 7) == OK
    await bench.lead("t", replicas=(1, 2))
    epoch = bench.transactions.shards.of("x").coordinator_epoch
    marker = Marker(who.producer_id, who.epoch, True, epoch, ((GROUP_OFFSETS, 0), ("t", 0)))
    late = asyncio.create_task(bench.all.writer.write(marker))
    await eventually(lambda: bench.partition("t").log.log_end_offset == 1)
    await bench.end(who)
    await bench.wait_state(State.COMPLETE_COMMIT)
    assert await bench.committed_offset() == 7
    await bench.add(who, GROUP_OFFSETS)
    assert await bench.commit_offset(who, 9) == OK
    bench.follow("t", 2)
    assert set((await late).values()) == {OK}
    assert await bench.committed_offset() == ErrorCode.UNSTABLE_OFFSET_COMMIT
    await bench.end(who, is_committed=False)
    await bench.wait_state(State.COMPLETE_ABORT)
    assert await bench.committed_offset() == 7


async def test_marker_waits_for_the_load_of_its_offsets(bench: TxnBench) -> None:
    """Written meanwhile, it would lie behind what the load reads, and the offsets would stay unstable for ever."""
    who = await bench.begin()
    await bench.add(who, GROUP_OFFSETS)
    assert await bench.commit_offset(who, 7) == OK
    await bench.lead(GROUP_OFFSETS, replicas=(1, 2), is_awaited=False)
    end_offset = bench.partition(GROUP_OFFSETS).log.log_end_offset
    epoch = bench.transactions.shards.of("x").coordinator_epoch
    marker = Marker(who.producer_id, who.epoch, True, epoch, ((GROUP_OFFSETS, 0),))
    assert await bench.all.writer.write(marker) == {(GROUP_OFFSETS, 0): ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert bench.partition(GROUP_OFFSETS).log.log_end_offset == end_offset
    bench.follow(GROUP_OFFSETS, 2)
    await eventually(lambda: not bench.all.groups.shards.is_loading)
    await bench.lead(GROUP_OFFSETS)
    await bench.end(who)
    await bench.wait_state(State.COMPLETE_COMMIT)
    assert await bench.committed_offset() == 7


async def test_nothing_is_kept_of_those_who_wait_in_vain(bench: TxnBench) -> None:
    """A producer asks again and again while the leader of a partition is away."""
    who = await bench.begin()
    await bench.add(who)
    await bench.lead("t", leader=-1)
    await bench.end(who)
    for _ in range(2):
        with pytest.raises(ConcurrentTransactionsError):
            await bench.add(who)
    assert bench.transactions.shards.of("x").waiting_count == 0


async def test_markers_are_not_written_after_the_stop(bench: TxnBench) -> None:
    """Logs are closed then. Whoever coordinates next does it."""
    who = await bench.begin()
    await bench.add(who)
    await bench.lead("t", leader=-1)
    await bench.end(who)
    shard = bench.transactions.shards.of("x")
    bench.all.stop()
    assert not shard.is_current


async def test_questions_do_not_wait_behind_markers(bench: TxnBench) -> None:
    """Markers are answered when all replicas have them, and a connection answers in order."""
    has_markers = asyncio.Event()

    def keep(call: Call) -> Awaitable[Response]:
        has_markers.set()
        return asyncio.get_running_loop().create_future()

    who = await bench.begin()
    await bench.add(who)
    async with _broker({24: _vouch, 27: keep}) as reachable:
        await bench.lead("t", leader=reachable.broker_id)
        bench.station.context.metadata.brokers = {reachable.broker_id: reachable}
        await bench.end(who)
        await has_markers.wait()
        await bench.lead(TRANSACTION_STATE, leader=reachable.broker_id)
        bench.station.context.metadata.brokers = {reachable.broker_id: reachable}
        answer = await bench.all.verifier.ask(TxnMember("x", *who), [("t", 0)])
        bench.all.stop()
    assert answer == {("t", 0): None}


@asynccontextmanager
async def _broker(handlers: dict[int, Handler]) -> AsyncIterator[LiveBroker]:
    """Another broker, which serves these only."""
    dispatcher = Dispatcher([Route(APIS[key], each, Operation.NONE, Resource.NONE) for key, each in handlers.items()])
    limits = ConnectionLimits(frame_bytes_max=1 << 20, in_flight_bytes_max=1 << 20)
    made: list[Connection] = []

    def connection() -> Connection:
        made.append(Connection(dispatcher, LISTENER, limits, bytearray(1 << 16), made.remove))
        return made[-1]

    port = await TcpNet().bind(connection, "127.0.0.1", 0, 10)
    await port.listen()
    try:
        endpoint = Endpoint(listener=LISTENER, security_protocol=LISTENER, host="127.0.0.1", port=port.number)
        yield LiveBroker(broker_id=2, broker_epoch=2, endpoints=[endpoint])
    finally:
        port.close()
        for each in made:
            each.abort()
        await eventually(lambda: not made)


def _vouch(call: Call) -> AddPartitionsToTxnResponse:
    found = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=0)
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[found])
    result = AddPartitionsToTxnResult(transactional_id="x", topic_results=[topic])
    return AddPartitionsToTxnResponse(results_by_transaction=[result])
