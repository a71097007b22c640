"""Partitions of `__consumer_offsets` that are led, lost and led again; replicas that lag; loads that come too late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest

from minikafka.broker.coordinators.groups.members import Joining
from minikafka.broker.coordinators.groups.offsets import Commit
from minikafka.broker.internal_topics import GROUP_OFFSETS
from minikafka.broker.replicas.leadership import FollowerFetch
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.work import LoopWork
from minikafka.protocol.control import PartitionState
from minikafka.protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    ErrorCode,
    NotCoordinatorError,
)
from tests.broker.coordinators.stand import PROTOCOLS
from tests.broker.eventually import eventually
from tests.broker.handlers.station import Station, coordinators, station

_T = TypeVar("_T")

NOBODY = ("", None, -1)
NAME = ("orders", 0)
JOINING = Joining("", None, "client", "/host", 10_000, 60_000, "consumer", PROTOCOLS)


class SlowWork(LoopWork):
    """Reads wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0

    async def run_blocking(self, call: Callable[[], _T]) -> _T:
        self.waiting += 1
        await self.gate.wait()
        self.waiting -= 1
        return await super().run_blocking(call)


class Bench:
    """One broker with a coordinator, whose role is as the test says."""

    def __init__(self, made: Station, work: SlowWork) -> None:
        self.station = made
        self.work = work
        self.coordinator = coordinators(made.context).groups
        made.context.partitions.on_role_changed = self.coordinator.shards.on_role_changed
        self.epoch = 0

    @property
    def partition(self) -> Partition:
        return self.station.context.partitions.get(GROUP_OFFSETS, 0)

    async def lead(self, leader: int = 1, replicas: tuple[int, ...] = (1,)) -> None:
        """Have a broker lead in the next epoch."""
        self.epoch += 1
        state = PartitionState(
            topic=GROUP_OFFSETS,
            topic_id=bytes(15) + b"\x07",
            partition=0,
            leader=leader,
            leader_epoch=self.epoch,
            isr=list(replicas),
            replicas=list(replicas),
            partition_epoch=self.epoch,
            controller_epoch=1,
            is_new=self.epoch == 1,
        )
        self.station.update_metadata(partitions=[state])
        assert await self.station.context.partitions.apply([state], is_full=False) == {}

    async def loaded(self) -> None:
        await eventually(lambda: not self.coordinator.shards.is_loading)

    def follow(self, *broker_ids: int) -> None:
        """Followers have all there is."""
        end = self.partition.log.log_end_offset
        for each in broker_ids:
            self.partition.on_follower_fetch(FollowerFetch(each, each, end, 0))

    def commit(self, offset: int, group: str = "g") -> asyncio.Future[object]:
        commits = {NAME: Commit(offset, -1, "", self.station.context.clock.wall_ms())}
        return self.coordinator.commit(group, NOBODY, commits)  # type: ignore[return-value]

    def committed(self, group: str = "g") -> int | None:
        found = self.coordinator.group(group)
        commit = None if found is None else found.offsets.get(NAME)
        return None if commit is None else commit.offset


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    work = SlowWork()
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.commit.timeout.ms": "300"}
    async with station(lambda _: [], settings, work=work) as made:
        yield Bench(made, work)
        work.gate.set()


async def test_what_was_committed_is_there_for_the_next_leader(bench: Bench) -> None:
    await bench.lead()
    await bench.loaded()
    for offset in range(1, 50):
        assert await bench.commit(offset) is None
    await bench.lead(leader=2)
    with pytest.raises(NotCoordinatorError):
        bench.committed()
    await bench.lead()
    await bench.loaded()
    assert bench.committed() == 49


async def test_deleted_groups_do_not_come_back(bench: Bench) -> None:
    await bench.lead()
    await bench.loaded()
    await bench.commit(1)
    await bench.commit(2, "other")
    await bench.coordinator.delete("g")
    await bench.lead()
    await bench.loaded()
    assert bench.coordinator.group("g") is None
    assert bench.committed("other") == 2


async def test_nothing_is_answered_while_it_is_loaded(bench: Bench) -> None:
    await bench.lead()
    await bench.loaded()
    await bench.commit(1)
    bench.work.gate.clear()
    await bench.lead()
    with pytest.raises(CoordinatorLoadInProgressError):
        bench.committed()
    with pytest.raises(CoordinatorLoadInProgressError):
        bench.coordinator.join("g", JOINING)
    assert bench.coordinator.heartbeat("g", "m", None, 1) == ErrorCode.NONE
    bench.work.gate.set()
    await bench.loaded()
    assert bench.committed() == 1


async def test_late_load_publishes_nothing(bench: Bench) -> None:
    await bench.lead()
    await bench.loaded()
    await bench.commit(1)
    bench.work.gate.clear()
    await bench.lead()
    await eventually(lambda: bench.work.waiting)
    await bench.lead(leader=2)
    bench.work.gate.set()
    await eventually(lambda: not bench.work.waiting)
    with pytest.raises(NotCoordinatorError):
        bench.committed()
    assert not list(bench.coordinator.shards)


async def test_lost_session_ends_it_before_anybody_is_told(bench: Bench) -> None:
    await bench.lead()
    await bench.loaded()
    assert (await bench.coordinator.join("g", JOINING)).generation == 1
    waiting = bench.coordinator.join("g", JOINING)
    bench.station.context.partitions.drop_roles()
    assert (await waiting).error == ErrorCode.NOT_COORDINATOR
    with pytest.raises(NotCoordinatorError):
        bench.coordinator.group("g")


async def test_commit_holds_when_all_replicas_have_it(bench: Bench) -> None:
    await bench.lead(replicas=(1, 2, 3))
    await bench.loaded()
    answer = bench.commit(7)
    bench.follow(2)
    await asyncio.sleep(0)
    assert not answer.done()
    assert bench.committed() is None
    bench.follow(3)
    assert await answer is None
    assert bench.committed() == 7


async def test_commit_that_takes_too_long_is_not_known_and_holds_later(bench: Bench) -> None:
    await bench.lead(replicas=(1, 2))
    await bench.loaded()
    outcome = await bench.commit(7)
    assert getattr(outcome, "code", None) == ErrorCode.REQUEST_TIMED_OUT
    assert bench.committed() is None
    bench.follow(2)
    await eventually(lambda: bench.committed() == 7)


async def test_commit_whose_client_has_gone_holds_all_the_same(bench: Bench) -> None:
    await bench.lead(replicas=(1, 2))
    await bench.loaded()
    bench.commit(7).cancel()
    bench.follow(2)
    await eventually(lambda: bench.committed() == 7)


async def test_leadership_lost_before_it_is_replicated(bench: Bench) -> None:
    await bench.lead(replicas=(1, 2))
    await bench.loaded()
    answer = bench.commit(7)
    await bench.lead(leader=2, replicas=(1, 2))
    assert getattr(await answer, "code", None) == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_too_few_replicas(bench: Bench) -> None:
    bench.station.live.store_topic(GROUP_OFFSETS, {"min.insync.replicas": "2"})
    await bench.lead(replicas=(1,))
    await bench.lead(replicas=(1, 2))
    bench.follow(2)
    await bench.loaded()
    leadership = bench.partition.leadership
    assert leadership is not None
    leadership.isr = (1,)
    with pytest.raises(CoordinatorNotAvailableError):
        bench.commit(7)


async def test_nothing_is_served_that_may_still_vanish(bench: Bench) -> None:
    """What the leader before has written, and not all replicas have, is not told before they do."""
    await bench.lead(replicas=(1, 2))
    await bench.loaded()
    bench.commit(7)
    await bench.lead(replicas=(1, 2))
    await asyncio.sleep(0.05)
    with pytest.raises(CoordinatorLoadInProgressError):
        bench.committed()
    bench.follow(2)
    await bench.loaded()
    assert bench.committed() == 7


async def test_group_is_stored_and_stable_after_a_change_of_leaders(bench: Bench) -> None:
    await bench.lead()
    await bench.loaded()
    joined = await bench.coordinator.join("g", JOINING)
    member = (joined.member_id, None, 1)
    synced = await bench.coordinator.sync("g", member, (None, None), {joined.member_id: b"mine"})
    assert synced.assignment == b"mine"
    await bench.lead()
    await bench.loaded()
    assert bench.coordinator.heartbeat("g", joined.member_id, None, 1) == ErrorCode.NONE
    again = await bench.coordinator.sync("g", member, (None, None), {})
    assert (again.assignment, again.protocol_name) == (b"mine", "range")


async def test_expired_offsets_are_forgotten_for_good(bench: Bench) -> None:
    await bench.lead()
    await bench.loaded()
    await bench.commit(7)
    now_ms = bench.station.context.clock.wall_ms()
    bench.coordinator.expire(now_ms + 999, 1_000_000)
    assert bench.committed() == 7
    bench.coordinator.expire(now_ms + 2_000_000, 1_000_000)
    assert bench.coordinator.group("g") is None
    await bench.lead()
    await bench.loaded()
    assert bench.coordinator.group("g") is None


async def test_offsets_of_deleted_topics_are_forgotten(bench: Bench) -> None:
    await bench.lead()
    await bench.loaded()
    await bench.commit(7)
    bench.coordinator.on_topics_deleted({"another"})
    assert bench.committed() == 7
    bench.coordinator.on_topics_deleted({"orders"})
    assert bench.coordinator.group("g") is None
