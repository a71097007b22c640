"""What a real coordinator cannot be brought to do: lose answers at the wrong moment, or fall silent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from minikafka.client.consumer import Consumer, ConsumerRebalanceListener
from minikafka.client.consumer.errors import CommitFailed
from minikafka.client.consumer.membership import State
from minikafka.client.errors import ClientClosed, IllegalState
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tests.broker.eventually import eventually
from tests.client.consumer.groups import Witness
from tests.client.consumer.reading import open_consumer, take, values
from tests.client.consumer.test_scripted_broker import LogPeer, batch
from tests.client.peer import HangUp

TP = TopicPartition("t", 0)
COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}


class GroupPeer(LogPeer):
    """A broker with ten records that is the coordinator of a group of one, which therefore leads itself."""

    def __init__(self) -> None:
        super().__init__(batch(0, 10))
        self.generation = 0
        self.sync_codes: list[int] = []
        self.heartbeat_codes: list[int] = []
        self.commit_code: Callable[[OffsetCommitRequest], int] = lambda _: 0
        self.answers |= {
            JoinGroupRequest: self._join,
            SyncGroupRequest: self._sync,
            HeartbeatRequest: lambda _: HeartbeatResponse(error_code=_next(self.heartbeat_codes)),
            LeaveGroupRequest: lambda _: LeaveGroupResponse(),
            OffsetCommitRequest: self._commit,
            OffsetFetchRequest: lambda _: OffsetFetchResponse(
                groups=[OffsetFetchResponseGroup(group_id="g", topics=[])]
            ),
        }

    @property
    def committed(self) -> list[tuple[int, int]]:
        """Generations and offsets of all commits."""
        return [
            (each.generation_id_or_member_epoch, each.topics[0].partitions[0].committed_offset)
            for each in self.asked(OffsetCommitRequest)
        ]

    def fall_silent(self) -> None:
        for kind in (OffsetCommitRequest, LeaveGroupRequest, HeartbeatRequest):
            self.answers[kind] = lambda _: None

    def _join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        self.generation += 1
        chosen = request.protocols[0]
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=chosen.name,
            leader="me",
            member_id="me",
            members=[JoinGroupResponseMember(member_id="me", metadata=chosen.metadata)],
        )

    def _sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        code = _next(self.sync_codes)
        if code < 0:
            raise HangUp
        return SyncGroupResponse(error_code=code, assignment=b"" if code else request.assignments[0].assignment)

    def _commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        code = self.commit_code(request)
        made = OffsetCommitResponsePartition(partition_index=0, error_code=code)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[made])])


def _next(codes: list[int]) -> int:
    return codes.pop(0) if codes else 0


@asynccontextmanager
async def member_of(peer: GroupPeer, *topics: str, **options: Any) -> AsyncIterator[Consumer]:
    # Short, since a rebalance waits half of the time for records in hand.
    given = {
        "group_id": "g",
        "heartbeat_interval_ms": 50,
        "rebalance_timeout_ms": 200,
        "retry_backoff_ms": 10,
        **options,
    }
    async with open_consumer(peer.bootstrap, *(topics or ("t",)), **given) as consumer:
        yield consumer


def state_of(consumer: Consumer) -> State:
    assert consumer._core is not None and consumer._core.group is not None
    return consumer._core.group.member.membership.state


# ------------------------------------------------------------------------------------------------------ joining


@pytest.mark.parametrize("code", [-1, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
async def test_an_assignment_that_is_lost(code: int) -> None:
    async with GroupPeer() as peer:
        peer.sync_codes = [code]
        async with member_of(peer) as consumer:
            assert values(await take(consumer, 2)) == [0, 1]
            assert consumer.group_metadata().generation_id == 2


async def test_topics_of_the_group_that_cannot_be_looked_at() -> None:
    async with GroupPeer() as peer, member_of(peer) as consumer:
        group = consumer._core.group  # type: ignore[union-attr]
        assert group is not None
        await take(consumer, 1)
        usual = peer.answers[MetadataRequest]

        def hang_up_once(request: MetadataRequest) -> Any:
            peer.answers[MetadataRequest] = usual
            raise HangUp

        def join_with_another(request: JoinGroupRequest) -> JoinGroupResponse:
            """The leader has to look up a topic that only another member reads, and cannot."""
            joined = GroupPeer._join(peer, request)
            other = joined.members[0].metadata.replace(b"\x00\x01t", b"\x00\x01u")
            joined.members.append(JoinGroupResponseMember(member_id="other", metadata=other))
            peer.answers |= {MetadataRequest: hang_up_once, JoinGroupRequest: peer._join}
            return joined

        peer.answers[JoinGroupRequest] = join_with_another
        peer.heartbeat_codes = [ErrorCode.REBALANCE_IN_PROGRESS]
        await eventually(lambda: peer.generation >= 3)
        await eventually(lambda: state_of(consumer) is State.STABLE)


# -------------------------------------------------------------------------------------------------- committing


@pytest.mark.parametrize("is_kept", [True, False])
async def test_commit_stays_in_its_generation(is_kept: bool) -> None:
    """It is tried again while the group goes on. In the next generation it could undo what another member commits,
    unless the partition was kept all the time."""
    options: dict[str, Any] = COOPERATIVE if is_kept else {}
    async with GroupPeer() as peer, member_of(peer, enable_auto_commit=False, **options) as consumer:
        await take(consumer, 3)

        def answer(request: OffsetCommitRequest) -> int:
            if peer.generation == 1:
                if len(peer.committed) == 1:
                    # Once: another one would be heard of in the second generation, and begin a third.
                    peer.heartbeat_codes = [ErrorCode.REBALANCE_IN_PROGRESS]
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NONE if request.generation_id_or_member_epoch == 2 else ErrorCode.ILLEGAL_GENERATION

        peer.commit_code = answer
        if is_kept:
            await consumer.commit()
            assert {generation for generation, _ in peer.committed} == {1, 2}
            return
        with pytest.raises(CommitFailed):
            await consumer.commit()
        assert {generation for generation, _ in peer.committed} == {1}
        await eventually(lambda: state_of(consumer) is State.STABLE)
        await take(consumer, 3)
        await consumer.commit()
        assert peer.committed[-1] == (2, 3)


async def test_a_commit_while_the_leader_thinks() -> None:
    """Between joining and asking for its assignment a member waits for the next generation too."""
    async with GroupPeer() as peer, member_of(peer, enable_auto_commit=False, **COOPERATIVE) as consumer:
        await take(consumer, 3)
        core = consumer._core
        assert core is not None and core.group is not None
        leader, thought = core.group.member._leader, asyncio.Event()
        usual = leader.assignments

        async def think(joined: JoinGroupResponse) -> Any:
            await thought.wait()
            return await usual(joined)

        leader.assignments = think  # type: ignore[method-assign]
        peer.commit_code = lambda _: 0 if thought.is_set() else ErrorCode.REBALANCE_IN_PROGRESS
        peer.heartbeat_codes = [ErrorCode.REBALANCE_IN_PROGRESS]
        await eventually(lambda: state_of(consumer) is State.SYNCING)
        committing = asyncio.create_task(consumer.commit())
        await eventually(lambda: peer.committed)
        thought.set()
        await committing
        assert peer.committed[-1] == (2, 3)


# -------------------------------------------------------------------------------------------------------- ending


class Commits(ConsumerRebalanceListener):
    """Commits by itself when partitions are taken away."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        await self.consumer.commit(dict.fromkeys(revoked, 7))


async def test_the_listener_is_told_of_the_end_and_may_commit() -> None:
    async with GroupPeer() as peer:
        async with member_of(peer, enable_auto_commit=False) as consumer:
            consumer.subscribe(["t"], listener=Commits(consumer))
            await eventually(consumer.assignment)
        assert peer.committed == [(peer.generation, 7)]
        kinds = [type(each) for each in peer.requests]
        assert kinds.index(OffsetCommitRequest) < kinds.index(LeaveGroupRequest)


async def test_unsubscribing_commits_and_tells() -> None:
    async with GroupPeer() as peer, member_of(peer) as consumer:
        witness = Witness()
        consumer.subscribe(["t"], listener=witness)
        await take(consumer, 3)
        generation = peer.generation
        consumer.unsubscribe()
        assert consumer.assignment() == frozenset()
        await eventually(lambda: peer.asked(LeaveGroupRequest))
        assert peer.committed == [(generation, 3)]
        assert witness.told[-1] == ("revoked", frozenset({0}))


async def leave(peer: GroupPeer, how: type[BaseException] | None) -> float:
    """How long closing takes when a program has read something and the coordinator is silent, in seconds."""
    began = 0.0
    try:
        async with member_of(peer) as consumer:
            await take(consumer, 3)
            peer.fall_silent()
            began = time.monotonic()
            if how is not None:
                raise how
    except (asyncio.CancelledError, ZeroDivisionError):
        pass
    return time.monotonic() - began


@pytest.mark.parametrize(("how", "limit_s"), [(asyncio.CancelledError, 4.0), (ZeroDivisionError, 10.0), (None, 10.0)])
async def test_a_silent_cluster_is_not_waited_for(how: type[BaseException] | None, limit_s: float) -> None:
    async with GroupPeer() as peer:
        assert await leave(peer, how) < limit_s
        assert peer.asked(OffsetCommitRequest)


async def test_closing_that_is_cancelled_again_and_again() -> None:
    async with GroupPeer() as peer:
        consumer = Consumer("t", bootstrap_servers=peer.bootstrap, group_id="g", auto_offset_reset="earliest")
        await consumer.start()
        await take(consumer, 3)
        core = consumer._core
        assert core is not None
        peer.fall_silent()
        closing = asyncio.create_task(consumer.stop())
        began = time.monotonic()
        while not closing.done():
            await asyncio.sleep(0)
            closing.cancel()
        assert closing.cancelled()
        assert time.monotonic() - began < 4
        assert core.cluster.is_closed
        assert asyncio.all_tasks() - peer._tasks == {asyncio.current_task()}
        with pytest.raises(ClientClosed):
            await consumer.getone()


async def test_a_listener_cannot_close_its_consumer() -> None:
    told: list[BaseException] = []

    class Closes(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
            try:
                await consumer.stop()
            except IllegalState as error:
                told.append(error)

    async with GroupPeer() as peer, member_of(peer) as consumer:
        consumer.subscribe(["t"], listener=Closes())
        await eventually(lambda: told)
        assert not consumer.is_closed
        assert values(await take(consumer, 1)) == [0]


@pytest.mark.parametrize("in_a_task", [False, True])
async def test_a_listener_cannot_close_its_consumer_while_that_closes(in_a_task: bool) -> None:
    told: list[BaseException] = []

    class Closes(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
            try:
                await (asyncio.create_task(consumer.stop()) if in_a_task else consumer.stop())
            except IllegalState as error:
                told.append(error)
            # It is not closed yet, and takes a last commit.
            await consumer.commit(dict.fromkeys(revoked, 7))

    async with GroupPeer() as peer:
        async with member_of(peer) as consumer:
            consumer.subscribe(["t"], listener=Closes())
            await take(consumer, 1)
        assert len(told) == 1
        assert peer.committed[-1] == (1, 7)


async def test_nothing_is_committed_behind_the_last_commit() -> None:
    """What is in hand counts when the consumer is closed in good order, however long its listener takes after that."""

    class Slow(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
            # Longer than the time between two commits.
            await asyncio.sleep(0.3)

    async with GroupPeer() as peer:
        async with member_of(peer, auto_commit_interval_ms=200) as consumer:
            consumer.subscribe(["t"], listener=Slow())
            await take(consumer, 3)
        offsets = [offset for _, offset in peer.committed]
        assert offsets == sorted(offsets) and offsets[-1] == 3


async def test_subscribing_anew_while_a_join_is_on_its_way() -> None:
    """The answer is for the member that has left by then, and is soon to be none."""
    async with GroupPeer() as peer, member_of(peer) as consumer:
        await take(consumer, 1)
        group = consumer._require_group()
        left = group.member.metadata.member_id

        def join(request: JoinGroupRequest) -> JoinGroupResponse:
            if request.member_id:
                consumer.unsubscribe()
                consumer.subscribe(["t"])
            answer = peer._join(request)
            answer.member_id = answer.leader = answer.members[0].member_id = request.member_id or "another"
            return answer

        peer.answers[JoinGroupRequest] = join
        peer.heartbeat_codes = [ErrorCode.REBALANCE_IN_PROGRESS]
        await eventually(lambda: peer.asked(LeaveGroupRequest))
        assert [each.members[0].member_id for each in peer.asked(LeaveGroupRequest)] == [left]
        await eventually(lambda: group.member.metadata.member_id == "another")
        await take(consumer, 1)


# ------------------------------------------------------------------------------------------------------ starting


async def test_started_twice_at_once() -> None:
    async with GroupPeer() as peer:
        consumer = Consumer("t", bootstrap_servers=peer.bootstrap, group_id="g", auto_offset_reset="earliest")
        await asyncio.gather(consumer.start(), consumer.start())
        await take(consumer, 1)
        await consumer.stop()
        assert asyncio.all_tasks() - peer._tasks == {asyncio.current_task()}


async def test_stopped_while_it_starts() -> None:
    async with GroupPeer() as peer:
        peer.answers[MetadataRequest] = lambda _: None
        consumer = Consumer("t", bootstrap_servers=peer.bootstrap, group_id="g")
        starting = asyncio.create_task(consumer.start())
        await eventually(lambda: peer.asked(MetadataRequest))
        await consumer.stop()
        with pytest.raises(ClientClosed):
            await starting
        assert asyncio.all_tasks() - peer._tasks == {asyncio.current_task()}
