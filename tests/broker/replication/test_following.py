"""A partition that is followed: where its log begins and where it is cut."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from minikafka.broker.live_config import LiveConfig
from minikafka.broker.metadata import Metadata
from minikafka.broker.replicas.partitions import Partitions
from minikafka.broker.replication.following import CannotFollow, Following
from minikafka.broker.statistics import Statistics
from minikafka.broker.work import LoopWork
from minikafka.protocol.control import PartitionState
from minikafka.protocol.varint import Buffer
from minikafka.storage.formats import RECOVERY_POINT_CHECKPOINT, parse_offsets
from minikafka.storage.log_dirs import LogDirs
from tests.broker.config.recorded import config_of
from tests.broker.replicas.dirs import ORDERS, MovedClock
from tests.sim.memory_disk import MemoryDisk
from tests.storage.dirs import IDENTITY, ROOT, TOPIC_ID, checkpoint, read_file
from tests.storage.logs import NOW_MS, SMALL, append, contents, flush, open_log, read


@pytest.fixture
async def work() -> AsyncIterator[LoopWork]:
    made = LoopWork()
    yield made
    await made.stop()


class Desk:
    """A replica of broker 2 that follows broker 1, on a disk in memory."""

    def __init__(self, work: LoopWork) -> None:
        self.disk = MemoryDisk()
        self.clock = MovedClock()
        self.leader = open_log(self.disk, "leader-0")
        log_dirs = LogDirs(self.disk, [ROOT])
        log_dirs.open(IDENTITY, NOW_MS)
        log_dirs.load_all(lambda _: SMALL, NOW_MS)
        live = LiveConfig(config_of())
        self.partitions = Partitions(2, log_dirs, live, Metadata(), self.clock, work, Statistics())

    async def follow(self) -> Following:
        state = PartitionState(
            topic="orders",
            topic_id=TOPIC_ID,
            partition=0,
            leader=1,
            leader_epoch=5,
            isr=[1, 2],
            replicas=[1, 2],
            partition_epoch=0,
            controller_epoch=1,
            is_new=True,
        )
        assert await self.partitions.apply([state], is_full=False) == {}
        partition = self.partitions.all[ORDERS]
        return Following(partition, self.partitions.workers[partition.log_dir], self.clock)

    async def take(self, following: Following, records: Buffer, leader_start: int) -> None:
        await following.begin_earlier(records)
        assert following.partition.append_fetched(records, 5)
        following.partition.follow_offsets(self.leader.log_end_offset, leader_start)


async def test_an_empty_log_begins_with_the_batch_in_which_its_leader_starts(work: LoopWork) -> None:
    desk = Desk(work)
    following = await desk.follow()
    own = following.partition.log
    append(desk.leader, *(b"%d" % number for number in range(10)))
    append(desk.leader, b"10")
    following.start_over_at(4)
    flush(own)
    checkpoint(following.partition.log_dir)
    path = f"{ROOT}/{RECOVERY_POINT_CHECKPOINT}"
    assert parse_offsets(read_file(desk.disk, path))[ORDERS] == 4
    await desk.take(following, read(desk.leader, 4), 4)
    assert (own.segments.first.base_offset, own.log_start_offset, own.log_end_offset) == (0, 4, 11)
    assert contents(own) == [(number, b"%d" % number) for number in range(4, 11)]
    # What is on disk says no more than what is in the log, or the next start would think that something was lost.
    assert parse_offsets(read_file(desk.disk, path))[ORDERS] == 0
    append(desk.leader, b"11")
    await desk.take(following, read(desk.leader, 11), 4)
    assert own.log_end_offset == 12


async def test_a_log_that_is_not_empty_stays(work: LoopWork) -> None:
    desk = Desk(work)
    following = await desk.follow()
    append(desk.leader, b"0", b"1", b"2")
    records = read(desk.leader, 0)
    await desk.take(following, records, 0)
    generation = following.partition.log.generation
    await following.begin_earlier(records)
    assert following.partition.log.generation == generation
    assert following.partition.log.log_end_offset == 3


async def test_a_bad_batch_where_the_log_is_to_be_cut_is_no_bad_disk(work: LoopWork) -> None:
    desk = Desk(work)
    following = await desk.follow()
    own = following.partition.log
    for value in (b"0", b"1", b"2"):
        append(desk.leader, value)
    await desk.take(following, read(desk.leader, 0), 0)
    own.high_watermark = 0
    file = desk.disk.open(own.segments.active.log_path)
    data = bytes(file.read(0, file.size()))
    file.truncate(0)
    # A length that no batch has.
    file.append((data[:8], b"\xff" * 4, data[12:]))
    with pytest.raises(CannotFollow):
        await following.cut_to_end(1)
    assert not following.partition.log_dir.is_offline
    assert own.log_end_offset == 3
