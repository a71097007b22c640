"""Groups on real brokers: dividing partitions, handing them over, committing, staying and leaving."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from minikafka.client.consumer import Consumer
from minikafka.client.consumer.errors import CommitFailed
from minikafka.client.structs import OffsetAndMetadata, TopicPartition
from minikafka.protocol.errors import FencedInstanceIdError, InconsistentGroupProtocolError
from tests.broker.eventually import eventually
from tests.client.consumer.groups import SETTLE_S, Reader, all_found, reader, wait_settled
from tests.client.consumer.reading import numbers, open_consumer, take, take_many, values
from tests.compat.clients.confluent import Confluent, ConfluentAdmin
from tests.compat.clients.topics import Topics

PARTITIONS = 6
STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


async def produce(confluent: Confluent, topic: str, each: int, partitions: int = PARTITIONS) -> None:
    for number in range(partitions):
        await asyncio.to_thread(confluent.produce, topic, numbers(0, each), number)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_members_come_and_go(bootstrap: str, confluent: Confluent, topics: Topics, strategy: str) -> None:
    topic = topics.make(PARTITIONS)
    members: list[Reader] = []
    async with AsyncExitStack() as first, AsyncExitStack() as others:
        options = {"partition_assignment_strategy": strategy}
        members.append(await first.enter_async_context(reader(bootstrap, topic, **options)))
        await wait_settled(members, PARTITIONS)
        await produce(confluent, topic, 20)
        for count in (2, 3, 5):
            while len(members) < count:
                members.append(await others.enter_async_context(reader(bootstrap, topic, **options)))
            await wait_settled(members, PARTITIONS)
            await produce(confluent, topic, 20)
        await others.aclose()
        await wait_settled(members[:1], PARTITIONS)
        await produce(confluent, topic, 20)
        expected = {(number, offset): 1 for number in range(PARTITIONS) for offset in range(100)}
        await eventually(lambda: len(all_found(members)) == len(expected), SETTLE_S)
        # Nobody crashed, so nothing is read twice either.
        assert all_found(members) == expected
        for member in members:
            for number in range(PARTITIONS):
                offsets = [offset for partition, offset in member.order if partition == number]
                assert offsets == sorted(offsets)


async def test_a_cooperative_member_goes_on_with_what_it_keeps(
    bootstrap: str, confluent: Confluent, topics: Topics
) -> None:
    topic = topics.make(PARTITIONS)
    options = {"partition_assignment_strategy": ["cooperative-sticky"]}
    async with reader(bootstrap, topic, **options) as first:
        await wait_settled([first], PARTITIONS)
        async with reader(bootstrap, topic, **options) as second:
            await wait_settled([first, second], PARTITIONS)
            everything, kept = frozenset(range(PARTITIONS)), first.partitions
            # Three are given up, and the other three never were away.
            await eventually(lambda: len(second.witness.told) == 1)
            assert first.witness.told == [("assigned", everything), ("revoked", everything - kept)]
            assert second.witness.told == [("assigned", everything - kept)]
            before = second.partitions
        await wait_settled([first], PARTITIONS)
        await eventually(lambda: len(first.witness.told) == 3)
        assert first.witness.told[2:] == [("assigned", before)]
        assert second.witness.told[1:] == [("revoked", before)]


async def test_an_eager_member_gives_up_everything_and_gets_most_of_it_back(bootstrap: str, topics: Topics) -> None:
    topic = topics.make(PARTITIONS)
    async with reader(bootstrap, topic) as first:
        await wait_settled([first], PARTITIONS)
        async with reader(bootstrap, topic) as second:
            await wait_settled([first, second], PARTITIONS)
            everything = frozenset(range(PARTITIONS))
            await eventually(lambda: len(first.witness.told) == 3)
            kept = first.partitions
            assert first.witness.told == [("assigned", everything), ("revoked", everything), ("assigned", kept)]
            assert len(kept) == 3


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
async def test_a_rebalance_waits_a_moment_for_work_in_hand(
    bootstrap: str, confluent: Confluent, topics: Topics, strategy: str
) -> None:
    topic = topics.make(2)
    await produce(confluent, topic, 10, 2)
    options = {"partition_assignment_strategy": strategy, "heartbeat_interval_ms": 1000}
    done: Counter[tuple[int, int]] = Counter()
    async with open_consumer(bootstrap, topic, group_id=topic, **options) as slow:
        await take(slow, 1)
        async with reader(bootstrap, topic, **options) as other:
            # A record of each partition is worked on while the other one joins.
            for _ in range(19):
                try:
                    record = await asyncio.wait_for(slow.getone(), 3)
                except TimeoutError:
                    break
                await asyncio.sleep(0.3)
                done[record.partition, record.offset] += 1
            await eventually(lambda: len(done + other.found) >= 19, SETTLE_S)
            assert other.found
            assert [where for where, times in (done + other.found).items() if times > 1] == []


async def test_work_that_takes_longer_is_done_again_by_whoever_gets_it(
    bootstrap: str, confluent: Confluent, topics: Topics
) -> None:
    topic = topics.make(2)
    await produce(confluent, topic, 3, 2)
    options = {
        "group_id": topic,
        "partition_assignment_strategy": "cooperative-sticky",
        "rebalance_timeout_ms": 4_000,
    }
    async with open_consumer(bootstrap, topic, **options) as stuck:
        for number in (0, 1, 1):
            await asyncio.wait_for(stuck.getone(TopicPartition(topic, number)), SETTLE_S)
        # It keeps the first partition. Of the second it has the second record in hand, and has finished the first.
        async with reader(bootstrap, topic, **options) as other:
            await eventually(lambda: other.order == [(1, 1), (1, 2)], SETTLE_S)
            assert other.partitions == {1}


async def test_new_partitions_are_found(
    bootstrap: str, confluent: Confluent, keeper: ConfluentAdmin, topics: Topics
) -> None:
    topic = topics.make(2)
    options = {"metadata_max_age_ms": 300}
    async with reader(bootstrap, topic, **options) as first, reader(bootstrap, topic, **options) as second:
        await wait_settled([first, second], 2)
        keeper.add_partitions(topic, 4)
        await wait_settled([first, second], 4)
        await produce(confluent, topic, 5, 4)
        await eventually(lambda: len(all_found([first, second])) == 20, SETTLE_S)


async def test_another_subscription(bootstrap: str, confluent: Confluent, topics: Topics) -> None:
    first, second = topics.make(), topics.make()
    confluent.produce(first, numbers(0, 3))
    confluent.produce(second, numbers(3, 6))
    async with open_consumer(bootstrap, first, group_id=first) as consumer:
        assert values(await take(consumer, 3)) == [0, 1, 2]
        consumer.subscribe([second])
        assert values(await take(consumer, 3)) == [3, 4, 5]
        assert consumer.assignment() == {TopicPartition(second, 0)}
        assert await consumer.committed(TopicPartition(first, 0)) == 3
        consumer.unsubscribe()
        assert consumer.assignment() == frozenset()
        consumer.assign([TopicPartition(first, 0)])
        await consumer.seek_to_beginning()
        assert values(await take(consumer, 1)) == [0]


async def test_commits(bootstrap: str, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make(2)
    await produce(confluent, topic, 10, 2)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with open_consumer(bootstrap, topic, group_id=topic, enable_auto_commit=False) as consumer:
        await take(consumer, 20)
        assert await consumer.committed(zero) is None
        await consumer.commit({zero: 4, one: OffsetAndMetadata(5, "half")})
        assert (await consumer.committed(zero), await consumer.committed(one)) == (4, 5)
        assert (await consumer.committed_offsets([zero, one]))[one].metadata == "half"
        await consumer.seek_to_committed()
        assert (await consumer.position(zero), await consumer.position(one)) == (4, 5)
        assert sorted((record.partition, record.offset) for record in await take(consumer, 11)) == [
            *((0, offset) for offset in range(4, 10)),
            *((1, offset) for offset in range(5, 10)),
        ]
        await consumer.commit()
        assert await consumer.committed(zero) == 10
        who = consumer.group_metadata()
        assert (who.group_id, who.generation_id > 0, bool(who.member_id)) == (topic, True, True)
    async with open_consumer(bootstrap, topic, group_id=topic) as consumer:
        assert await consumer.getmany(timeout_ms=1000) == {}
        assert await consumer.position(one) == 10


async def test_commits_of_partitions_chosen_by_hand(bootstrap: str, confluent: Confluent, topic: str) -> None:
    confluent.produce(topic, numbers(0, 10))
    tp = TopicPartition(topic, 0)
    async with open_consumer(bootstrap, group_id=topic) as consumer:
        consumer.assign([tp])
        assert values(await take(consumer, 6)) == [*range(6)]
        await consumer.commit()
        assert consumer.group_metadata().member_id == ""
    async with open_consumer(bootstrap, group_id=topic) as consumer:
        consumer.assign([tp])
        assert values(await take(consumer, 4)) == [6, 7, 8, 9]


async def wait_committed(consumer: Consumer, tp: TopicPartition, offset: int) -> None:
    async with asyncio.timeout(SETTLE_S):
        while await consumer.committed(tp) != offset:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_is_in_hand_is_not_committed_by_the_clock(bootstrap: str, confluent: Confluent, topic: str) -> None:
    confluent.produce(topic, numbers(0, 100))
    tp = TopicPartition(topic, 0)
    with pytest.raises(ZeroDivisionError):
        async with open_consumer(bootstrap, topic, group_id=topic, auto_commit_interval_ms=50) as consumer:
            await take(consumer, 10)
            await wait_committed(consumer, tp, 9)
            # Record 9 may still be worked on, however often the clock strikes.
            await asyncio.sleep(0.2)
            assert await consumer.committed(tp) == 9
            await take(consumer, 1)
            await wait_committed(consumer, tp, 10)
            await consumer.getmany(max_records=5)
            raise ZeroDivisionError
    async with open_consumer(bootstrap, topic, group_id=topic) as consumer:
        # The five of the failed program are read again.
        assert values(await take(consumer, 1)) == [11]


async def test_a_program_that_is_stuck_loses_its_partitions(bootstrap: str, confluent: Confluent, topic: str) -> None:
    confluent.produce(topic, numbers(0, 4))
    options = {"group_id": topic, "max_poll_interval_ms": 800, "heartbeat_interval_ms": 100}
    async with open_consumer(bootstrap, topic, **options) as stuck:
        assert values(await take(stuck, 2)) == [0, 1]
        async with reader(bootstrap, topic) as other:
            await eventually(lambda: not stuck.assignment(), SETTLE_S)
            await wait_settled([other], 1)
            await eventually(lambda: len(other.found) >= 2, SETTLE_S)
            with pytest.raises(CommitFailed):
                await stuck.commit({TopicPartition(topic, 0): 2})
        # Coming back is enough to be a member again.
        confluent.produce(topic, numbers(4, 5))
        assert values(await take(stuck, 1)) == [4]
        assert stuck.assignment()


async def test_slow_work_is_no_reason_to_leave(bootstrap: str, confluent: Confluent, topic: str) -> None:
    confluent.produce(topic, numbers(0, 10))
    options = {"group_id": topic, "session_timeout_ms": 6000, "heartbeat_interval_ms": 300}
    async with open_consumer(bootstrap, topic, **options) as consumer:
        await take(consumer, 1)
        await asyncio.sleep(7.5)
        await consumer.commit()
        assert consumer.metrics().rebalances == 1
        assert values(await take(consumer, 9)) == [*range(1, 10)]


async def test_a_static_member_comes_back_to_its_partitions(bootstrap: str, topics: Topics) -> None:
    topic = topics.make(4)
    options = {"partition_assignment_strategy": "range"}
    async with reader(bootstrap, topic, group_instance_id="one", **options) as one:
        async with reader(bootstrap, topic, group_instance_id="two", **options) as two:
            await wait_settled([one, two], 4)
            had = two.partitions
            count = one.consumer.metrics().rebalances
        async with reader(bootstrap, topic, group_instance_id="two", **options) as two:
            await eventually(lambda: two.partitions == had, SETTLE_S)
            # The other one has noticed nothing.
            assert one.consumer.metrics().rebalances == count
            assert ("revoked", one.partitions) not in one.witness.told[-1:]


async def test_two_with_the_same_instance_id(bootstrap: str, topic: str) -> None:
    options = {"group_id": topic, "group_instance_id": "same", "heartbeat_interval_ms": 100}
    async with open_consumer(bootstrap, topic, **options) as first:
        await eventually(lambda: first.assignment(), SETTLE_S)
        async with open_consumer(bootstrap, topic, **options) as second:
            await eventually(lambda: second.assignment(), SETTLE_S)
            for _ in range(2):
                with pytest.raises(FencedInstanceIdError):
                    async with asyncio.timeout(SETTLE_S):
                        await first.getone()


async def test_members_that_have_no_assignor_in_common(bootstrap: str, topic: str) -> None:
    async with open_consumer(bootstrap, topic, group_id=topic, partition_assignment_strategy="range") as first:
        await eventually(lambda: first.assignment(), SETTLE_S)
        async with open_consumer(bootstrap, topic, group_id=topic, partition_assignment_strategy="sticky") as second:
            with pytest.raises(InconsistentGroupProtocolError):
                async with asyncio.timeout(SETTLE_S):
                    await second.getone()


class _Seeks(Consumer):
    """A listener too, that goes where the program wants before anything is read."""

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        for tp in assigned:
            assert await self.position(tp) == 0
            self.seek(tp, 7)

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        raise LookupError("a listener that fails does not stop the group")


async def test_a_listener_may_seek_and_may_fail(bootstrap: str, confluent: Confluent, topic: str) -> None:
    confluent.produce(topic, numbers(0, 10))
    options = {"group_id": topic, "auto_offset_reset": "earliest", "rebalance_timeout_ms": 4_000}
    async with _Seeks(bootstrap_servers=bootstrap, **options) as consumer:  # type: ignore[arg-type]
        consumer.subscribe([topic], listener=consumer)  # type: ignore[arg-type]
        assert values(await take(consumer, 1)) == [7]
        consumer.subscribe([topic], listener=consumer)  # type: ignore[arg-type]
        await eventually(lambda: consumer.metrics().rebalances == 2, SETTLE_S)
        assert values(await take_many(consumer, 1, max_records=1)) == [7]
