"""Administration as only kafka-python does it: log directories, producers, versions, settings with their synonyms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ConfigResource,
    ConfigResourceType,
    OffsetSpec,
    ResourcePattern,
    ResourceType,
)
from kafka.errors import NoError, SecurityDisabledError
from kafka.structs import TopicPartitionReplica

from tests.compat.clients.confluent import Confluent
from tests.compat.clients.kafka_python import KafkaPythonAdmin
from tests.compat.clients.model import REPLICATION_FACTOR, Producing, Record
from tests.compat.clients.topics import Topics
from tests.compat.running import Cluster

ROWS = [Record(b"v" * 1000) for _ in range(50)]


@pytest.fixture
def client(up_cluster: Cluster) -> Iterator[Any]:
    admin = KafkaPythonAdmin(up_cluster.bootstrap)
    yield admin.client
    admin.close()


def test_log_dirs(client: Any, confluent: Confluent, topics: Topics, up_cluster: Cluster) -> None:
    topic = topics.make(3)
    confluent.produce(topic, ROWS)
    answers = client.describe_log_dirs([topic])
    assert {answer["broker"] for answer in answers} == up_cluster.broker_ids
    sizes: dict[int, list[int]] = {}
    for answer in answers:
        (directory,) = answer["log_dirs"]
        assert directory["error_code"] == 0
        assert directory["total_bytes"] > directory["usable_bytes"] > 0
        for found in directory["topics"]:
            assert found["name"] == topic
            for one in found["partitions"]:
                assert not one["is_future_key"]
                sizes.setdefault(one["partition_index"], []).append(one["partition_size"])
    assert [len(sizes[index]) for index in range(3)] == [REPLICATION_FACTOR] * 3
    assert min(sizes[0]) > 50_000
    assert sizes[1] == sizes[2] == [0] * REPLICATION_FACTOR


def test_move_to_where_it_is(client: Any, topics: Topics) -> None:
    topic = topics.make()
    leader = topics.leader(topic).id
    (answer,) = client.describe_log_dirs([topic], [leader])
    replica = TopicPartitionReplica(topic, 0, leader)
    moved = client.alter_replica_log_dirs({replica: answer["log_dirs"][0]["log_dir"]})
    assert moved == {replica: NoError}
    assert client.alter_replica_log_dirs({replica: "/no/such/directory"})[replica].__name__ == "LogDirNotFoundError"


def test_producers(client: Any, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make()
    partition = TopicPartition(topic, 0)
    confluent.produce(topic, ROWS, how=Producing(is_idempotent=True))
    (state,) = client.describe_producers([partition])[partition].active_producers
    (batch, *_) = topics.batches(topic)
    assert (state.producer_id, state.producer_epoch) == (batch.producer_id, 0)
    assert (state.last_sequence, state.current_transaction_start_offset) == (len(ROWS) - 1, -1)


def test_offsets(client: Any, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make(2)
    confluent.produce(topic, ROWS)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    found = client.list_partition_offsets({first: OffsetSpec.LATEST, second: OffsetSpec.LATEST})
    assert (found[first].offset, found[second].offset) == (50, 0)
    assert client.list_partition_offsets({first: OffsetSpec.EARLIEST})[first].offset == 0
    newest = client.list_partition_offsets({first: OffsetSpec.MAX_TIMESTAMP})[first]
    assert newest.offset in range(50) and newest.timestamp > 0


def test_settings_and_synonyms(client: Any, topics: Topics) -> None:
    topic = topics.make(configs={"segment.bytes": "1000000"})
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    found = client.describe_configs([resource], include_synonyms=True, config_filter="all")["topic"][topic]
    entry = found["segment.bytes"]
    assert (entry["value"], entry["config_type"], entry["config_source"]) == ("1000000", "INT", "DYNAMIC_TOPIC_CONFIG")
    assert [(one["name"], one["value"]) for one in entry["synonyms"]] == [
        ("segment.bytes", "1000000"),
        ("log.segment.bytes", "1073741824"),
    ]
    modified = client.describe_configs([resource])["topic"][topic]
    assert "segment.bytes" in modified and "retention.ms" not in modified
    client.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["segment.bytes"])])


def test_versions(client: Any) -> None:
    """What a version is taken for by its highest fetch."""
    assert client._manager.broker_version == (3, 9)
    versions = client.api_versions()
    assert len(versions) > 30


def test_no_authorizer(client: Any) -> None:
    pattern = ResourcePattern(ResourceType.TOPIC, "topic")
    anything = ACLFilter("User:test", "*", ACLOperation.ANY, ACLPermissionType.ANY, pattern)
    binding = ACL("User:test", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)
    with pytest.raises(SecurityDisabledError):
        client.describe_acls(anything)
    assert len(client.create_acls([binding])["failed"]) == 1
    ((_, matched, error),) = client.delete_acls([anything])
    assert (matched, error) == ([], SecurityDisabledError)


def test_features(client: Any) -> None:
    """A cluster on ZooKeeper has none."""
    assert not client.describe_features().get("finalized_features")
