"""Topics, their partitions and their configs, and what is said when something cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from minikafka.client.admin import (
    Admin,
    AlterOperation,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    NewPartitions,
    NewTopic,
)
from minikafka.client.errors import ConfigError
from minikafka.protocol.errors import (
    BrokerNotAvailableError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from tests.client.admin.waiting import until


async def test_a_topic_from_its_beginning_to_its_end(admin: Admin, name: Callable[[], str]) -> None:
    topic = name()
    made = await admin.create_topics([NewTopic(topic, 3, 2, topic_configs={"retention.ms": "1000"})])
    assert (made[topic].num_partitions, made[topic].replication_factor) == (3, 2)
    assert made[topic].configs["retention.ms"] == "1000"
    assert topic in await admin.list_topics()
    described = (await admin.describe_topics([topic]))[topic]
    assert [each.partition for each in described.partitions] == [0, 1, 2]
    assert described.topic_id == made[topic].topic_id
    assert described.replication_factor == 2
    for each in described.partitions:
        assert each.leader == each.replicas[0] and set(each.isr) == set(each.replicas)
        assert not each.is_under_replicated and each.error is None
    await admin.delete_topics([topic])
    assert topic not in await admin.list_topics()


async def test_replicas_where_they_were_wanted(admin: Admin, name: Callable[[], str]) -> None:
    topic = name()
    await admin.create_topics([NewTopic(topic, replica_assignments={0: [3, 1], 1: [2, 3]})])
    described = (await admin.describe_topics())[topic]
    assert [each.replicas for each in described.partitions] == [(3, 1), (2, 3)]
    await admin.create_partitions({topic: NewPartitions(3, [[1, 2]])})
    described = (await admin.describe_topics([topic]))[topic]
    assert described.partitions[2].replicas == (1, 2)
    await admin.create_partitions({topic: 5})
    assert len((await admin.describe_topics([topic]))[topic].partitions) == 5


async def test_what_would_be_created(admin: Admin, name: Callable[[], str]) -> None:
    topic = name()
    checked = await admin.create_topics([NewTopic(topic)], validate_only=True)
    assert checked[topic].num_partitions == 1
    assert topic not in await admin.list_topics()


async def test_each_topic_fails_alone(admin: Admin, name: Callable[[], str]) -> None:
    good, other, taken = name(), name(), name()
    await admin.create_topics([NewTopic(taken)])
    wanted = [NewTopic(good), NewTopic(taken), NewTopic(other, 1, 99), NewTopic("a/b")]
    results = await admin.create_topics(wanted, raise_errors=False)
    assert [*results] == [good, taken, other, "a/b"]
    assert {*results.done} == {good}
    assert {item: type(error) for item, error in results.errors.items()} == {
        taken: TopicAlreadyExistsError,
        other: InvalidReplicationFactorError,
        "a/b": InvalidTopicError,
    }
    with pytest.raises(TopicAlreadyExistsError):
        results[taken]
    assert good in await admin.list_topics()


async def test_a_failure_names_all_that_failed(admin: Admin, name: Callable[[], str]) -> None:
    taken, other = name(), name()
    await admin.create_topics([NewTopic(taken)])
    with pytest.raises(TopicAlreadyExistsError) as caught:
        await admin.create_topics([NewTopic(taken), NewTopic(other, 1, 99)])
    assert taken in str(caught.value) and other in str(caught.value)


async def test_topics_that_are_not_there(admin: Admin, name: Callable[[], str]) -> None:
    missing = name()
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.describe_topics([missing])
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.delete_topics([missing])
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.create_partitions({missing: 2})
    assert missing not in await admin.list_topics(), "asking for a topic has created it"


async def test_fewer_partitions(admin: Admin, name: Callable[[], str]) -> None:
    topic = name()
    await admin.create_topics([NewTopic(topic, 2)])
    with pytest.raises(InvalidPartitionsError):
        await admin.create_partitions({topic: 1})


async def test_configs_of_a_topic(admin: Admin, name: Callable[[], str]) -> None:
    topic = ConfigResource.topic(name())
    await admin.create_topics([NewTopic(topic.name, topic_configs={"retention.ms": "1000"})])
    found = (await admin.describe_configs([topic], include_synonyms=True, include_documentation=True))[topic]
    assert (found["retention.ms"].value, found["retention.ms"].source) == ("1000", ConfigSource.TOPIC)
    assert found["retention.ms"].synonyms[0] == ("retention.ms", "1000", ConfigSource.TOPIC)
    assert found["segment.ms"].is_default
    await admin.incremental_alter_configs({topic: {"segment.ms": "5000", "retention.ms": None}})
    found = (await admin.describe_configs([topic], names=["segment.ms", "retention.ms"]))[topic]
    assert (found["segment.ms"].value, found["retention.ms"].is_default) == ("5000", True)
    append = ConfigChange("cleanup.policy", "compact", AlterOperation.APPEND)
    await admin.incremental_alter_configs({topic: [append]})
    found = (await admin.describe_configs([topic]))[topic]
    assert found["cleanup.policy"].value == "delete,compact"
    await admin.alter_configs({topic: {"retention.bytes": "7"}})
    found = (await admin.describe_configs([topic]))[topic]
    assert {key for key, entry in found.items() if entry.source == ConfigSource.TOPIC} == {"retention.bytes"}


async def test_configs_of_brokers(admin: Admin) -> None:
    everywhere, one = ConfigResource.broker(), ConfigResource.broker(2)
    await admin.incremental_alter_configs({everywhere: {"log.cleaner.threads": "2"}})
    try:
        # Brokers hear of it one after the other.
        found = await until(
            lambda: admin.describe_configs([everywhere, one]), lambda them: "log.cleaner.threads" in them[everywhere]
        )
        assert found[everywhere]["log.cleaner.threads"].value == "2"
        assert found[one]["broker.id"].value == "2" and found[one]["broker.id"].is_read_only
    finally:
        await admin.incremental_alter_configs({everywhere: {"log.cleaner.threads": None}})


async def test_loggers_of_a_broker(admin: Admin) -> None:
    loggers = ConfigResource(ConfigResourceType.BROKER_LOGGER, "1")
    assert (await admin.describe_configs([loggers]))[loggers]["root"].source == ConfigSource.BROKER_LOGGER


async def test_configs_that_cannot_be(admin: Admin, name: Callable[[], str]) -> None:
    topic, missing = ConfigResource.topic(name()), ConfigResource.topic(name())
    await admin.create_topics([NewTopic(topic.name)])
    with pytest.raises(InvalidConfigError):
        await admin.incremental_alter_configs({topic: {"retention.ms": "soon"}})
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.describe_configs([missing])
    results = await admin.incremental_alter_configs(
        {topic: {"retention.ms": "1"}, missing: {"retention.ms": "1"}}, validate_only=True, raise_errors=False
    )
    assert {*results.done} == {topic} and {*results.errors} == {missing}
    with pytest.raises(BrokerNotAvailableError):
        await admin.describe_configs([ConfigResource.broker(99)])
    with pytest.raises(ConfigError):
        await admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "first")])
