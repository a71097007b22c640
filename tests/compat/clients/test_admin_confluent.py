"""Administration as only librdkafka does it: operations on settings, offsets, topics by name, what security answers."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.compat.clients.confluent import Confluent, ConfluentAdmin, result
from tests.compat.clients.model import REPLICATION_FACTOR, Record, Refused, eventually
from tests.compat.clients.topics import Topics
from tests.compat.running import Cluster

SECURITY_DISABLED = 54
RESOURCE_NOT_FOUND = 91

BEGIN_MS = 1_700_000_000_000

# Classes whose types are not those of their arguments and results.
AT: Any = OffsetSpec
FILTER: Any = AclBindingFilter


def change(name: str, value: str | None, operation: AlterConfigOpType) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=operation)


def of_topic(topic: str, *changes: ConfigEntry) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=list(changes) or None)


def test_operations_on_a_list(keeper: ConfluentAdmin, topics: Topics) -> None:
    topic = topics.make()

    def policy_after(operation: AlterConfigOpType, value: str | None) -> None:
        keeper.alter_configs(of_topic(topic, change("cleanup.policy", value, operation)))

    def is_policy(*values: str) -> None:
        # Their order is not said.
        eventually(lambda: {*keeper.topic_configs(topic)["cleanup.policy"].split(",")}, lambda now: now == {*values})

    policy_after(AlterConfigOpType.APPEND, "compact")
    is_policy("delete", "compact")
    policy_after(AlterConfigOpType.SUBTRACT, "delete")
    is_policy("compact")
    policy_after(AlterConfigOpType.DELETE, None)
    is_policy("delete")
    with pytest.raises(Refused) as refused:
        keeper.alter_configs(of_topic(topic, change("retention.ms", "1", AlterConfigOpType.APPEND)))
    assert refused.value.code in (KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST)


def test_where_a_setting_comes_from(keeper: ConfluentAdmin, topics: Topics) -> None:
    topic = topics.make(configs={"retention.ms": "12345678"})

    def entries() -> dict[str, ConfigEntry]:
        return keeper.describe_configs(of_topic(topic))

    eventually(lambda: entries()["retention.ms"].value, lambda value: value == "12345678")
    found = entries()
    assert ConfigSource(found["retention.ms"].source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert not found["retention.ms"].is_default
    assert ConfigSource(found["segment.bytes"].source) is ConfigSource.DEFAULT_CONFIG
    assert found["segment.bytes"].is_default
    assert not any(entry.is_read_only or entry.is_sensitive for entry in found.values())


def test_settings_of_a_broker(keeper: ConfluentAdmin, up_cluster: Cluster) -> None:
    for broker in up_cluster.brokers:
        found = keeper.describe_configs(ConfigResource(ResourceType.BROKER, str(broker.id)))
        assert found["broker.id"].value == str(broker.id)
        assert found["broker.id"].is_read_only
        assert f":{broker.port}" in (found["listeners"].value or "")
        assert found["log.segment.bytes"].value == "1073741824"
        assert not found["log.cleaner.threads"].is_read_only
        assert len(found) > 250


def test_a_setting_of_one_broker(keeper: ConfluentAdmin, up_cluster: Cluster) -> None:
    """Asked of that broker, set by that broker, seen by that broker."""
    first, second = (ConfigResource(ResourceType.BROKER, str(broker.id)) for broker in up_cluster.brokers[:2])

    def alter(value: str | None, operation: AlterConfigOpType) -> None:
        entry = change("log.cleaner.backoff.ms", value, operation)
        keeper.alter_configs(ConfigResource(ResourceType.BROKER, first.name, incremental_configs=[entry]))

    def seen(resource: ConfigResource) -> str | None:
        return keeper.describe_configs(resource)["log.cleaner.backoff.ms"].value

    alter("20000", AlterConfigOpType.SET)
    eventually(lambda: seen(first), lambda value: value == "20000")
    assert seen(second) == "15000"
    alter(None, AlterConfigOpType.DELETE)
    eventually(lambda: seen(first), lambda value: value == "15000")


def test_what_a_broker_does_not_change(keeper: ConfluentAdmin, up_cluster: Cluster) -> None:
    entry = change("log.dirs", "elsewhere", AlterConfigOpType.SET)
    with pytest.raises(Refused) as refused:
        keeper.alter_configs(
            ConfigResource(ResourceType.BROKER, str(up_cluster.brokers[0].id), incremental_configs=[entry])
        )
    assert refused.value.code in (KafkaError.INVALID_REQUEST, KafkaError.INVALID_CONFIG)


def test_all_settings_at_once(keeper: ConfluentAdmin, topics: Topics) -> None:
    """The older call: what is not named falls back to its default."""
    topic = topics.make(configs={"retention.ms": "12345678"})
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"max.message.bytes": "3000"})
    with pytest.warns(DeprecationWarning):
        result(keeper.client.alter_configs([resource])[resource])
    found = eventually(lambda: keeper.topic_configs(topic), lambda now: now["max.message.bytes"] == "3000")
    assert found["retention.ms"] == "604800000"


def test_offsets(keeper: ConfluentAdmin, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make()
    partition = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> tuple[int, int]:
        found = result(keeper.client.list_offsets({partition: spec})[partition])
        return found.offset, found.timestamp

    assert offset(AT.max_timestamp()) == (-1, -1)
    # The newest timestamp is not that of the last record.
    for time_ms in (BEGIN_MS, BEGIN_MS + 3000, BEGIN_MS + 1000):
        confluent.produce(topic, [Record(b"v", timestamp_ms=time_ms)])
    assert offset(AT.earliest())[0] == 0
    assert offset(AT.latest())[0] == 3
    assert offset(AT.max_timestamp()) == (1, BEGIN_MS + 3000)
    assert offset(AT.for_timestamp(BEGIN_MS + 1)) == (1, BEGIN_MS + 3000)
    assert offset(AT.for_timestamp(BEGIN_MS + 3001))[0] == -1
    keeper.delete_records(topic, 2)
    assert offset(AT.earliest())[0] == 2


def test_describe_topics(keeper: ConfluentAdmin, topics: Topics) -> None:
    topic, missing = topics.make(3), topics.name()
    futures = keeper.client.describe_topics(TopicCollection([topic, missing]))
    found = result(futures[topic])
    assert (found.name, found.is_internal, len(found.partitions)) == (topic, False, 3)
    for one in found.partitions:
        assert len(one.replicas) == REPLICATION_FACTOR
        assert one.replicas[0].id == one.leader.id
        assert {node.id for node in one.isr} == {node.id for node in one.replicas}
    assert str(found.topic_id) not in ("", "AAAAAAAAAAAAAAAAAAAAAA")
    with pytest.raises(Refused) as refused:
        result(futures[missing])
    assert refused.value.code == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_too_few_brokers(keeper: ConfluentAdmin, topics: Topics) -> None:
    topic = topics.name()
    with pytest.raises(Refused) as refused:
        result(keeper.client.create_topics([NewTopic(topic, 1, 7)])[topic])
    assert refused.value.code == KafkaError.INVALID_REPLICATION_FACTOR


def test_no_authorizer(keeper: ConfluentAdmin) -> None:
    parts = (ResourceType.TOPIC, "topic", ResourcePatternType.LITERAL, "User:somebody", "*")
    binding = AclBinding(*parts, AclOperation.READ, AclPermissionType.ALLOW)
    anything = FILTER(*parts[:3], None, None, AclOperation.ANY, AclPermissionType.ANY)
    (created,) = keeper.client.create_acls([binding]).values()
    (deleted,) = keeper.client.delete_acls([anything]).values()
    # Describing them gives an empty list: the client swallows the error.
    for future in (created, deleted):
        with pytest.raises(Refused) as refused:
            result(future)
        assert refused.value.code == SECURITY_DISABLED


def test_scram_credentials(keeper: ConfluentAdmin, topics: Topics) -> None:
    user = topics.name()

    def iterations() -> dict[ScramMechanism, int]:
        try:
            futures: Any = keeper.client.describe_user_scram_credentials([user])
            found = result(futures[user])
        except Refused as refusal:
            assert refusal.code == RESOURCE_NOT_FOUND
            return {}
        return {one.mechanism: one.iterations for one in found.scram_credential_infos}

    assert iterations() == {}
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 5000)
    upsertion = UserScramCredentialUpsertion(user, info, b"password", b"salt")
    result(keeper.client.alter_user_scram_credentials([upsertion])[user])
    eventually(iterations, lambda found: found == {ScramMechanism.SCRAM_SHA_256: 5000})
    deletion = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)
    result(keeper.client.alter_user_scram_credentials([deletion])[user])
    eventually(iterations, lambda found: found == {})
