"""Schedules about wall clocks that are wrong: nothing is deleted, and no active producer is forgotten, because of one.

L is the leader, F and G follow.
"""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.broker.clock import CONFIRMATION_MS, SteadyClock
from minikafka.protocol.errors import KafkaError
from minikafka.storage.producers import Producer
from tests.schedules.stage import Violation, must, must_fail, play
from tests.sim.client import Sequence5
from tests.sim.clock import WALL_MS
from tests.sim.cluster import SimCluster
from tests.sim.group_client import COORDINATORS, GroupClient

L, F, G = 1, 2, 3
HOUR_MS = 3_600_000
_SETTINGS = {
    "producer.id.expiration.check.interval.ms": "1000",
    "log.retention.check.interval.ms": "1000",
}


async def _cluster(**configs: str) -> SimCluster:
    cluster = await SimCluster.start(3, _SETTINGS)
    await cluster.create_topic(configs={name.replace("_", "."): value for name, value in configs.items()})
    return cluster


# ------------------------------------------------------------------------------------------------------------ producers


async def retry_after_a_jump() -> None:
    """A retry comes after the leader's clock was set a day ahead. It must be recognised."""
    cluster = await _cluster()
    sequence = Sequence5(7, 0, 0)
    await cluster.client.produce(L, b"m1", sequence=sequence)
    cluster.nodes[L].clock.jump(25 * HOUR_MS)
    await cluster.wait(3)
    offset = await cluster.client.produce(L, b"m1", sequence=sequence)
    must((offset, cluster.values(L)) == (0, [b"m1"]), "a record was written twice")


async def retry_of_an_old_record() -> None:
    """A producer writes records that are days old, as a backfill does. It is active all the same."""
    cluster = await _cluster(retention_ms="-1")
    sequence, timestamp_ms = Sequence5(7, 0, 0), WALL_MS - 72 * HOUR_MS
    await cluster.client.produce(L, b"m1", sequence=sequence, timestamp_ms=timestamp_ms)
    await cluster.wait(3)
    offset = await cluster.client.produce(L, b"m1", sequence=sequence, timestamp_ms=timestamp_ms)
    must((offset, cluster.values(L)) == (0, [b"m1"]), "a record was written twice")


async def retry_of_an_old_record_after_a_restart() -> None:
    """The same, and the broker is restarted in between: the producer has its time from there on."""
    cluster = await _cluster(retention_ms="-1")
    sequence, timestamp_ms = Sequence5(7, 0, 0), WALL_MS - 72 * HOUR_MS
    await cluster.client.produce(L, b"m1", sequence=sequence, timestamp_ms=timestamp_ms)
    for broker_id in (L, F, G):
        await cluster.stop(broker_id)
        await cluster.boot(broker_id)
    await cluster.until(lambda: cluster.state().leader > 0)
    leader = cluster.state().leader
    await cluster.until_leads(leader)
    await cluster.wait(3)
    offset = await cluster.client.produce(leader, b"m1", sequence=sequence, timestamp_ms=timestamp_ms)
    must((offset, cluster.values(leader)) == (0, [b"m1"]), "a record was written twice")


def producers_expire_by_their_records(patch: pytest.MonkeyPatch) -> None:
    def is_expired(self: Producer, now_ms: int, expiration_ms: int) -> bool:
        return WALL_MS - self.last_timestamp >= expiration_ms

    patch.setattr(Producer, "is_expired", is_expired)


# ------------------------------------------------------------------------------------------------------------ retention


async def retention_while_the_clock_is_ahead() -> None:
    """The leader's clock is a day ahead for five seconds, which is more than `retention.ms`."""
    cluster = await _cluster(retention_ms=str(12 * HOUR_MS))
    for number in range(3):
        await cluster.client.produce(L, b"m%d" % number)
    cluster.nodes[L].clock.jump(24 * HOUR_MS)
    await cluster.wait(5)
    cluster.nodes[L].clock.jump(-24 * HOUR_MS)
    await cluster.wait(5)
    must(len(cluster.values(L)) == 3 and len(cluster.values(F)) == 3, "a clock that was wrong has deleted records")


async def retention_after_the_clock_was_behind() -> None:
    """The leader's clock is a day behind for a while, and so are the timestamps that it writes."""
    cluster = await _cluster(retention_ms=str(12 * HOUR_MS), message_timestamp_type="LogAppendTime")
    cluster.nodes[L].clock.jump(-24 * HOUR_MS)
    await cluster.wait(5)
    await cluster.client.produce(L, b"m1")
    await cluster.wait(5)
    cluster.nodes[L].clock.jump(24 * HOUR_MS)
    await cluster.wait(5)
    must(cluster.values(L) == [b"m1"], "a clock that was corrected has deleted records")


async def retention_of_what_grows_old_under_a_wrong_clock() -> None:
    """Retention goes on under a clock that is ahead, and at its own pace: what is old enough expires."""
    cluster = await _cluster(retention_ms="20000")
    await cluster.client.produce(L, b"m1", timestamp_ms=WALL_MS)
    cluster.nodes[L].clock.jump(24 * HOUR_MS)
    await cluster.wait(10)
    assert cluster.values(L) == [b"m1"]
    await cluster.wait(20)
    must(cluster.values(L) == [], "retention stands still while a clock is wrong")


def the_wall_clock_is_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("minikafka.broker.clock.STEP_MS_MAX", CONFIRMATION_MS * 365)


def a_clock_is_never_followed_back(patch: pytest.MonkeyPatch) -> None:
    def wall_ms(self: SteadyClock) -> int:
        return WALL_MS + self.uptime_ms()

    patch.setattr(SteadyClock, "wall_ms", wall_ms)


# -------------------------------------------------------------------------------------------------------- coordinators


async def transaction_while_the_clock_jumps() -> None:
    """The clocks of all brokers are set ahead by a day while a transaction is open, which takes seconds."""
    cluster, client = await _coordinators()
    producer = await client.init_producer()
    await client.commit_within(producer, 5)
    for broker_id in (L, F, G):
        cluster.nodes[broker_id].clock.jump(24 * HOUR_MS)
    await cluster.wait(5)
    try:
        await client.end(producer)
    except KafkaError as error:
        raise Violation(f"a jump of the clock has aborted a transaction: {error}") from error
    await cluster.wait(1)
    assert await client.fetch() == 5


async def transaction_that_times_out_after_a_jump() -> None:
    """A transaction that begins under a clock that is ahead times out as always."""
    cluster, client = await _coordinators()
    for broker_id in (L, F, G):
        cluster.nodes[broker_id].clock.jump(24 * HOUR_MS)
    producer = await client.init_producer(timeout_ms=4000)
    await client.commit_within(producer, 5)
    await cluster.wait(3)
    for broker_id in (L, F, G):
        cluster.nodes[broker_id].clock.jump(-24 * HOUR_MS)
    await cluster.wait(3)
    must(await client.fetch() == -1, "a transaction is open for longer than its timeout")


async def offsets_while_the_clock_jumps() -> None:
    """The clocks of all brokers are set ahead by more than `offsets.retention.minutes`."""
    cluster, client = await _coordinators()
    await client.commit(5)
    for broker_id in (L, F, G):
        cluster.nodes[broker_id].clock.jump(30 * 24 * HOUR_MS)
    await cluster.wait(5)
    must(await client.fetch() == 5, "a jump of the clock has deleted a committed offset")


async def _coordinators() -> tuple[SimCluster, GroupClient]:
    settings = {
        **COORDINATORS,
        "offsets.retention.check.interval.ms": "1000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
    cluster = await SimCluster.start(3, settings)
    await cluster.create_topic()
    client = GroupClient(cluster)
    await client.start()
    return cluster, client


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    retry_after_a_jump,
    retry_of_an_old_record,
    retry_of_an_old_record_after_a_restart,
    retention_while_the_clock_is_ahead,
    retention_after_the_clock_was_behind,
    retention_of_what_grows_old_under_a_wrong_clock,
    transaction_while_the_clock_jumps,
    transaction_that_times_out_after_a_jump,
    offsets_while_the_clock_jumps,
]

MUTANTS: list[Any] = [
    (retry_of_an_old_record, producers_expire_by_their_records),
    (retry_of_an_old_record_after_a_restart, producers_expire_by_their_records),
    (retention_while_the_clock_is_ahead, the_wall_clock_is_believed),
    (retention_after_the_clock_was_behind, the_wall_clock_is_believed),
    (transaction_while_the_clock_jumps, the_wall_clock_is_believed),
    (offsets_while_the_clock_jumps, the_wall_clock_is_believed),
    (retention_after_the_clock_was_behind, a_clock_is_never_followed_back),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
