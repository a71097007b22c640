"""The generation and the offsets that a program commits are those of the records that it was given."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from minikafka.client.consumer import Consumer
from minikafka.client.consumer.assignors.base import encode_assignment
from minikafka.client.consumer.errors import CommitFailed
from minikafka.client.consumer.membership import State
from minikafka.client.errors import ClientClosed, IllegalState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.groups import JoinGroupRequest, SyncGroupRequest, SyncGroupResponse
from minikafka.protocol.messages.offsets import OffsetFetchRequest
from tests.broker.eventually import eventually
from tests.client.consumer.reading import READ_S, open_consumer, take, take_batches, take_many, values
from tests.client.consumer.test_scripted_coordinator import COOPERATIVE, TP, GroupPeer, member_of, state_of

MANUAL: dict[str, Any] = {"enable_auto_commit": False}
LONG_MS = 120_000


async def rebalance(peer: GroupPeer, consumer: Consumer) -> None:
    """Have the group go on to the next generation."""
    before = peer.generation
    peer.heartbeat_codes = [ErrorCode.REBALANCE_IN_PROGRESS]
    await eventually(lambda: peer.generation > before and state_of(consumer) is State.STABLE)


def give_to_others(peer: GroupPeer) -> None:
    """From now on this member gets nothing."""
    nothing = encode_assignment([])
    peer.answers[SyncGroupRequest] = lambda _: SyncGroupResponse(assignment=nothing)


async def read_somehow(consumer: Consumer, how: str) -> None:
    if how == "getone":
        await take(consumer, 3)
    elif how == "getmany":
        await take_many(consumer, 3, max_records=3)
    else:
        await take_batches(consumer, 3, max_records=3)


@pytest.mark.parametrize("how", ["getone", "getmany", "getbatch"])
async def test_partition_that_came_back_is_another_generation(how: str) -> None:
    """With an eager assignor the partition was anybody's in between."""
    async with GroupPeer() as peer, member_of(peer, **MANUAL) as consumer:
        await read_somehow(consumer, how)
        await rebalance(peer, consumer)
        assert consumer.assignment() == {TP}
        assert consumer.group_metadata().generation_id == 1
        with pytest.raises(CommitFailed):
            await consumer.commit()
        assert not peer.committed
        # It is read again, and in the new generation.
        assert values(await take(consumer, 2)) == [0, 1]
        assert consumer.group_metadata().generation_id == 2
        await consumer.commit()
        assert peer.committed == [(2, 2)]


async def test_explicit_offsets_of_partition_that_came_back() -> None:
    async with GroupPeer() as peer, member_of(peer, **MANUAL) as consumer:
        await take(consumer, 3)
        await rebalance(peer, consumer)
        with pytest.raises(CommitFailed):
            await consumer.commit({TP: 3})
        assert not peer.committed


async def test_kept_partition_goes_on_in_next_generation() -> None:
    async with GroupPeer() as peer, member_of(peer, **MANUAL, **COOPERATIVE) as consumer:
        await take(consumer, 3)
        await rebalance(peer, consumer)
        assert consumer.group_metadata().generation_id == 2
        await consumer.commit()
        await consumer.commit({TP: 2})
        assert peer.committed == [(2, 3), (2, 2)]


@pytest.mark.parametrize("options", [{}, COOPERATIVE], ids=["eager", "cooperative"])
async def test_commit_of_partition_that_went_to_others(options: dict[str, Any]) -> None:
    async with GroupPeer() as peer, member_of(peer, **MANUAL, **options) as consumer:
        await take(consumer, 3)
        give_to_others(peer)
        peer.heartbeat_codes = [ErrorCode.REBALANCE_IN_PROGRESS]
        await eventually(lambda: not consumer.assignment() and state_of(consumer) is State.STABLE)
        # A cooperative member gives it up in the second generation, and nobody has it before the third.
        assert consumer.group_metadata().generation_id == (2 if options else 1)
        with pytest.raises(CommitFailed):
            await consumer.commit()
        with pytest.raises(CommitFailed):
            await consumer.commit({TP: 3})
        assert not peer.committed


async def test_rebalance_waits_for_records_in_hand() -> None:
    async with GroupPeer() as peer, member_of(peer, **MANUAL, rebalance_timeout_ms=LONG_MS) as consumer:
        await take(consumer, 3)
        peer.heartbeat_codes = [ErrorCode.REBALANCE_IN_PROGRESS]
        await eventually(lambda: state_of(consumer) is State.JOINING)
        # The group is between two generations, and takes the commit of the old one.
        await consumer.commit()
        assert peer.committed == [(1, 3)]
        assert len(peer.asked(JoinGroupRequest)) == 1
        assert values(await take(consumer, 1)) == [0]
        assert peer.generation == 2


async def test_rebalance_does_not_wait_for_a_program_that_closes() -> None:
    async with GroupPeer() as peer:
        with pytest.raises(ZeroDivisionError):
            async with member_of(peer, rebalance_timeout_ms=LONG_MS) as consumer:
                await take(consumer, 3)
                peer.heartbeat_codes = [ErrorCode.REBALANCE_IN_PROGRESS]
                await eventually(lambda: state_of(consumer) is State.JOINING)
                raise ZeroDivisionError
        assert peer.committed[-1] == (1, 2)


async def test_rebalance_does_not_wait_for_records_of_a_member_that_was_thrown_out() -> None:
    async with GroupPeer() as peer, member_of(peer, **MANUAL, rebalance_timeout_ms=LONG_MS) as consumer:
        await take(consumer, 3)
        peer.heartbeat_codes = [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID]
        await eventually(lambda: peer.generation == 2 and state_of(consumer) is State.STABLE)
        assert consumer.group_metadata().generation_id == 1


async def test_generation_is_kept_by_member_that_was_thrown_out() -> None:
    """A coordinator takes transactional offsets without any generation from anybody."""
    async with GroupPeer() as peer, member_of(peer, **MANUAL) as consumer:
        await take(consumer, 3)
        seen = {consumer.group_metadata()}
        peer.heartbeat_codes = [ErrorCode.UNKNOWN_MEMBER_ID]
        peer.answers[JoinGroupRequest] = lambda _: None
        core = consumer._core
        assert core is not None and core.group is not None
        member = core.group.member
        await eventually(lambda: not member.membership.is_known)
        seen.add(consumer.group_metadata())
        await eventually(lambda: not consumer.assignment())
        seen.add(consumer.group_metadata())
        assert [(who.generation_id, who.member_id) for who in seen] == [(1, "me")]


async def test_commit_between_generations_ends_when_consumer_is_closed() -> None:
    """What it waits for is the member's next generation, and there will be none."""
    async with GroupPeer() as peer, member_of(peer, **MANUAL, **COOPERATIVE) as consumer:
        await take(consumer, 3)
        peer.answers[JoinGroupRequest] = lambda _: None
        peer.commit_code = lambda _: ErrorCode.REBALANCE_IN_PROGRESS
        peer.heartbeat_codes = [ErrorCode.REBALANCE_IN_PROGRESS]
        await eventually(lambda: len(peer.asked(JoinGroupRequest)) == 2)
        committing = asyncio.create_task(consumer.commit())
        await eventually(lambda: len(peer.committed) == 1)
        await consumer.stop()
        async with asyncio.timeout(READ_S):
            with pytest.raises(ClientClosed):
                await committing


async def test_records_of_partitions_that_the_program_gave_back_are_forgotten() -> None:
    async with GroupPeer() as peer, open_consumer(peer.bootstrap) as consumer:
        consumer.assign([TP])
        await take(consumer, 3)
        assert consumer._core is not None
        state = weakref.ref(consumer._core.assigned.get(TP))
        consumer.assign([])
        await eventually(lambda: gc.collect() >= 0 and state() is None)


async def test_records_count_until_they_are_committed() -> None:
    """A program may collect records before it commits them, and wait for more when the partition is taken away."""
    async with GroupPeer() as peer, member_of(peer, **MANUAL) as consumer:
        await take(consumer, 10)
        waiting = asyncio.create_task(take(consumer, 1))
        await eventually(lambda: consumer._require_core().delivery.is_waiting)
        await rebalance(peer, consumer)
        await waiting
        assert consumer.group_metadata().generation_id == 1
        with pytest.raises(CommitFailed):
            await consumer.commit()


@pytest.mark.parametrize("how", ["commit", "transaction"])
async def test_committed_records_count_no_longer(how: str) -> None:
    async with GroupPeer() as peer, member_of(peer, **MANUAL) as consumer:
        await take(consumer, 10)
        if how == "commit":
            await consumer.commit()
        else:
            # As for a producer's transaction.
            consumer.group_metadata()
        waiting = asyncio.create_task(take(consumer, 1))
        await eventually(lambda: consumer._require_core().delivery.is_waiting)
        await rebalance(peer, consumer)
        await waiting
        assert consumer.group_metadata().generation_id == 2
        await consumer.commit()


async def test_record_after_group_metadata_counts_for_next_one() -> None:
    async with GroupPeer() as peer, member_of(peer, **MANUAL) as consumer:
        await take(consumer, 1)
        consumer.group_metadata()
        await take(consumer, 9)
        await rebalance(peer, consumer)
        assert consumer.group_metadata().generation_id == 1


async def test_commit_that_fails_leaves_records_open() -> None:
    async with GroupPeer() as peer, member_of(peer, **MANUAL) as consumer:
        await take(consumer, 3)
        peer.commit_code = lambda _: ErrorCode.OFFSET_METADATA_TOO_LARGE
        with pytest.raises(Exception, match="OFFSET_METADATA_TOO_LARGE"):
            await consumer.commit()
        peer.commit_code = lambda _: ErrorCode.NONE
        await rebalance(peer, consumer)
        with pytest.raises(CommitFailed):
            await consumer.commit()


async def test_unsubscribed_records_are_of_the_generation_that_was_left() -> None:
    async with GroupPeer() as peer, member_of(peer, **MANUAL) as consumer:
        await take(consumer, 3)
        consumer.unsubscribe()
        assert consumer.group_metadata().generation_id == 1
        with pytest.raises(IllegalState):
            await consumer.commit()


async def test_committed_offsets_wait_for_transactions() -> None:
    """Of the member that had the partition before, whatever the isolation level (KIP-447)."""
    async with GroupPeer() as peer, member_of(peer) as consumer:
        await take(consumer, 1)
        assert all(request.require_stable for request in peer.asked(OffsetFetchRequest))
