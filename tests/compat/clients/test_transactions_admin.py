"""Transactions as administrators see them, and how they end one that nobody else does."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import AbortTransactionSpec

from tests.compat.clients.confluent import Confluent, ConfluentAdmin, result
from tests.compat.clients.model import Record, eventually
from tests.compat.clients.topics import Topics
from tests.compat.clients.transacting import COMMITTED, UNCOMMITTED, Place, finish, read_all
from tests.compat.clients.transacting_confluent import ConfluentTransacting, ConfluentTransactor
from tests.compat.running import Cluster

pytestmark = pytest.mark.needs("java")

TIMEOUT_MS = 45_000

# Its methods have no types.
AT: Any = OffsetSpec


@pytest.fixture
def admin(up_cluster: Cluster) -> Iterator[Any]:
    made = KafkaAdminClient(bootstrap_servers=up_cluster.bootstrap.split(","))
    yield made
    made.close()


@pytest.fixture
def name() -> str:
    return f"described {uuid.uuid4().hex[:8]}"


@pytest.fixture
def producer(up_cluster: Cluster, name: str) -> ConfluentTransactor:
    return ConfluentTransacting(up_cluster.bootstrap).transactor(name, TIMEOUT_MS)


def state(admin: Any, name: str) -> str:
    return str(admin.describe_transactions([name])[name].state.value)


def test_a_transaction_is_described(admin: Any, producer: ConfluentTransactor, topics: Topics, name: str) -> None:
    first, second = topics.make(2), topics.make()
    assert state(admin, name) == "Empty"
    began_ms = time.time() * 1000
    producer.begin()
    producer.send(Place(first, 1), [b"1"])
    producer.send(Place(second, 0), [b"2"])
    found = admin.describe_transactions([name])[name]
    assert (found.state.value, found.transaction_timeout_ms) == ("Ongoing", TIMEOUT_MS)
    assert found.topic_partitions == {KafkaPythonPartition(first, 1), KafkaPythonPartition(second, 0)}
    assert abs(found.transaction_start_time_ms - began_ms) < 10_000
    assert (found.producer_id >= 0, found.producer_epoch) == (True, 0)
    producer.commit()
    eventually(lambda: state(admin, name), lambda now: now == "CompleteCommit")
    assert admin.describe_transactions([name])[name].topic_partitions == set()
    producer.begin()
    producer.send(Place(first, 1), [b"3"])
    producer.abort()
    eventually(lambda: state(admin, name), lambda now: now == "CompleteAbort")


def test_transactions_are_listed(admin: Any, producer: ConfluentTransactor, topics: Topics, name: str) -> None:
    place = Place(topics.make())

    def listed(**filters: Any) -> set[tuple[str, str]]:
        found = admin.list_transactions(**filters)
        return {(each.transactional_id, each.state.value) for some in found.values() for each in some}

    assert (name, "Empty") in listed()
    producer.begin()
    producer.send(place, [b"1"])
    producer_id = admin.describe_transactions([name])[name].producer_id
    assert (name, "Ongoing") in listed(state_filters=["Ongoing"])
    assert listed(producer_id_filters=[producer_id]) == {(name, "Ongoing")}
    assert name not in {each for each, _ in listed(state_filters=["Empty", "CompleteCommit"])}
    assert name not in {each for each, _ in listed(duration_filter_ms=600_000)}
    eventually(lambda: listed(duration_filter_ms=1), lambda found: (name, "Ongoing") in found)
    producer.abort()


def test_producers_are_described(
    admin: Any, producer: ConfluentTransactor, topics: Topics, name: str, confluent: Confluent
) -> None:
    place = Place(topics.make())
    partition = KafkaPythonPartition(*place)
    confluent.produce(place.topic, [Record(b"before")])

    def producers() -> Any:
        return admin.describe_producers([partition])[partition].active_producers

    assert producers() == []
    producer.begin()
    producer.send(place, [b"1", b"2", b"3"])
    (found,) = producers()
    assert found.producer_id == admin.describe_transactions([name])[name].producer_id
    assert (found.producer_epoch, found.last_sequence, found.current_transaction_start_offset) == (0, 2, 1)
    assert found.coordinator_epoch == -1
    producer.commit()
    (found,) = eventually(producers, lambda now: now[0].current_transaction_start_offset == -1)
    assert (found.last_sequence, found.coordinator_epoch >= 0) == (2, True)


def test_an_administrator_aborts_what_hangs(
    admin: Any, producer: ConfluentTransactor, topics: Topics, confluent: Confluent, up_cluster: Cluster
) -> None:
    """A marker for one partition, past the coordinator."""
    place = Place(topics.make())
    partition = KafkaPythonPartition(*place)
    producer.begin()
    producer.send(place, [b"hangs"])
    (found,) = admin.describe_producers([partition])[partition].active_producers
    transacting = ConfluentTransacting(up_cluster.bootstrap)
    assert transacting.end_offset(place, COMMITTED) == 0
    admin.abort_transaction(AbortTransactionSpec(partition, found.producer_id, found.producer_epoch))
    assert transacting.end_offset(place, COMMITTED) == 2
    finish(confluent, place)
    assert read_all(confluent, place, COMMITTED) == []
    assert read_all(confluent, place, UNCOMMITTED) == [b"hangs"]


def test_where_a_partition_ends_depends_on_who_asks(
    keeper: ConfluentAdmin, producer: ConfluentTransactor, topics: Topics
) -> None:
    place = Place(topics.make())
    partition = TopicPartition(*place)
    producer.begin()
    producer.send(place, [b"1", b"2"])

    def latest(isolation: IsolationLevel) -> int:
        asked = keeper.client.list_offsets({partition: AT.latest()}, isolation_level=isolation)
        return int(result(asked[partition]).offset)

    assert (latest(IsolationLevel.READ_COMMITTED), latest(IsolationLevel.READ_UNCOMMITTED)) == (0, 2)
    producer.commit()
    eventually(lambda: latest(IsolationLevel.READ_COMMITTED), lambda end: end == 3)
    assert latest(IsolationLevel.READ_UNCOMMITTED) == 3
