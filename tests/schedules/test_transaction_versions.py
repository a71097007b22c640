"""Schedules about transaction version 2 (KIP-890): what its epochs must survive, and when the cluster agrees on it.

Brokers of an earlier version are played by ours: they register no features, which is all that others go by.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from minikafka.broker.controller.features import Features
from minikafka.broker.coordinators.transactions import records
from minikafka.broker.coordinators.transactions import transaction as rules
from minikafka.broker.features import SUPPORTED, TRANSACTION_VERSION
from minikafka.broker.network.peer import PeerGone
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.storage.producers import ProducerStates
from tests.schedules.stage import must, must_fail, play
from tests.schedules.test_transactions import LEADER, NEW, OLD
from tests.schedules.transacting import (
    COORDINATOR,
    SETTINGS,
    Transactor,
    coordinator_of,
    read_committed,
    start,
)
from tests.sim.client import host_of
from tests.sim.cluster import SimCluster

VERSION_2 = 2


async def _must_read(cluster: SimCluster, *values: bytes) -> None:
    await cluster.wait(1)
    found = await read_committed(cluster)
    must(found == list(values), f"readers see {found} instead of {list(values)}")


async def _repeat_end(cluster: SimCluster, producer: Transactor, *, commit: bool) -> tuple[int, int, int]:
    """The answer to the end of the open transaction, as it is asked for by who has not heard of the first answer."""
    request, version = producer.end_request(commit=commit)
    while True:
        response = await producer.client(NEW).ask(coordinator_of(cluster), request, version)
        if response.error_code not in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            return response.error_code, response.producer_id, response.producer_epoch
        await cluster.wait(0.05)


# ---------------------------------------------------------------------------------------------------------- the epochs


async def batch_after_the_end() -> None:
    """A batch that was given up arrives when its transaction has ended and the next one is open."""
    cluster = await start()
    producer = Transactor(cluster, VERSION_2)
    await producer.init(NEW)
    await producer.write(NEW, b"1")
    late = producer.produce_request(b"late")
    cluster.network.cut(OLD, host_of(LEADER))
    with suppress(PeerGone):
        await producer.client(OLD).ask(LEADER, *late)
    await producer.end(NEW, commit=True)
    await producer.write(NEW, b"2")
    cluster.network.heal_all()
    await cluster.wait(2)
    await producer.write(NEW, b"3")
    await producer.end(NEW, commit=True)
    await _must_read(cluster, b"1", b"2", b"3")


async def next_transaction_overtakes_a_marker() -> None:
    """The producer goes on as soon as its commit is decided, while the marker is held up on its way to the leader."""
    cluster = await start()
    producer = Transactor(cluster, VERSION_2)
    await producer.init(NEW)
    await producer.write(NEW, b"0")
    await producer.end(NEW, commit=True)
    await cluster.wait(1)
    await producer.write(NEW, b"1")
    cluster.network.stall(host_of(COORDINATOR), host_of(LEADER), f"broker-{COORDINATOR}")
    await producer.end(NEW, commit=True)
    request, version = producer.produce_request(b"2")
    response = await producer.client(NEW).ask(LEADER, request, version)
    code = response.responses[0].partition_responses[0].error_code
    must(code == ErrorCode.NOT_ENOUGH_REPLICAS, f"a batch got into the transaction before its own: {code}")
    cluster.network.heal_all()
    await producer.send_until_taken(NEW, request, version)
    await producer.end(NEW, commit=False)
    await _must_read(cluster, b"0", b"1")


async def coordinator_dies_between_decision_and_marker() -> None:
    """The next one finishes what is decided; the end that is asked for again brings what the first did."""
    cluster = await start()
    producer = Transactor(cluster, VERSION_2)
    await producer.init(NEW)
    await producer.write(NEW, b"1")
    cluster.network.stall(host_of(COORDINATOR), host_of(LEADER), f"broker-{COORDINATOR}")
    request, version = producer.end_request(commit=True)
    response = await producer.client(NEW).ask(COORDINATOR, request, version)
    first = (response.error_code, response.producer_id, response.producer_epoch)
    cluster.kill(COORDINATOR)
    cluster.expire_dead()
    await cluster.until(lambda: coordinator_of(cluster) not in (-1, COORDINATOR))
    await cluster.wait(2)
    again = await _repeat_end(cluster, producer, commit=True)
    must(again == first, f"an end was answered with {first}, and when it was repeated with {again}")
    producer.adopt(*first[1:])
    await producer.write(NEW, b"2")
    await producer.end(NEW, commit=True)
    await _must_read(cluster, b"1", b"2")


async def epochs_are_used_up() -> None:
    """The end brings another producer id, which whoever coordinates next knows as well as the one before."""
    cluster = await start()
    producer = Transactor(cluster, VERSION_2)
    await producer.init(NEW)
    first_id = producer.producer_id
    for value in (b"0", b"1"):
        await producer.write(NEW, value)
        await producer.end(NEW, commit=True)
    await producer.write(NEW, b"2")
    assert (producer.producer_id, producer.epoch) == (first_id, 2)
    cluster.network.stall(host_of(COORDINATOR), host_of(LEADER), f"broker-{COORDINATOR}")
    request, version = producer.end_request(commit=True)
    response = await producer.client(NEW).ask(COORDINATOR, request, version)
    must(response.producer_id != first_id, "a producer goes on in the epoch that is left for fencing it")
    cluster.expire(COORDINATOR)
    await cluster.until(lambda: coordinator_of(cluster) not in (-1, COORDINATOR))
    cluster.network.heal_all()
    code, *identity = await _repeat_end(cluster, producer, commit=True)
    must(
        [code, *identity] == [0, response.producer_id, response.producer_epoch],
        f"the end was answered with producer {response.producer_id}, and when it was repeated with {code} {identity}",
    )
    producer.adopt(response.producer_id, response.producer_epoch)
    await producer.write(NEW, b"3")
    await producer.end(NEW, commit=True)
    await _must_read(cluster, b"0", b"1", b"2", b"3")


# -------------------------------------------------------------------------------------------------------- the feature


async def _levels(cluster: SimCluster) -> dict[int, tuple[int, int]]:
    """What each running broker tells clients: the epoch of the features, and the transaction version."""
    request = ApiVersionsRequest(client_software_name="schedule", client_software_version="1")
    told = {}
    for node in cluster.nodes.values():
        if node.is_running:
            response = await cluster.client.ask(node.broker_id, request, 4)
            levels = {each.name: each.max_version_level for each in response.finalized_features}
            told[node.broker_id] = response.finalized_features_epoch, levels.get(TRANSACTION_VERSION, 0)
    return told


async def _restart(cluster: SimCluster, broker_id: int, *, is_old: bool) -> None:
    await cluster.stop(broker_id)
    cluster.nodes[broker_id].supported_features = {} if is_old else SUPPORTED
    await cluster.boot(broker_id)
    await cluster.wait(1)


async def upgrade_and_downgrade() -> None:
    """Three brokers of which one is of an earlier version, in turn; transactions go on through all of it."""
    cluster = SimCluster(3, SETTINGS)
    for node in cluster.nodes.values():
        node.supported_features = {}
        await cluster.boot(node.broker_id)
    await cluster.create_topic()
    producer, epochs = Transactor(cluster, VERSION_2), []
    await producer.find_coordinator()
    await producer.init(NEW)
    written: list[bytes] = []

    async def restart(broker_id: int, is_old: bool, level: int) -> None:
        value = f"{len(written)}".encode()
        await producer.write(NEW, value)
        await _restart(cluster, broker_id, is_old=is_old)
        await producer.end(NEW, commit=True)
        written.append(value)
        told = await _levels(cluster)
        must({each for _, each in told.values()} == {level}, f"level {level} is right, brokers tell {told}")
        must(len({epoch for epoch, _ in told.values()}) == 1, f"brokers tell of one level by several epochs: {told}")
        epochs.append(told[1][0])

    for broker_id, level in ((1, 0), (2, 0), (3, 2)):
        await restart(broker_id, False, level)
    for broker_id in (1, 2, 3):
        await restart(broker_id, True, 0)
    must(epochs == sorted(epochs), f"the epoch of features went back: {epochs}")
    must(epochs[1] < epochs[2] < epochs[3], f"a change came with the epoch of what it changed: {epochs}")
    await cluster.wait(1)
    values = await read_committed(cluster)
    must(sorted(values) == sorted(written), f"{written} were committed, readers see {values}")


async def controller_of_the_upgrade_dies() -> None:
    """The next controller finds what holds by looking at the brokers, and tells it by the same epoch."""
    cluster = await SimCluster.start(3, SETTINGS)
    before = await _levels(cluster)
    assert cluster.controller_id is not None
    cluster.expire(cluster.controller_id)
    await cluster.wait(10)
    after = await _levels(cluster)
    must({each for _, each in after.values()} == {2}, f"a level was lost with its controller: {after}")
    must(min(after.values()) >= max(before.values()), f"the epoch of features went back from {before} to {after}")


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    batch_after_the_end,
    next_transaction_overtakes_a_marker,
    coordinator_dies_between_decision_and_marker,
    epochs_are_used_up,
    upgrade_and_downgrade,
    controller_of_the_upgrade_dies,
]


@pytest.fixture(autouse=True)
def _few_epochs(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "epochs_are_used_up" in request.node.name:
        monkeypatch.setattr(rules, "_EPOCH_LAST", 2)


def batches_join_what_is_open(patch: pytest.MonkeyPatch) -> None:
    begin, check = ProducerStates.begin_verification, ProducerStates.check_verification

    def is_open(states: ProducerStates, producer_id: int) -> bool:
        producer = states.get(producer_id)
        return producer is not None and producer.txn_first_offset is not None

    patch.setattr(
        ProducerStates,
        "begin_verification",
        lambda states, key, *more, **options: None if is_open(states, key) else begin(states, key, *more, **options),
    )
    patch.setattr(
        ProducerStates,
        "check_verification",
        lambda states, batch, held: None if is_open(states, batch.producer_id) else check(states, batch, held),
    )


def versions_are_not_written_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(records, "VERSION_2", VERSION_2 + 1)


def epochs_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rules, "end_needs_new_id", lambda *_: False)


def features_are_never_taken_back(patch: pytest.MonkeyPatch) -> None:
    settle: Callable[..., Any] = Features.settle

    async def settle_upwards(self: Features, brokers: Any) -> None:
        if not self._cluster.features.levels:
            await settle(self, brokers)

    patch.setattr(Features, "settle", settle_upwards)


MUTANTS: list[Any] = [
    (next_transaction_overtakes_a_marker, batches_join_what_is_open),
    (coordinator_dies_between_decision_and_marker, versions_are_not_written_down),
    (epochs_are_used_up, epochs_never_end),
    (epochs_are_used_up, versions_are_not_written_down),
    (upgrade_and_downgrade, features_are_never_taken_back),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
