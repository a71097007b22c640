"""Configs described and changed as a real Kafka did it, step by step."""

from collections.abc import Mapping
from typing import Any

import pytest

from minikafka.broker.config.alter import (
    Change,
    altered_broker,
    altered_topic,
    broker_scope,
    changed_broker,
    changed_topic,
    created_overrides,
)
from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.config.describe import Entry, describe_broker, describe_cluster, describe_topic
from minikafka.broker.config.dynamic import apply_stored
from minikafka.broker.config.settings import Scope
from minikafka.protocol.errors import InvalidRequestError, KafkaError, UnknownTopicOrPartitionError
from tests.broker.config.recorded import BROKER, TOPIC, as_recorded, config_of, recording

CHANGES: dict[str, Any] = recording("config-changes")
CASES: dict[str, Any] = recording("answers")["cases"]


class Cluster:
    """As much of a broker as it takes to answer: a handler and ZooKeeper in a few lines."""

    def __init__(self, static: Mapping[str, str], broker_id: int) -> None:
        self.config: BrokerConfig = config_of(static)
        self.id = broker_id
        self.topics: dict[str, dict[str, str]] = {}
        self.stored: dict[Scope, dict[str, str]] = {Scope.CLUSTER_WIDE: {}, Scope.PER_BROKER: {}}

    def create(self, validate_only: bool, name: str, entries: list[list[Any]]) -> None:
        overrides = created_overrides(self.config, [(key, value) for key, value in entries])
        if not validate_only:
            self.topics[name] = overrides

    def alter(self, validate_only: bool, kind: int, name: str, entries: list[list[Any]]) -> None:
        pairs = [(key, value) for key, value in entries]
        if kind == TOPIC:
            self._check_topic(name)
            self._store(name, altered_topic(self.config, pairs), validate_only)
        else:
            scope = broker_scope(name, self.id)
            self._store(scope, altered_broker(self.config, scope, pairs), validate_only)

    def change(self, validate_only: bool, kind: int, name: str, entries: list[list[Any]]) -> None:
        changes = [Change(*each) for each in entries]
        if kind == TOPIC:
            self._check_topic(name)
            self._store(name, changed_topic(self.config, self.topics[name], changes), validate_only)
        elif kind == BROKER:
            scope = broker_scope(name, self.id)
            self._store(scope, changed_broker(self.config, scope, self.stored[scope], changes), validate_only)
        else:
            raise InvalidRequestError

    def describe(self, kind: int, name: str, keys: list[str] | None) -> list[Entry]:
        if kind == TOPIC:
            return describe_topic(self.config, self.topics[name], keys)
        if broker_scope(name, self.id) is Scope.CLUSTER_WIDE:
            return describe_cluster(self.config, keys)
        return describe_broker(self.config, keys)

    def _check_topic(self, name: str) -> None:
        if not name:
            raise InvalidRequestError
        if name not in self.topics:
            raise UnknownTopicOrPartitionError

    def _store(self, where: str | Scope, texts: dict[str, str], validate_only: bool) -> None:
        if validate_only:
            return
        if isinstance(where, str):
            self.topics[where] = texts
            return
        self.stored[where] = texts
        applied = apply_stored(self.config, self.stored[Scope.CLUSTER_WIDE], self.stored[Scope.PER_BROKER])
        assert applied.complaints == ()
        self.config = applied.config


def run(cluster: Cluster, step: dict[str, Any]) -> tuple[str, list[list[Any]]]:
    """The error and the entries that a step comes to."""
    only = step.get("validate_only", False)
    try:
        if "create" in step:
            cluster.create(only, *step["create"])
        elif "alter" in step:
            cluster.alter(only, *step["alter"])
        elif "incremental" in step:
            cluster.change(only, *step["incremental"])
        else:
            return "NONE", as_recorded(cluster.describe(*step["describe"]))
    except KafkaError as error:
        assert "\n" not in error.message
        return error.code.name, []
    return "NONE", []


def test_changes_one_after_the_other() -> None:
    cluster = Cluster(CHANGES["static"], 1)
    for number, step in enumerate(CHANGES["steps"]):
        error, entries = run(cluster, step)
        assert error == step["error"], (number, step)
        assert len(entries) == len(step.get("entries", [])), number
        for ours, kafkas in zip(entries, step.get("entries", []), strict=True):
            assert ours == kafkas, number


def recorded_entries(configs: list[dict[str, Any]], version: int) -> list[list[Any]]:
    """The answer of DescribeConfigs as far as this version has it; values that stand for any are None."""
    rows = []
    for each in configs:
        value = None if str(each["Value"]).startswith("<") else each["Value"]
        row = [each["Name"], value, each["ReadOnly"], each.get("ConfigSource"), each["IsSensitive"]]
        # The recording has sorted the synonyms by name and value.
        synonyms = [
            [s["Name"], None if str(s["Value"]).startswith("<") else s["Value"], s["Source"]]
            for s in each.get("Synonyms", [])
        ]
        rows.append([*row, sorted(synonyms, key=str), each.get("ConfigType") if version >= 3 else None])
    return rows


def our_entries(entries: list[Entry], like: list[list[Any]], synonyms: bool) -> list[list[Any]]:
    """Ours in the same form: what the other does not have is left out."""
    rows = []
    for ours, other in zip(as_recorded(entries), like, strict=True):
        row = [a if b is not None else None for a, b in zip(ours[:5], other[:5], strict=True)]
        known = {s[1] for s in other[5]}
        listed = [[n, v if v in known else None, s] for n, v, s in ours[5]] if synonyms else []
        rows.append([*row, sorted(listed, key=str), ours[6] if other[6] is not None else None])
    return rows


# How the brokers of these recordings were started.
STATIC = {
    "broker.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
    "default.replication.factor": "1",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
}


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("describe-") and "configs" in name])
def test_described(name: str) -> None:
    cluster = Cluster(STATIC, 1)
    for step in CASES[name]["steps"]:
        if "given" in step:
            cluster.topics[step["given"]["topic"]] = step["given"].get("configs", {})
            continue
        body, answer = step["request"]["body"], step["answer"]
        (resource,) = body["Resources"]
        kind, keys = resource["ResourceType"], resource["ConfigurationKeys"]
        target = {"<that broker>": "1", "<another broker>": "2"}.get(resource["ResourceName"], resource["ResourceName"])
        if target == "2":
            with pytest.raises(InvalidRequestError):
                cluster.describe(kind, target, keys)
            continue
        entries = cluster.describe(kind, target, keys)
        if "Results" not in answer:
            assert len(entries) > 20
            continue
        (result,) = answer["Results"]
        expected = recorded_entries(result["Configs"], step["request"]["version"])
        synonyms = body.get("IncludeSynonyms", False)
        assert our_entries(entries, expected, synonyms) == expected
        assert all(entry.documentation for entry in entries)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("incremental-alter-configs")])
def test_changed(name: str) -> None:
    cluster = Cluster(STATIC, 1)
    for step in CASES[name]["steps"]:
        if "given" in step:
            cluster.topics[step["given"]["topic"]] = step["given"].get("configs", {})
            continue
        (resource,) = step["request"]["body"]["Resources"]
        kind, target = resource["ResourceType"], resource["ResourceName"]
        if step["request"]["api"] == "DescribeConfigs":
            expected = recorded_entries(step["answer"]["Results"][0]["Configs"], 1)
            assert (
                our_entries(cluster.describe(kind, target, resource["ConfigurationKeys"]), expected, False) == expected
            )
            continue
        entries = [[each["Name"], each["ConfigOperation"], each["Value"]] for each in resource["Configs"]]
        error, _ = run(
            cluster, {"incremental": [kind, target, entries], "validate_only": step["request"]["body"]["ValidateOnly"]}
        )
        recorded = step["answer"]["Responses"][0]["ErrorCode"]
        # An operation that does not exist sets off an internal error in Kafka; it is the request that is wrong.
        assert error == ("INVALID_REQUEST" if recorded == "UNKNOWN_SERVER_ERROR" else recorded), step


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("create-topic-bad-configs")])
def test_created(name: str) -> None:
    cluster = Cluster(STATIC, 1)
    for step in CASES[name]["steps"]:
        (topic,) = step["request"]["body"]["Topics"]
        (answer,) = step["answer"]["Topics"]
        entries = [[each["Name"], each["Value"]] for each in topic["Configs"]]
        error, _ = run(cluster, {"create": [topic["Name"], entries]})
        assert error == answer["ErrorCode"], step
        for config in answer.get("Configs", []):
            (ours,) = cluster.describe(TOPIC, topic["Name"], [config["Name"]])
            assert as_recorded([ours])[0][:5] == [
                *(config["Name"], config["Value"], config["ReadOnly"], config["ConfigSource"], config["IsSensitive"])
            ]
