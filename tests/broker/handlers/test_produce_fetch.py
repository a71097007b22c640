"""Produce and Fetch through the codec, on a disk in memory: what the recordings of Kafka cannot show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from minikafka.broker.context import Context
from minikafka.broker.handlers import list_offsets, records
from minikafka.broker.network.dispatch import Route
from minikafka.broker.replicas.leadership import FollowerFetch
from minikafka.broker.replicas.partition import Partition
from minikafka.protocol.control import PartitionState
from minikafka.protocol.errors import DecodeError, ErrorCode
from minikafka.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from minikafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records import BatchBuilder
from tests.broker.handlers.station import Station, station, with_data

ALL, LEADER = -1, 1


def routes(context: Context) -> list[Route]:
    return [*with_data(context), *list_offsets.routes(context), *records.routes(context)]


@pytest.fixture
async def alone() -> AsyncIterator[Station]:
    """A broker with topic `t`, of which it has the only replica."""
    async with station(routes) as made:
        await made.add_topic("t", replicas=[1])
        yield made


@pytest.fixture
async def leader() -> AsyncIterator[Station]:
    """A broker that leads topic `t` of three replicas, of which two have to be in sync."""
    async with station(routes, {"min.insync.replicas": "2"}) as made:
        await made.add_topic("t")
        yield made


def batch(*values: bytes) -> bytearray:
    builder = BatchBuilder()
    for value in values:
        builder.append(1_700_000_000_000, None, value)
    return builder.build()


async def send(
    at: Station, records: bytearray, acks: int = LEADER, timeout_ms: int = 60_000
) -> PartitionProduceResponse:
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=memoryview(records))])]
    answer = await at.ask(ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=data), 9)
    found: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return found


async def get(
    at: Station,
    offset: int,
    *,
    min_bytes: int = 1,
    max_wait_ms: int = 0,
    follower: int = -1,
    follower_epoch: int = -1,
    max_bytes: int = 1 << 20,
) -> FetchablePartitionResponse:
    topic_id = at.context.metadata.topics["t"].topic_id
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes, log_start_offset=0)
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=follower, replica_epoch=follower_epoch),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
    )
    answer = await at.ask(request, 17)
    found: FetchablePartitionResponse = answer.responses[0].partitions[0]
    return found


def settled_role(at: Station, leader_epoch: int, leader_id: int, isr: list[int]) -> PartitionState:
    known = at.context.metadata.topics["t"].partitions[0]
    return PartitionState(
        topic="t",
        topic_id=known.topic_id,
        partition=0,
        leader=leader_id,
        leader_epoch=leader_epoch,
        isr=isr,
        replicas=[1, 2, 3],
        partition_epoch=leader_epoch,
        controller_epoch=1,
    )


async def becomes(at: Station, leader_epoch: int, leader_id: int, isr: list[int]) -> None:
    state = settled_role(at, leader_epoch, leader_id, isr)
    assert await at.context.partitions.apply([state], is_full=False) == {}


# ------------------------------------------------------------------------------------------------------ alone


async def test_what_is_produced_can_be_fetched(alone: Station) -> None:
    assert (await send(alone, batch(b"a", b"b"))).base_offset == 0
    assert (await send(alone, batch(b"c"), ALL)).base_offset == 2
    found = await get(alone, 0)
    assert found.high_watermark == 3
    assert len(found.records or b"") == len(batch(b"a", b"b")) + len(batch(b"c"))


async def test_a_fetch_waits_for_as_many_bytes_as_it_wants(alone: Station) -> None:
    size = len(batch(b"a"))
    waiting = asyncio.create_task(get(alone, 0, min_bytes=2 * size, max_wait_ms=60_000))
    await send(alone, batch(b"a"))
    await asyncio.sleep(0)
    assert not waiting.done()
    await send(alone, batch(b"b"))
    assert len((await waiting).records or b"") == 2 * size


async def test_a_fetch_gives_up_when_its_time_is_up(alone: Station) -> None:
    assert (await get(alone, 0, max_wait_ms=5)).records == b""


async def test_a_fetch_that_waits_is_told_of_a_new_leader(leader: Station) -> None:
    waiting = asyncio.create_task(get(leader, 0, max_wait_ms=60_000, follower=2, follower_epoch=2))
    await asyncio.sleep(0)
    await becomes(leader, 1, 2, [2, 3])
    assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_what_is_not_in_memory_is_read_elsewhere(alone: Station) -> None:
    await send(alone, batch(b"a"))
    alone.disk.is_cold = True
    assert len((await get(alone, 0)).records or b"") == len(batch(b"a"))


async def test_a_disk_that_fails_takes_its_directory_offline(alone: Station) -> None:
    await send(alone, batch(b"a"))
    alone.disk.fail(lambda op: op.kind == "append", is_lasting=True)
    assert (await send(alone, batch(b"b"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await get(alone, 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert alone.context.partitions.offline_count == 1
    assert alone.context.partitions.log_dirs.dirs[0].is_offline


async def test_a_fetch_that_waits_is_told_of_a_failed_disk(alone: Station) -> None:
    waiting = asyncio.create_task(get(alone, 0, max_wait_ms=60_000))
    await asyncio.sleep(0)
    alone.disk.fail(lambda op: op.kind == "append", is_lasting=True)
    await send(alone, batch(b"a"))
    assert (await waiting).error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_with_fsync_nothing_is_acknowledged_before_it_is_on_disk() -> None:
    async with station(routes, {"minikafka.durability": "fsync"}) as made:
        await made.add_topic("t", replicas=[1])
        partition = made.context.partitions.get("t", 0)
        for acks in (LEADER, ALL):
            answer = await send(made, batch(b"a"), acks)
            assert answer.error_code == ErrorCode.NONE
            assert partition.log.recovery_point > answer.base_offset
            assert partition.log.high_watermark > answer.base_offset


async def test_with_fsync_a_failed_sync_is_no_acknowledgement() -> None:
    async with station(routes, {"minikafka.durability": "fsync"}) as made:
        await made.add_topic("t", replicas=[1])
        made.disk.fail(lambda op: op.kind == "sync")
        answer = await send(made, batch(b"a"))
        assert answer.error_code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert made.context.partitions.log_dirs.dirs[0].is_offline


# ---------------------------------------------------------------------------------------------------- leading


async def test_all_in_sync_replicas_have_to_have_it(leader: Station) -> None:
    sending = asyncio.create_task(send(leader, batch(b"a"), ALL))
    await asyncio.sleep(0)
    await get(leader, 0, follower=2, follower_epoch=2)
    await get(leader, 0, follower=3, follower_epoch=3)
    await get(leader, 1, follower=2, follower_epoch=2)
    assert not sending.done()
    assert (await get(leader, 0)).records == b""
    await get(leader, 1, follower=3, follower_epoch=3)
    assert (await sending).error_code == ErrorCode.NONE
    assert (await get(leader, 0)).high_watermark == 1


async def test_a_follower_sees_what_is_not_committed(leader: Station) -> None:
    await send(leader, batch(b"a"))
    assert (await get(leader, 0)).records == b""
    assert (await get(leader, 0, follower=2, follower_epoch=2)).records


async def test_whoever_has_no_replica_is_no_follower(leader: Station) -> None:
    assert (await get(leader, 0, follower=9)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_produce_that_takes_too_long_says_so(leader: Station) -> None:
    assert (await send(leader, batch(b"a"), ALL, timeout_ms=5)).error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_a_produce_that_waits_fails_when_leadership_moves(leader: Station) -> None:
    sending = asyncio.create_task(send(leader, batch(b"a"), ALL))
    await asyncio.sleep(0)
    await becomes(leader, 1, 2, [2, 3])
    assert (await sending).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_too_few_in_sync_replicas_are_refused_before_anything_is_written(leader: Station) -> None:
    await becomes(leader, 0, 1, [1, 2, 3])
    state = settled_role(leader, 1, 1, [1])
    await leader.context.partitions.apply([state], is_full=False)
    assert (await send(leader, batch(b"a"), ALL)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.context.partitions.get("t", 0).log.log_end_offset == 0
    # Whoever wants only the leader to have it gets that, but nobody sees it.
    assert (await send(leader, batch(b"a"), LEADER)).error_code == ErrorCode.NONE
    assert (await get(leader, 0)).high_watermark == 0


async def test_an_isr_that_shrinks_too_far_fails_what_waits(leader: Station) -> None:
    partition = leader.context.partitions.get("t", 0)
    sending = asyncio.create_task(send(leader, batch(b"a"), ALL))
    await asyncio.sleep(0)
    await get(leader, 1, follower=2, follower_epoch=2)
    leadership = partition.leadership
    assert leadership is not None
    leadership.accept([1], 1)
    partition.log.update_high_watermark(1)
    partition.settle_isr(leadership)
    assert (await sending).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_whoever_only_says_a_number_commits_nothing(leader: Station) -> None:
    sending = asyncio.create_task(send(leader, batch(b"a"), ALL))
    await asyncio.sleep(0)
    for follower in (2, 3):
        await get(leader, 1, follower=follower)
    assert leader.context.partitions.get("t", 0).log.high_watermark == 0
    for follower in (2, 3):
        await get(leader, 1, follower=follower, follower_epoch=follower)
    assert (await sending).error_code == ErrorCode.NONE


async def test_followers_fetch_where_brokers_do(leader: Station) -> None:
    leader.connection.listener = "EXTERNAL"
    await get(leader, 0)
    with pytest.raises(DecodeError, match="Fetch of brokers is not for listener EXTERNAL"):
        await get(leader, 0, follower=2, follower_epoch=2)


async def test_a_new_leader_does_not_tell_offsets_before_it_knows_them(leader: Station) -> None:
    await send(leader, batch(b"a"))
    await becomes(leader, 1, 1, [1, 2, 3])
    topics = [ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])]
    question = ListOffsetsRequest(replica_id=-1, topics=topics)
    answer = (await leader.ask(question, 9)).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    for follower in (2, 3):
        await get(leader, 1, follower=follower, follower_epoch=follower)
    assert (await leader.ask(question, 9)).topics[0].partitions[0].offset == 1


async def test_a_follower_that_has_caught_up_is_proposed(leader: Station) -> None:
    proposed: list[Partition] = []
    leader.context.partitions.on_proposal = proposed.append
    await becomes(leader, 1, 1, [1, 2])
    partition = leader.context.partitions.get("t", 0)
    partition.on_follower_fetch(FollowerFetch(3, 2, 0, 0))
    assert proposed == []
    partition.on_follower_fetch(FollowerFetch(3, 3, 0, 0))
    assert proposed == [partition]
    assert partition.leadership is not None
    assert partition.leadership.proposed == (1, 2, 3)


async def test_acks_zero_with_an_error_closes_the_connection(alone: Station) -> None:
    is_closed = []
    alone.connection.close = lambda: is_closed.append(True)  # type: ignore[method-assign]
    data = [TopicProduceData(name="u", partition_data=[PartitionProduceData(index=0, records=batch(b"a"))])]
    request = ProduceRequest(acks=0, timeout_ms=0, topic_data=data)
    with pytest.raises(AssertionError):
        await alone.ask(request, 9)
    assert is_closed
