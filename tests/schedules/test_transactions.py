"""Schedules about transactions whose requests arrive late: after their producer, or coordinator, has gone on.

A request that is given up and repeated over another connection can still arrive. Two messages say only whose
transaction they end, not which one: EndTxn from the producer, and WriteTxnMarkers from the coordinator (KIP-890).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from minikafka.broker.coordinators.transactions.late_markers import LateMarkers
from minikafka.broker.coordinators.transactions.shard import TransactionShard
from minikafka.broker.internal_topics import TRANSACTION_STATE
from minikafka.broker.network.peer import PeerGone
from tests.schedules.stage import must, must_fail, play
from tests.schedules.transacting import COORDINATOR, Transactor, read_committed, start, state_of
from tests.sim.client import TOPIC, host_of
from tests.sim.cluster import SimCluster

LEADER = 1
OLD, NEW = "producer-old", "producer-new"


async def _begin_after_lost_end(cluster: SimCluster, producer: Transactor) -> None:
    """Transaction 1 is committed over a second connection, since its end was held up on the first; 2 is open."""
    await producer.init(OLD)
    await producer.add(OLD)
    await producer.write(OLD, b"1")
    cluster.network.cut(OLD, host_of(COORDINATOR))
    with suppress(PeerGone):
        await producer.client(OLD).ask(COORDINATOR, *producer.end_request(commit=True))
    await producer.end(NEW, commit=True)
    await producer.add(NEW)
    await producer.write(NEW, b"2")


async def _abort_after_late_arrival(cluster: SimCluster, producer: Transactor) -> None:
    """What is held up arrives, and the producer aborts transaction 2: nobody has read anything of it."""
    cluster.network.heal_all()
    await cluster.wait(2)
    must(b"2" not in await read_committed(cluster), "an open transaction was committed")
    await producer.end(NEW, commit=False)
    await cluster.wait(1)
    values = await read_committed(cluster)
    must(values == [b"1"], f"transaction 1 was committed and 2 was aborted, but readers see {values}")


async def _move_and_back(cluster: SimCluster, topic: str) -> None:
    """Another replica leads partition 0 for a moment; all connections stay open."""
    first = state_of(cluster, topic).leader
    cluster.expire(first)
    await cluster.until(lambda: state_of(cluster, topic).leader not in (-1, first))
    await cluster.until(lambda: first in state_of(cluster, topic).isr)
    assert cluster.controller_id is not None
    await cluster.client.elect_preferred(cluster.controller_id, topic)
    await cluster.until(lambda: state_of(cluster, topic).leader == first)
    await cluster.wait(1)


# ------------------------------------------------------------------------------------------------------- a late EndTxn


async def end_over_older_connection(version: int) -> None:
    """The end of transaction 1 arrives when 2 is open."""
    cluster = await start()
    producer = Transactor(cluster, version)
    await _begin_after_lost_end(cluster, producer)
    await _abort_after_late_arrival(cluster, producer)


async def end_after_reload(version: int) -> None:
    """The same; in between the death of another replica has the coordinator load its partition again."""
    cluster = await start()
    producer = Transactor(cluster, version)
    await _begin_after_lost_end(cluster, producer)
    before = state_of(cluster).leader_epoch
    cluster.kill(3)
    cluster.expire_dead()
    await cluster.until(lambda: state_of(cluster).leader_epoch > before)
    await cluster.wait(2)
    assert state_of(cluster).leader == COORDINATOR
    await _abort_after_late_arrival(cluster, producer)


async def end_after_two_moves(version: int) -> None:
    """The same; transaction 2 begins at another coordinator, and the first one is in charge again."""
    cluster = await start()
    producer = Transactor(cluster, version)
    await producer.init(OLD)
    await producer.add(OLD)
    await producer.write(OLD, b"1")
    cluster.network.cut(OLD, host_of(COORDINATOR))
    with suppress(PeerGone):
        await producer.client(OLD).ask(COORDINATOR, *producer.end_request(commit=True))
    cluster.expire(COORDINATOR)
    await cluster.until(lambda: state_of(cluster).leader not in (-1, COORDINATOR))
    await producer.end(NEW, commit=True)
    await producer.add(NEW)
    await producer.write(NEW, b"2")
    await cluster.until(lambda: COORDINATOR in state_of(cluster).isr)
    assert cluster.controller_id is not None
    await cluster.client.elect_preferred(cluster.controller_id, TRANSACTION_STATE)
    await cluster.until(lambda: state_of(cluster).leader == COORDINATOR)
    await cluster.wait(1)
    await _abort_after_late_arrival(cluster, producer)


# ------------------------------------------------------------------------------------------------ late WriteTxnMarkers


async def _commit_with_stalled_marker(cluster: SimCluster, producer: Transactor) -> None:
    """Transaction 0 opens the coordinator's connection to the leader; the marker of transaction 1 is held up there."""
    await producer.init(NEW)
    for value in (b"0", b"1"):
        await producer.add(NEW)
        await producer.write(NEW, value)
        if value == b"1":
            cluster.network.stall(host_of(COORDINATOR), host_of(LEADER), f"broker-{COORDINATOR}")
        await producer.end(NEW, commit=True)
        await cluster.wait(0.2)


async def _abort_after_late_marker(cluster: SimCluster, producer: Transactor) -> None:
    cluster.network.heal_all()
    await cluster.wait(2)
    must(b"2" not in await read_committed(cluster), "an open transaction was committed")
    await producer.write(NEW, b"3")
    await producer.end(NEW, commit=False)
    await cluster.wait(1)
    values = await read_committed(cluster)
    must(values == [b"0", b"1"], f"0 and 1 were committed, 2 and 3 aborted, but readers see {values}")


async def marker_over_older_connection(version: int) -> None:
    """The coordinator gives up a marker and sends it again; the first one arrives when the next transaction is open."""
    cluster = await start()
    producer = Transactor(cluster, version)
    await _commit_with_stalled_marker(cluster, producer)
    await producer.add(NEW)
    await producer.write(NEW, b"2")
    await _abort_after_late_marker(cluster, producer)


async def marker_after_two_moves(version: int) -> None:
    """The same; the marker is written while another broker leads, which the first one does again when it arrives."""
    cluster = await start()
    producer = Transactor(cluster, version)
    await _commit_with_stalled_marker(cluster, producer)
    await _move_and_back(cluster, TOPIC)
    await producer.add(NEW)
    await producer.write(NEW, b"2")
    await _abort_after_late_marker(cluster, producer)


async def marker_for_inherited_transaction(version: int) -> None:
    """The same; the next transaction begins while another broker leads."""
    cluster = await start()
    producer = Transactor(cluster, version)
    await _commit_with_stalled_marker(cluster, producer)
    cluster.expire(LEADER)
    await cluster.until(lambda: cluster.state().leader not in (-1, LEADER))
    await producer.add(NEW)
    await producer.write(NEW, b"2")
    await cluster.until(lambda: LEADER in cluster.state().isr)
    assert cluster.controller_id is not None
    await cluster.client.elect_preferred(cluster.controller_id)
    await cluster.until_leads(LEADER)
    await _abort_after_late_marker(cluster, producer)


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    end_over_older_connection,
    end_after_reload,
    end_after_two_moves,
    marker_over_older_connection,
    marker_after_two_moves,
    marker_for_inherited_transaction,
]


def ends_from_before_a_load_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionShard, "is_late", lambda *_: False)


def connections_have_no_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LateMarkers, "is_late", lambda *_: False)


def leaderships_have_no_beginning(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LateMarkers, "on_role_changed", lambda *_: None)


MUTANTS: list[Any] = [
    (end_over_older_connection, ends_from_before_a_load_count),
    (end_after_reload, ends_from_before_a_load_count),
    (end_after_two_moves, ends_from_before_a_load_count),
    (marker_over_older_connection, connections_have_no_order),
    (marker_for_inherited_transaction, leaderships_have_no_beginning),
]


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any, version: int) -> None:
    play(partial(story, version))


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(partial(story, 0), mutation)
