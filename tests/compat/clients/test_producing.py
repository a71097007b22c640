"""Acknowledgements, idempotence, sizes and partitions, as producers see them."""

from __future__ import annotations

import pytest

from tests.compat.clients.confluent import Confluent, ConfluentAdmin
from tests.compat.clients.model import Client, Producing, Reading, Record, Refused, eventually, rows
from tests.compat.clients.topics import Topics
from tests.compat.running import Cluster

ROWS = [Record(b"value %d" % row) for row in range(50)]

MESSAGE_TOO_LARGE = 10

# Kafka's default for the largest batch.
BATCH_BYTES_MAX = 1_048_588
# A batch of one record without key or headers: header (61), the record's length (3), attributes, timestamp, offset,
# key length (1 each), value length (3) and the number of headers (1).
VALUE_BYTES_MAX = BATCH_BYTES_MAX - 61 - 3 - 4 - 3 - 1


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(client: Client, acks: str, topics: Topics) -> None:
    topic = topics.make()
    client.produce(topic, ROWS, how=Producing(acks=acks))
    assert rows([*client.read(topic, len(ROWS))]) == ROWS


def test_idempotent(client: Client, topics: Topics) -> None:
    topic = topics.make()
    client.produce(topic, ROWS, how=Producing(is_idempotent=True))
    client.produce(topic, ROWS, how=Producing(is_idempotent=True))
    assert rows([*client.read(topic, 2 * len(ROWS))]) == ROWS + ROWS
    batches = topics.batches(topic)
    # Two producers, each of which counts from zero.
    assert len({batch.producer_id for batch in batches}) == 2
    assert all(batch.producer_id >= 0 and batch.producer_epoch == 0 for batch in batches)
    starts: dict[int, int] = {}
    for batch in batches:
        assert batch.base_sequence == starts.get(batch.producer_id, 0)
        starts[batch.producer_id] = batch.base_sequence + batch.record_count


def test_as_large_as_allowed(client: Client, topics: Topics) -> None:
    topic = topics.make()
    sent = [Record(bytes([65 + row]) * VALUE_BYTES_MAX) for row in range(3)]
    for record in sent:
        client.produce(topic, [record])
    assert rows([*client.read(topic, len(sent))]) == sent
    assert {len(batch.data) for batch in topics.batches(topic)} == {BATCH_BYTES_MAX}


def test_larger_than_allowed(client: Client, topics: Topics) -> None:
    topic = topics.make()
    with pytest.raises(Refused) as refused:
        client.produce(topic, [Record(b"v" * (VALUE_BYTES_MAX + 1))])
    assert refused.value.code == MESSAGE_TOO_LARGE
    # Nothing of it is left, and the topic goes on.
    client.produce(topic, ROWS)
    assert rows([*client.read(topic, len(ROWS))]) == ROWS


def test_as_large_as_a_topic_allows(client: Client, topics: Topics) -> None:
    """Far above what a consumer asks for at a time: the first batch comes whole even so."""
    topic = topics.make(configs={"max.message.bytes": "6000000"})
    sent = [Record(b"first"), Record(b"v" * 5_000_000), Record(b"last")]
    for record in sent:
        client.produce(topic, [record])
    assert rows([*client.read(topic, len(sent))]) == sent


def test_many_partitions(client: Client, keeper: ConfluentAdmin, topics: Topics, up_cluster: Cluster) -> None:
    partitions = 24
    topic = topics.make(partitions)
    assert set(keeper.leaders(topic).values()) == up_cluster.broker_ids
    # Each record goes to the partition of its key, and all of one key to the same.
    sent = [Record(b"%d" % row, b"key %d" % (row % 100)) for row in range(1000)]
    client.produce(topic, sent, partition=None)
    read = [*client.read(topic, len(sent), Reading(range(partitions)))]
    assert sorted(rows(read)) == sorted(sent)
    assert len({one.partition for one in read}) > partitions // 2
    assert len({(one.partition, one.key) for one in read}) == 100
    for key in {one.key for one in read}:
        values = [int(one.value or b"") for one in read if one.key == key]
        assert values == sorted(values)


def test_auto_creation(client: Client, keeper: ConfluentAdmin, topics: Topics) -> None:
    topic = topics.name()
    client.produce(topic, ROWS)
    assert rows([*client.read(topic, len(ROWS))]) == ROWS
    assert [*keeper.leaders(topic)] == [0]


def test_a_dead_end_is_told(confluent: Confluent, topics: Topics) -> None:
    topic = topics.make(2)
    with pytest.raises(Refused):
        confluent.produce(topic, ROWS, partition=2)
    assert confluent.produce(topic, ROWS, partition=1)[-1].offset == len(ROWS) - 1


def test_producing_goes_on_after_deletion(client: Client, keeper: ConfluentAdmin, topics: Topics) -> None:
    """A topic made again under the same name is another topic, which begins at zero."""
    topic = topics.make()
    client.produce(topic, ROWS)
    keeper.delete_topic(topic)
    # Kafka deletes in the background, and refuses the name until it is done.
    eventually(lambda: keeper.create_topic(topic), lambda _: True)
    topics.wait_for(topic, 1)
    client.produce(topic, ROWS[:3])
    assert rows([*client.read(topic, 3)]) == ROWS[:3]
