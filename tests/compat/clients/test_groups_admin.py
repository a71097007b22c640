"""Groups and their offsets as administrators see and change them."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import OffsetSpec
from kafka.errors import GroupSubscribedToTopicError, NoError
from kafka.structs import OffsetAndMetadata

from tests.compat.clients.confluent import Confluent, ConfluentAdmin, result
from tests.compat.clients.model import READ_S, Record, Refused, eventually
from tests.compat.clients.topics import Topics
from tests.compat.running import Cluster

pytestmark = pytest.mark.needs("java")


def offsets_of(keeper: ConfluentAdmin, group: str) -> dict[int, int]:
    wanted = ConsumerGroupTopicPartitions(group)
    found = result(keeper.client.list_consumer_group_offsets([wanted])[group])
    return {each.partition: each.offset for each in found.topic_partitions or ()}


def set_offset(keeper: ConfluentAdmin, group: str, topic: str, offset: int) -> None:
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])
    found = result(keeper.client.alter_consumer_group_offsets([wanted])[group])
    for each in found.topic_partitions or ():
        if each.error is not None:
            raise Refused(each.error.code(), each.error.str())


def reader(cluster: Cluster, group: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    return consumer


def first_offset(consumer: Consumer) -> int:
    message = eventually(lambda: consumer.poll(1), lambda found: found is not None and found.error() is None, READ_S)
    assert message is not None
    offset = message.offset()
    assert offset is not None
    return offset


def test_offsets_are_set_and_groups_deleted(
    keeper: ConfluentAdmin, topics: Topics, confluent: Confluent, up_cluster: Cluster
) -> None:
    topic, group = topics.make(), topics.name()
    confluent.produce(topic, [Record(b"%d" % number) for number in range(10)])
    set_offset(keeper, group, topic, 7)
    assert offsets_of(keeper, group) == {0: 7}
    consumer = reader(up_cluster, group, topic)
    assert first_offset(consumer) == 7
    with pytest.raises(Refused) as refusal:
        set_offset(keeper, group, topic, 3)
    assert refusal.value.code == KafkaError.UNKNOWN_MEMBER_ID
    with pytest.raises(Refused) as refusal:
        result(keeper.client.delete_consumer_groups([group])[group])
    assert refusal.value.code == KafkaError.NON_EMPTY_GROUP
    consumer.close()
    set_offset(keeper, group, topic, 3)
    consumer = reader(up_cluster, group, topic)
    assert first_offset(consumer) == 3
    consumer.close()
    result(keeper.client.delete_consumer_groups([group])[group])
    assert offsets_of(keeper, group) == {}
    with pytest.raises(Refused) as refusal:
        result(keeper.client.delete_consumer_groups([group])[group])
    assert refusal.value.code == KafkaError.GROUP_ID_NOT_FOUND


def test_offsets_are_reset_and_deleted(up_cluster: Cluster, topics: Topics, confluent: Confluent) -> None:
    """But not those of a topic that a member reads."""
    topic, other, group = topics.make(), topics.make(), topics.name()
    confluent.produce(topic, [Record(b"%d" % number) for number in range(10)])
    partition, beside = KafkaPythonPartition(topic, 0), KafkaPythonPartition(other, 0)
    admin = KafkaAdminClient(bootstrap_servers=up_cluster.bootstrap.split(","))

    def offsets() -> dict[str, int]:
        return {place.topic: found.offset for place, found in admin.list_group_offsets([group])[group].items()}

    try:
        admin.alter_group_offsets(
            group, {partition: OffsetAndMetadata(5, "", -1), beside: OffsetAndMetadata(1, "", -1)}
        )
        assert offsets() == {topic: 5, other: 1}
        admin.reset_group_offsets(group, {partition: OffsetSpec.EARLIEST})
        assert offsets() == {topic: 0, other: 1}
        admin.reset_group_offsets(group, {partition: OffsetSpec.LATEST})
        assert offsets() == {topic: 10, other: 1}
        admin.reset_group_offsets(group, {partition: 4})
        consumer = reader(up_cluster, group, topic)
        assert first_offset(consumer) == 4
        told = admin.delete_group_offsets(group, [partition, beside])
        assert told == {partition: GroupSubscribedToTopicError, beside: NoError}
        assert offsets() == {topic: 4}
        consumer.close()
        assert admin.delete_group_offsets(group, [partition]) == {partition: NoError}
        assert offsets() == {}
    finally:
        admin.close()
    consumer = reader(up_cluster, group, topic)
    assert first_offset(consumer) == 0
    consumer.close()


def test_groups_are_listed_and_described(keeper: ConfluentAdmin, topics: Topics, up_cluster: Cluster) -> None:
    topic, group = topics.make(), topics.name()
    consumer = reader(up_cluster, group, topic)

    def is_owner() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    eventually(is_owner, bool, READ_S)
    listed = result(keeper.client.list_consumer_groups())
    assert not listed.errors
    assert (group, "STABLE") in {(each.group_id, each.state.name) for each in listed.valid}
    found = result(keeper.client.describe_consumer_groups([group])[group])
    assert (found.state.name, found.partition_assignor, len(found.members)) == ("STABLE", "range", 1)
    consumer.close()
    found = result(keeper.client.describe_consumer_groups([group])[group])
    assert (found.state.name, len(found.members)) == ("EMPTY", 0)


def test_kafka_python_commits_without_a_group_protocol(topics: Topics, up_cluster: Cluster) -> None:
    topic, group = topics.make(), topics.name()
    partition = KafkaPythonPartition(topic, 0)
    for wanted in (5, 4):
        consumer = KafkaConsumer(bootstrap_servers=up_cluster.bootstrap.split(","), group_id=group)
        consumer.assign([partition])
        consumer.commit({partition: OffsetAndMetadata(wanted, "note", -1)})
        consumer.close()
        consumer = KafkaConsumer(bootstrap_servers=up_cluster.bootstrap.split(","), group_id=group)
        assert consumer.committed(partition) == wanted
        consumer.close()


def test_offsets_go_with_their_topic(keeper: ConfluentAdmin, topics: Topics) -> None:
    topic, group = topics.make(), topics.name()
    set_offset(keeper, group, topic, 7)
    keeper.delete_topic(topic)
    eventually(lambda: offsets_of(keeper, group), lambda found: found == {}, READ_S)
