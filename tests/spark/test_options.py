"""Options: what is accepted, and one clear error for everything else."""

from __future__ import annotations

import pytest

from minikafka.client.structs import TopicPartition
from minikafka.spark_jobs.errors import BadOption
from minikafka.spark_jobs.options import EARLIEST, LATEST, Bound, Selection, Use, parse_source_options
from minikafka.spark_jobs.options.names import OPTIONS
from minikafka.spark_jobs.options.sink import DECISION_TOPIC, Delivery, parse_sink_options
from tests.tree import texts

SERVERS = {"kafka.bootstrap.servers": "a:1"}
ORDERS = {**SERVERS, "subscribe": "orders"}


def test_least() -> None:
    options = parse_source_options(ORDERS, Use.BATCH_READ)
    assert options.selection == Selection(topics=("orders",))
    assert (options.starting.bound, options.ending.bound) == (Bound.EARLIEST, Bound.LATEST)
    assert options.fail_on_data_loss and not options.include_headers
    assert parse_source_options(ORDERS, Use.STREAM_READ).starting.bound is Bound.LATEST


def test_all_that_a_stream_has() -> None:
    given = {
        **SERVERS,
        "assign": '{"b": [1], "a": [2, 0]}',
        "startingOffsets": '{"b": {"1": -1}, "a": {"0": -2, "2": 77}}',
        "failOnDataLoss": "False",
        "includeHeaders": "TRUE",
        "maxOffsetsPerTrigger": "1000",
        "minOffsetsPerTrigger": "10",
        "maxTriggerDelay": "30s",
        "minPartitions": "7",
        "maxRecordsPerPartition": "500",
        "pollIntervalMs": "0",
        "fetchOffset.numRetries": "0",
        "fetchOffset.retryIntervalMs": "1",
        "kafkaConsumer.pollTimeoutMs": "1234",
        "groupIdPrefix": "x",
        "kafka.group.id": "g",
        "kafka.isolation.level": "read_committed",
        "kafka.max.partition.fetch.bytes": "1000",
    }
    options = parse_source_options({name.lower(): value for name, value in given.items()}, Use.STREAM_READ)
    b, a = TopicPartition("b", 1), TopicPartition("a", 0)
    assert options.selection.partitions == (a, TopicPartition("a", 2), b)
    assert options.starting.positions == {b: LATEST, a: EARLIEST, TopicPartition("a", 2): 77}
    assert (options.fail_on_data_loss, options.include_headers) == (False, True)
    assert options.pace.offsets_max == 1000 and options.pace.offsets_min == 10
    assert options.pace.delay_ms_max == 30_000 and options.pace.poll_interval_ms == 0
    assert (options.partitions_min, options.records_per_partition_max) == (7, 500)
    assert options.config.reads_committed and options.config.max_partition_fetch_bytes == 1000
    # How long a task waits for records says nothing about the driver.
    assert options.task_config.default_api_timeout_ms == 1234
    assert options.config.default_api_timeout_ms == 60_000


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("15", 15), ("15ms", 15), ("3s", 3000), ("2 minutes", 120_000), ("1h", 3_600_000)]
)
def test_durations(text: str, milliseconds: int) -> None:
    given = {**ORDERS, "minOffsetsPerTrigger": "1", "maxTriggerDelay": text}
    assert parse_source_options(given, Use.STREAM_READ).pace.delay_ms_max == milliseconds


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "t"}, "kafka.bootstrap.servers is missing"),
        (SERVERS, "one of subscribe, subscribePattern and assign"),
        ({**ORDERS, "assign": "{}"}, "only one of subscribe, assign can be given"),
        ({**SERVERS, "subscribe": "a,,b"}, "subscribe has an empty entry"),
        ({**SERVERS, "subscribe": " "}, "subscribe is empty"),
        ({**SERVERS, "subscribePattern": "("}, "subscribePattern is no regular expression"),
        ({**SERVERS, "assign": "[1]"}, "assign should look like"),
        ({**SERVERS, "assign": '{"t": [-1]}'}, "assign should look like"),
        ({**SERVERS, "assign": "{}"}, "assign names no partition"),
        ({**SERVERS, "assign": '{"t": [0], "t": [1]}'}, "assign names something twice"),
        ({**ORDERS, "startingOffsets": "soon"}, "startingOffsets is not JSON"),
        ({**ORDERS, "startingOffsets": "latest"}, "startingOffsets cannot be latest"),
        ({**ORDERS, "startingOffsets": '{"orders": {"0": -1}}'}, "startingOffsets cannot be latest"),
        ({**ORDERS, "startingOffsets": '{"orders": {"0": -3}}'}, "partition 0 of 'orders' has -3"),
        ({**ORDERS, "startingOffsets": '{"orders": {"0": 1.5}}'}, "partition 0 of 'orders' has 1.5"),
        ({**ORDERS, "startingOffsets": '{"orders": {"0": true}}'}, "partition 0 of 'orders' has True"),
        ({**ORDERS, "startingOffsets": '{"orders": {"zero": 1}}'}, "'zero' is no partition"),
        ({**ORDERS, "startingOffsets": '{"orders": {"0": 1, "00": 2}}'}, "partition 0 of 'orders' is there twice"),
        ({**ORDERS, "startingOffsets": '{"orders": 5}'}, "'orders' has 5"),
        ({**ORDERS, "startingOffsets": "{}"}, "startingOffsets names no partition"),
        ({**ORDERS, "startingOffsets": "earliest", "startingTimestamp": "1"}, "only one of startingOffsets"),
        ({**ORDERS, "startingTimestamp": "yesterday"}, "startingTimestamp must be a whole number"),
        ({**ORDERS, "endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({**ORDERS, "startingOffsetsByTimestampStrategy": "latest"}, "needs startingTimestamp"),
        ({**ORDERS, "startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "x"}, "one of error, latest"),
        ({**ORDERS, "failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false"),
        ({**ORDERS, "minPartitions": "0"}, "minPartitions must be a whole number of 1 or more"),
        ({**ORDERS, "maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger is not for reading a batch"),
        ({**ORDERS, "subscrib": "x"}, "there is no option 'subscrib'; did you mean subscribe?"),
        ({**ORDERS, "topic": "x"}, "topic is not for reading a batch"),
        ({**ORDERS, "kafka.fetch.max.wait": "5"}, "there is no option 'fetch.max.wait'"),
        ({**ORDERS, "kafka.auto.offset.reset": "latest"}, "where to start is told by startingOffsets"),
        ({**ORDERS, "kafka.enable.auto.commit": "true"}, "never committed to a group"),
        ({**ORDERS, "kafka.sasl.jaas.config": "x"}, "JAAS is Java's; use kafka.sasl.mechanism, kafka.sasl.username"),
        ({**ORDERS, "kafka.ssl.truststore.location": "x"}, "kafka.ssl.ca.location says where a PEM file is"),
        ({**ORDERS, "kafka.isolation.level": "none"}, "isolation_level must be one of"),
        ({**ORDERS, "logDirs": "x"}, "only one of logDirs, kafka.bootstrap.servers"),
    ],
)
def test_bad_batch_options(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption) as raised:
        parse_source_options(given, Use.BATCH_READ)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is not for reading a stream"),
        ({"logDirs": "x"}, "logDirs is not for reading a stream"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "more than maxOffsetsPerTrigger"),
        ({"maxTriggerDelay": "9s"}, "maxTriggerDelay needs minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "1", "maxTriggerDelay": "soon"}, "maxTriggerDelay must be a duration"),
    ],
)
def test_bad_stream_options(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption) as raised:
        parse_source_options({**ORDERS, **given}, Use.STREAM_READ)
    assert said in str(raised.value)


def test_sink() -> None:
    options = parse_sink_options({**SERVERS, "topic": "t", "kafka.linger.ms": "5"}, Use.STREAM_WRITE)
    assert (options.topic, options.delivery) == ("t", Delivery.AT_LEAST_ONCE)
    assert (options.config.linger_ms, options.config.acks) == (5, "all")
    options = parse_sink_options({**SERVERS, "delivery": "exactly_once"}, Use.STREAM_WRITE)
    assert (options.topic, options.delivery, options.decision_topic) == (None, Delivery.EXACTLY_ONCE, DECISION_TOPIC)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "kafka.bootstrap.servers is missing"),
        ({**SERVERS, "delivery": "twice"}, "delivery must be one of at_least_once, exactly_once"),
        ({**SERVERS, "decisionTopic": "d"}, "decisionTopic needs delivery=exactly_once"),
        ({**SERVERS, "subscribe": "d"}, "subscribe is not for writing a stream"),
        ({**SERVERS, "kafka.acks": "1"}, "kafka.acks cannot be set"),
        ({**SERVERS, "kafka.transactional.id": "1"}, "kafka.transactional.id cannot be set"),
        ({**SERVERS, "kafka.ssl.keystore.password": "hunter2"}, "key stores are Java's"),
        ({**SERVERS, "kafka.partitioner.class": "x"}, "kafka.partitioner.class cannot be set"),
    ],
)
def test_bad_sink_options(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption) as raised:
        parse_sink_options(given, Use.STREAM_WRITE)
    assert said in str(raised.value)


def test_secrets_are_not_shown() -> None:
    given = {**ORDERS, "kafka.sasl.password": "hunter2", "kafka.sasl.username": "u"}
    assert "hunter2" not in repr(parse_source_options(given, Use.BATCH_READ))


def test_names_are_told_apart_without_case() -> None:
    assert len({name.lower() for name in OPTIONS}) == len(OPTIONS)


def test_every_option_is_in_the_documentation() -> None:
    text = texts()["docs/spark.md"]
    given_to_spark = {"checkpointLocation", "queryName"}
    assert not [name for name in OPTIONS if f"`{name}`" not in text and name not in given_to_spark]
