"""Producers that wait: each is answered when its own offset is reached, and looked at by nobody before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from minikafka.broker.replicas.commits import Promise
from minikafka.broker.replicas.leadership import FollowerFetch
from minikafka.broker.replicas.partition import ACKS_ALL, Partition
from minikafka.broker.replicas.waiting import CommitWait
from minikafka.protocol.control import PartitionState
from minikafka.protocol.errors import KafkaError, NotLeaderOrFollowerError, RequestTimedOutError
from minikafka.protocol.records.builder import BatchBuilder
from minikafka.storage.validation import parse_produced
from tests.broker.handlers.station import station

_VERSION = 9


@pytest.fixture
async def partition() -> AsyncIterator[Partition]:
    """A partition that broker 1 leads, with broker 2 in sync."""
    async with station(lambda _: []) as here:
        await here.context.partitions.apply([_state(0)], is_full=False)
        yield here.context.partitions.get("t", 0)


def _state(epoch: int) -> PartitionState:
    return PartitionState(
        topic="t",
        topic_id=b"i" * 16,
        partition=0,
        leader=1,
        leader_epoch=epoch,
        isr=[1, 2],
        replicas=[1, 2],
        partition_epoch=0,
        controller_epoch=1,
        is_new=True,
    )


def append(partition: Partition) -> Promise:
    """Write a batch of one record, which is not committed yet."""
    builder = BatchBuilder(1 << 10)
    builder.append(timestamp_ms=1, key=None, value=b"x")
    appended = partition.append(parse_produced(bytearray(builder.build()), _VERSION), ACKS_ALL, 1)
    promise = partition.promise(appended.last_offset + 1, ACKS_ALL)
    assert promise is not None
    return promise


def follow(partition: Partition, offset: int) -> None:
    partition.on_follower_fetch(FollowerFetch(2, 2, offset, 0))


def wait(promise: Promise, timeout_ms: int = 60_000) -> asyncio.Task[dict[Partition, KafkaError]]:
    return asyncio.ensure_future(CommitWait([promise]).wait_committed(timeout_ms))


@pytest.mark.parametrize("count", [100, 200, 400])
async def test_commit_queue_looks_only_at_what_an_offset_has_passed(
    partition: Partition, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    looks, outcome = 0, Promise.outcome

    def counted(promise: Promise) -> KafkaError | bool:
        nonlocal looks
        looks += 1
        return outcome(promise)

    monkeypatch.setattr(Promise, "outcome", counted)
    waiting = []
    for _ in range(count):
        waiting.append(wait(append(partition)))
        await asyncio.sleep(0)
    assert len(partition.commits) == count
    for offset in range(1, count + 1):
        follow(partition, offset)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [task.done() for task in waiting[offset - 1 : offset + 1]] == [True, False][: count - offset + 1]
    assert [await task for task in waiting] == [{}] * count
    # At first, when it leads for the first time, and when it is committed.
    assert looks <= 3 * count


@pytest.mark.parametrize("count", [1, 3])
async def test_commit_wait_ends_with_the_role(partition: Partition, count: int) -> None:
    waiting = [wait(append(partition)) for _ in range(count)]
    await asyncio.sleep(0)
    partition.resign()
    for task in waiting:
        assert isinstance((await task)[partition], NotLeaderOrFollowerError)
    assert not partition.commits


async def test_commit_wait_of_an_earlier_epoch_is_answered_at_once(partition: Partition) -> None:
    promise = append(partition)
    partition.become_leader(_state(1))
    follow(partition, 1)
    assert isinstance((await wait(promise))[partition], NotLeaderOrFollowerError)


async def test_commit_wait_that_gives_up_leaves_nothing_behind(partition: Partition) -> None:
    first, second = append(partition), append(partition)
    late, other = wait(first, 0), wait(second)
    assert isinstance((await late)[partition], RequestTimedOutError)
    other.cancel()
    await asyncio.wait([other])
    assert not partition.commits


async def test_commit_queue_puts_a_duplicate_before_later_batches(partition: Partition) -> None:
    first, second = append(partition), append(partition)
    later, earlier = wait(second), wait(first)
    await asyncio.sleep(0)
    follow(partition, 1)
    assert await earlier == {}
    assert not later.done()
    follow(partition, 2)
    assert await later == {}
