"""Offsets in transactions: read, process and write exactly once, whatever happens in between."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from minikafka.protocol.messages.groups import FindCoordinatorRequest
from minikafka.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from tests.compat.clients.confluent import Confluent, ConfluentAdmin, result
from tests.compat.clients.model import Record, Refused, eventually
from tests.compat.clients.topics import Topics
from tests.compat.clients.transacting import COMMITTED, UNCOMMITTED, Abortable, Place, finish, read_all, wait_committed
from tests.compat.clients.transacting_confluent import ConfluentTransacting
from tests.compat.clients.transacting_pairs import Pair
from tests.compat.running import Broker, Cluster
from tests.compat.wire import ask

pytestmark = pytest.mark.needs("java")

RECORDS = 40
UNSTABLE_OFFSET_COMMIT = 88
ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25


@pytest.fixture
def source(topics: Topics, confluent: Confluent) -> Place:
    place = Place(topics.make())
    confluent.produce(place.topic, [Record(b"%d" % number) for number in range(RECORDS)])
    return place


def copy(pair: Pair, source: Place, target: Place, group: str, commits: Iterable[bool]) -> int:
    """Some records at a time, each in a transaction; those whose transaction is aborted are read again.

    Returns the offset up to which they are copied.
    """
    done = 0
    # A producer that begins has ended what the last one of its name has left, so this comes first.
    producer, reader = pair.transactor(group), pair.reader(group, source.topic)
    for is_commit in commits:
        records = reader.read(5)
        producer.begin()
        producer.send(target, [record.value or b"" for record in records])
        producer.send_offsets(reader, {source: records[-1].offset + 1})
        if is_commit:
            producer.commit()
            done = records[-1].offset + 1
        else:
            producer.abort()
            reader.seek(source, records[0].offset)
    pair.opened.close()
    return done


def test_exactly_once(pair: Pair, source: Place, topics: Topics, confluent: Confluent) -> None:
    target, group = Place(topics.make()), topics.name()
    done = copy(pair, source, target, group, [True, False, True])
    assert 2 <= done <= 10
    # Another one goes on where the first has stopped.
    while done < RECORDS:
        before, done = done, copy(pair, source, target, group, [False, True])
        assert done > before
    wait_committed(pair.transacting, group, source, RECORDS)
    finish(confluent, target)
    wanted = [b"%d" % number for number in range(RECORDS)]
    assert read_all(pair.client, target, COMMITTED) == wanted
    assert len(read_all(pair.client, target, UNCOMMITTED)) > RECORDS


def test_an_abort_does_not_move_offsets(pair: Pair, source: Place, topics: Topics) -> None:
    group = topics.name()
    reader, producer = pair.reader(group, source.topic), pair.transactor(group)
    reader.read(1)
    producer.begin()
    producer.send_offsets(reader, {source: 7})
    producer.abort()
    assert pair.transacting.committed_offset(group, source) is None
    producer.begin()
    producer.send_offsets(reader, {source: 8})
    producer.commit()
    wait_committed(pair.transacting, group, source, 8)
    producer.begin()
    producer.send_offsets(reader, {source: 9})
    producer.abort()
    wait_committed(pair.transacting, group, source, 8)


def test_the_offsets_of_one_who_died_are_dropped_by_the_next(pair: Pair, source: Place, topics: Topics) -> None:
    group = topics.name()
    reader, producer = pair.reader(group, source.topic), pair.transactor(group)
    reader.read(1)
    producer.begin()
    producer.send_offsets(reader, {source: 7})
    pair.transactor(group)
    assert pair.transacting.committed_offset(group, source) is None


def coordinator(cluster: Cluster, group: str) -> Broker:
    answer = ask(cluster.brokers[0], FindCoordinatorRequest(key=group), 2)
    return next(broker for broker in cluster.brokers if broker.id == answer.node_id)


def fetch_offset(cluster: Cluster, group: str, place: Place, *, stable: bool) -> tuple[int, int]:
    """The error and the offset."""
    wanted = OffsetFetchRequestGroupTopic(name=place.topic, partition_indexes=[place.partition])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])], require_stable=stable
    )
    (answer,) = ask(coordinator(cluster, group), request, 8).groups
    assert answer.error_code == 0
    (found,) = answer.topics[0].partitions
    return found.error_code, found.committed_offset


def test_offsets_of_an_open_transaction_are_not_stable(
    pair: Pair, source: Place, topics: Topics, up_cluster: Cluster, keeper: ConfluentAdmin
) -> None:
    group = topics.name()
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(source.topic, source.partition, 3)])
    result(keeper.client.alter_consumer_group_offsets([wanted])[group])
    reader, producer = pair.reader(group, source.topic), pair.transactor(group)
    reader.read(1)
    assert fetch_offset(up_cluster, group, source, stable=True) == (0, 3)
    for ending, offset in ((producer.abort, 3), (producer.commit, 7)):
        producer.begin()
        producer.send_offsets(reader, {source: 7})
        assert fetch_offset(up_cluster, group, source, stable=False) == (0, 3)
        assert fetch_offset(up_cluster, group, source, stable=True) == (UNSTABLE_OFFSET_COMMIT, -1)
        ending()
        # The marker reaches this partition as any other: soon.
        eventually(
            lambda: fetch_offset(up_cluster, group, source, stable=True),
            lambda found: found[0] != UNSTABLE_OFFSET_COMMIT,
        )
        assert fetch_offset(up_cluster, group, source, stable=True) == (0, offset)


def test_a_member_that_has_been_replaced_cannot_commit(up_cluster: Cluster, source: Place, topics: Topics) -> None:
    """Its transaction has to be aborted; its producer may go on."""
    group = topics.name()
    transacting = ConfluentTransacting(up_cluster.bootstrap)
    producer = transacting.transactor(group)
    gone = transacting.reader(group, source.topic)
    gone.read(1)
    metadata = gone.metadata
    gone.close()
    producer.begin()
    with pytest.raises(Refused) as refusal:
        producer.send_offsets_of(metadata, {source: 7})
    assert type(refusal.value) is Abortable
    assert refusal.value.code in (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION)
    producer.abort()
    present = transacting.reader(group, source.topic)
    present.read(1)
    producer.begin()
    producer.send_offsets(present, {source: 8})
    producer.commit()
    present.close()
    wait_committed(transacting, group, source, 8)
