"""Administration by every client that has it: topics, partitions, settings, deleted records, the cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compat.clients.confluent import Confluent, ConfluentAdmin
from tests.compat.clients.model import Admin, Reading, Record, Refused, eventually, rows
from tests.compat.clients.topics import Topics
from tests.compat.running import Cluster

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC = 3
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_REPLICA_ASSIGNMENT = 39
INVALID_CONFIG = 40

ROWS = [Record(b"value %d" % row) for row in range(50)]


def test_create_and_delete(admin: Admin, keeper: ConfluentAdmin, topics: Topics) -> None:
    topic = topics.name()
    admin.create_topic(topic, 3)
    assert set(eventually(lambda: admin.leaders(topic), bool)) == {0, 1, 2}
    with pytest.raises(Refused) as refused:
        admin.create_topic(topic)
    assert refused.value.code == TOPIC_ALREADY_EXISTS
    admin.delete_topic(topic)
    eventually(lambda: topic in keeper.client.list_topics(timeout=10).topics, lambda is_there: not is_there)


def test_delete_what_is_not_there(admin: Admin, topics: Topics) -> None:
    with pytest.raises(Refused) as refused:
        admin.delete_topic(topics.name())
    assert refused.value.code == UNKNOWN_TOPIC


def test_a_trial_creates_nothing(admin: Admin, keeper: ConfluentAdmin, topics: Topics) -> None:
    topic = topics.name()
    admin.create_topic(topic, is_trial=True)
    with pytest.raises(Refused) as refused:
        admin.create_topic(topic, 0, is_trial=True)
    assert refused.value.code == INVALID_PARTITIONS
    assert topic not in keeper.client.list_topics(timeout=10).topics


def test_given_assignment(admin: Admin, topics: Topics) -> None:
    topic = topics.name()
    admin.create_topic(topic, {0: [2], 1: [3], 2: [2], 3: [1]})
    leaders = eventually(lambda: admin.leaders(topic), lambda found: len(found) == 4)
    assert leaders == {0: 2, 1: 3, 2: 2, 3: 1}


def test_bad_topics(admin: Admin, topics: Topics) -> None:
    name = topics.name()
    wrong: dict[int, Callable[[], None]] = {
        INVALID_TOPIC: lambda: admin.create_topic("no/such name"),
        INVALID_PARTITIONS: lambda: admin.create_topic(name, 0),
        INVALID_REPLICA_ASSIGNMENT: lambda: admin.create_topic(name, {0: [1, 1]}),
        INVALID_CONFIG: lambda: admin.create_topic(name, configs={"retention.ms": "soon"}),
    }
    for code, create in wrong.items():
        with pytest.raises(Refused) as refused:
            create()
        assert refused.value.code == code


def test_add_partitions(admin: Admin, confluent: Confluent, topics: Topics, up_cluster: Cluster) -> None:
    topic = topics.make()
    confluent.produce(topic, ROWS)
    admin.add_partitions(topic, 6)
    eventually(lambda: admin.leaders(topic), lambda found: [*sorted(found)] == [*range(6)])
    topics.wait_for(topic, 6)
    confluent.produce(topic, ROWS, partition=5)
    for partition in (0, 5):
        assert rows([*confluent.read(topic, len(ROWS), Reading([partition]))]) == ROWS


def test_partitions_are_not_taken_away(admin: Admin, topics: Topics) -> None:
    topic = topics.make(3)
    for total in (2, 3):
        with pytest.raises(Refused) as refused:
            admin.add_partitions(topic, total)
        assert refused.value.code == INVALID_PARTITIONS
    with pytest.raises(Refused) as refused:
        admin.add_partitions(topics.name(), 3)
    assert refused.value.code == UNKNOWN_TOPIC


def test_settings_of_a_topic(admin: Admin, topics: Topics) -> None:
    topic = topics.make(configs={"retention.ms": "12345678"})
    before = eventually(lambda: admin.topic_configs(topic), lambda found: found.get("retention.ms") == "12345678")
    assert before["cleanup.policy"] == "delete"
    assert before["max.message.bytes"] == "1048588"
    changed = {"retention.ms": "23456789", "max.message.bytes": "2000"}
    admin.set_topic_configs(topic, changed)
    after = eventually(lambda: admin.topic_configs(topic), lambda found: found["retention.ms"] == "23456789")
    assert after == before | changed


def test_a_changed_setting_takes_effect(admin: Admin, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make()
    large = [Record(b"v" * 5000)]
    confluent.produce(topic, large)
    admin.set_topic_configs(topic, {"max.message.bytes": "2000"})
    eventually(lambda: is_refused(confluent, topic, large), bool)
    admin.set_topic_configs(topic, {"max.message.bytes": "10000"})
    eventually(lambda: not is_refused(confluent, topic, large), bool)


def is_refused(confluent: Confluent, topic: str, records: list[Record]) -> bool:
    try:
        confluent.produce(topic, records)
    except Refused:
        return True
    return False


def test_a_bad_setting(admin: Admin, topics: Topics) -> None:
    topic = topics.make()
    for name, value in (("retention.ms", "soon"), ("cleanup.policy", "keep"), ("no.such.setting", "1")):
        with pytest.raises(Refused) as refused:
            admin.set_topic_configs(topic, {name: value})
        assert refused.value.code == INVALID_CONFIG, name


def test_delete_records(admin: Admin, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make()
    confluent.produce(topic, ROWS)
    assert admin.delete_records(topic, 30) == 30
    # What is gone is gone, and an older beginning changes nothing.
    assert admin.delete_records(topic, 10) == 30
    assert rows([*confluent.read(topic, 20, Reading(offset=30))]) == ROWS[30:]
    with pytest.raises(Refused) as refused:
        admin.delete_records(topic, 51)
    assert refused.value.code == OFFSET_OUT_OF_RANGE
    # -1 stands for the high watermark.
    assert admin.delete_records(topic, -1) == 50
    assert confluent.produce(topic, ROWS[:1])[0].offset == 50


def test_the_cluster(admin: Admin, keeper: ConfluentAdmin, up_cluster: Cluster) -> None:
    found = admin.describe_cluster()
    assert found.brokers == up_cluster.broker_ids
    assert found.controller in found.brokers
    assert found == keeper.describe_cluster()
    # A UUID in 22 characters.
    assert len(found.cluster_id) == 22
