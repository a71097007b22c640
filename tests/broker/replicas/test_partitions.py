"""All replicas of a broker: what the controller says is done, once, in order, and to the right ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from minikafka.broker.replicas.dir_worker import DirWorker
from minikafka.protocol.control import PartitionState, StoppedPartition
from minikafka.protocol.errors import (
    ErrorCode,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from minikafka.storage.dir_jobs import Job
from minikafka.storage.log_dir import LogDir
from tests.broker.handlers.station import Station, station

ID, OTHER_ID = b"i" * 16, b"o" * 16


@pytest.fixture
async def here() -> AsyncIterator[Station]:
    """Broker 1, without a partition."""
    async with station(lambda _: [], log_dirs=("/data/a", "/data/b")) as made:
        yield made


def state(
    index: int = 0,
    *,
    leader: int = 1,
    epoch: int = 0,
    partition_epoch: int = 0,
    topic_id: bytes = ID,
    is_new: bool = True,
) -> PartitionState:
    return PartitionState(
        topic="t",
        topic_id=topic_id,
        partition=index,
        leader=leader,
        leader_epoch=epoch,
        isr=[1, 2],
        replicas=[1, 2],
        partition_epoch=partition_epoch,
        controller_epoch=1,
        is_new=is_new,
    )


async def test_partitions_are_made_and_spread(here: Station) -> None:
    partitions = here.context.partitions
    assert await partitions.apply([state(index) for index in range(4)], is_full=False) == {}
    assert sorted(len(each.logs) for each in partitions.log_dirs.dirs) == [2, 2]
    assert all(partitions.get("t", index).leadership for index in range(4))


async def test_a_log_that_is_being_made_is_not_made_again(here: Station) -> None:
    partitions = here.context.partitions
    fuller, emptier = partitions.log_dirs.dirs
    await partitions.apply([state(index) for index in (8, 9)], is_full=False)
    # Where it would not be made now.
    made = partitions.workers[fuller].do(fuller.create(("t", 0), ID, here.live.topic("t").log, 0))
    assert await partitions.apply([state()], is_full=False) == {}
    assert made.done()
    assert partitions.get("t", 0).log is fuller.logs["t", 0]
    assert ("t", 0) not in emptier.logs


async def test_only_what_is_newer_counts(here: Station) -> None:
    partitions = here.context.partitions
    await partitions.apply([state(epoch=5, partition_epoch=5)], is_full=False)
    partition = partitions.get("t", 0)
    leadership = partition.leadership
    assert await partitions.apply([state(epoch=5, partition_epoch=5)], is_full=False) == {}
    assert partition.leadership is leadership
    older = await partitions.apply([state(epoch=4, partition_epoch=9, leader=2)], is_full=False)
    assert older == {("t", 0): ErrorCode.STALE_CONTROLLER_EPOCH}
    assert partition.leadership is leadership
    # Within an epoch the ISR may change, and everything that is known of followers stays.
    await partitions.apply([state(epoch=5, partition_epoch=6)], is_full=False)
    assert partition.leadership is leadership
    await partitions.apply([state(epoch=6, partition_epoch=7, leader=2)], is_full=False)
    assert partition.leadership is None
    assert partition.leader_id == 2


async def test_a_leader_that_resigned_leads_again_when_it_is_told_the_same(here: Station) -> None:
    partitions = here.context.partitions
    await partitions.apply([state()], is_full=False)
    partitions.drop_roles()
    assert partitions.get("t", 0).leadership is None
    await partitions.apply([state()], is_full=False)
    assert partitions.get("t", 0).leadership is not None


async def test_a_log_of_another_topic_of_that_name_is_set_aside(here: Station) -> None:
    partitions = here.context.partitions
    await partitions.apply([state()], is_full=False)
    old = partitions.get("t", 0)
    assert await partitions.apply([state(topic_id=OTHER_ID)], is_full=False) == {}
    new = partitions.get("t", 0)
    assert new is not old
    assert old.is_offline
    names = [name for each in partitions.log_dirs.dirs for name in here.disk.list(each.path)]
    assert any(str(name).endswith("-stray") for name in names)


async def test_what_is_not_in_a_list_of_all_is_kept_under_another_name(here: Station) -> None:
    partitions = here.context.partitions
    await partitions.apply([state(0), state(1)], is_full=False)
    await partitions.apply([state(1)], is_full=True)
    assert ("t", 0) not in partitions.all
    assert ("t", 1) in partitions.all


async def test_what_a_list_of_all_leaves_out_stays_if_its_topic_is_to_be_kept(here: Station) -> None:
    partitions = here.context.partitions
    await partitions.apply([state(0), state(1)], is_full=False)
    await partitions.apply([state(1)], is_full=True, kept_topics=["t"])
    assert set(partitions.all) == {("t", 0), ("t", 1)}


async def test_a_session_that_is_over_gives_no_roles(here: Station) -> None:
    partitions = here.context.partitions
    asking = partitions.apply([state()], is_full=False)
    partitions.drop_roles()
    assert await asking == {("t", 0): ErrorCode.STALE_BROKER_EPOCH}
    assert partitions.get("t", 0).leadership is None
    assert await partitions.apply([state()], is_full=True) == {}
    assert partitions.get("t", 0).leadership is not None


async def test_a_partition_that_is_deleted_is_gone(here: Station) -> None:
    partitions = here.context.partitions
    await partitions.apply([state()], is_full=False)
    other = StoppedPartition(topic="t", partition=0, leader_epoch=9, delete=True, topic_id=OTHER_ID)
    assert await partitions.stop([other]) == {}
    assert ("t", 0) in partitions.all
    stale = StoppedPartition(topic="t", partition=0, leader_epoch=0, delete=True, topic_id=ID)
    await partitions.apply([state(epoch=3, partition_epoch=1)], is_full=False)
    assert await partitions.stop([stale]) == {("t", 0): ErrorCode.FENCED_LEADER_EPOCH}
    mine = StoppedPartition(topic="t", partition=0, leader_epoch=3, delete=True, topic_id=ID)
    assert await partitions.stop([mine]) == {}
    assert ("t", 0) not in partitions.all
    assert not any(each.logs for each in partitions.log_dirs.dirs)
    # Once more is no error.
    assert await partitions.stop([mine]) == {}


async def test_a_partition_that_is_stopped_keeps_its_log(here: Station) -> None:
    partitions = here.context.partitions
    await partitions.apply([state()], is_full=False)
    await partitions.stop([StoppedPartition(topic="t", partition=0, leader_epoch=0, delete=False)])
    assert ("t", 0) not in partitions.all
    assert sum(len(each.logs) for each in partitions.log_dirs.dirs) == 1
    await partitions.apply([state(epoch=1, partition_epoch=1, is_new=False)], is_full=False)
    assert partitions.get("t", 0).leadership is not None


async def test_a_directory_that_fails_takes_its_partitions_along(here: Station) -> None:
    partitions = here.context.partitions
    failed: list[LogDir] = []
    partitions.on_dir_failed = failed.append
    await partitions.apply([state(index) for index in range(4)], is_full=False)
    first = partitions.log_dirs.dirs[0]
    lost = list(first.logs)
    partitions.workers[first].fail("gone")
    assert failed == [first]
    assert set(partitions.all) == {("t", index) for index in range(4)} - set(lost)
    with pytest.raises(KafkaStorageError):
        partitions.get(*lost[0])
    # It is there still: it is not made again elsewhere, though the controller may not know that it was made at all.
    for is_new in (False, True):
        again = state(lost[0][1], epoch=1, partition_epoch=1, is_new=is_new)
        assert await partitions.apply([again], is_full=False) == {lost[0]: ErrorCode.KAFKA_STORAGE_ERROR}
    assert await partitions.apply([state(9)], is_full=False) == {}


async def test_a_directory_that_fails_when_a_log_was_just_made_takes_it_along(here: Station) -> None:
    partitions = here.context.partitions
    for worker in partitions.workers.values():

        def do(job: Job, worker: DirWorker = worker, do: Callable[[Job], asyncio.Future[None]] = worker.do) -> Any:
            done = do(job)
            done.add_done_callback(lambda _: worker.fail("gone"))
            return done

        worker.do = do  # type: ignore[method-assign]
    assert await partitions.apply([state()], is_full=False) == {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}
    assert partitions.all == {}
    assert partitions.offline_count == 1


async def test_what_is_not_here_is_unknown_or_elsewhere(here: Station) -> None:
    with pytest.raises(UnknownTopicOrPartitionError):
        here.context.partitions.get("t", 0)
    here.update_metadata(partitions=[state(leader=2)])
    with pytest.raises(NotLeaderOrFollowerError):
        here.context.partitions.get("t", 0)


async def test_a_changed_config_reaches_the_logs(here: Station) -> None:
    partitions = here.context.partitions
    await partitions.apply([state()], is_full=False)
    here.live.store_topic("t", {"segment.bytes": "123456", "min.insync.replicas": "2"})
    partition = partitions.get("t", 0)
    assert partition.log.config.segment_bytes == 123456
    assert partition.min_isr == 2
