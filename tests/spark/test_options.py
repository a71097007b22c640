"""Options: what is accepted, and one clear error for everything else."""

from __future__ import annotations

import re

import pytest

from minikafka.client.structs import TopicPartition
from minikafka.spark_jobs.errors import BadOption
from minikafka.spark_jobs.options import (
    EARLIEST,
    LATEST,
    Bound,
    ReaderConfig,
    Selection,
    Use,
    WriterConfig,
    kafka,
    parse_source_options,
)
from minikafka.spark_jobs.options.kafka import is_known
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
        ({**SERVERS, "subscribe": " , "}, "subscribe names nothing"),
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
        ({**ORDERS, "startingTimestamp": "yesterday"}, "startingTimestamp must be a whole number"),
        ({**ORDERS, "endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({**ORDERS, "startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "x"}, "one of error, latest"),
        ({**ORDERS, "failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false"),
        ({**ORDERS, "minPartitions": "0"}, "minPartitions must be a whole number of 1 or more"),
        ({**ORDERS, "maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger is not for reading a batch"),
        ({**ORDERS, "subscrib": "x"}, "there is no option 'subscrib'; did you mean subscribe?"),
        ({**ORDERS, "topic": "x"}, "topic is not for reading a batch"),
        ({**ORDERS, "kafka.fetch.max.wait": "5"}, "there is no option 'fetch.max.wait'"),
        ({**ORDERS, "kafka.auto.offset.reset": "latest"}, "startingOffsets says where to start"),
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
        ({**SERVERS, "asyncProgressTrackingEnabled": "true"}, "Spark offers it to its own sinks only"),
        (
            {**SERVERS, "kafka.security.providers": "x"},
            "kafka.security.providers cannot be set: it asks for protection",
        ),
        ({**SERVERS, "kafka.transactional.id": "1"}, "kafka.transactional.id cannot be set"),
        ({**SERVERS, "kafka.ssl.keystore.password": "hunter2"}, "key stores are Java's"),
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


def test_options_count_in_the_order_of_sparks_own_source() -> None:
    given = {**ORDERS, "startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"orders": {"0": 5}}'}
    assert parse_source_options(given, Use.BATCH_READ).starting.bound is Bound.TIMESTAMPS
    starting = parse_source_options({**given, "startingTimestamp": "7"}, Use.BATCH_READ).starting
    assert (starting.bound, starting.timestamp_ms) == (Bound.TIMESTAMP, 7)
    lenient = {"maxTriggerDelay": "2000us", "startingOffsetsByTimestampStrategy": "latest", "subscribe": "a,,b,"}
    options = parse_source_options({**ORDERS, **lenient}, Use.STREAM_READ)
    assert options.pace.delay_ms_max == 2 and options.selection.topics == ("a", "b")


def test_options_of_kafkas_clients_without_effect_are_named_in_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    kafka.warned.clear()
    given = {**ORDERS, "kafka.max.poll.records": "5", "kafka.session.timeout.ms": "9", "kafka.client.rack": "a"}
    for _ in range(2):
        assert parse_source_options(given, Use.BATCH_READ).config.client_rack == "a"
    assert [record.getMessage() for record in caplog.records] == [
        "these options have no effect here: kafka.max.poll.records, kafka.session.timeout.ms"
    ]
    parse_sink_options({**SERVERS, "kafka.acks": "1", "kafka.retries": "3"}, Use.BATCH_WRITE)
    assert "kafka.acks, kafka.retries" in caplog.text


def documented_options() -> dict[str, str]:
    """The names in the table of options of Spark's connector, with what is said of each."""
    text = texts()["docs/spark.md"]
    table = text[text.index("## Options of Spark's own connector") :].split("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \|", table, re.MULTILINE)
    return {name: verdict.strip() for names, verdict in rows for name in re.findall(r"`([^`]+)`", names)}


def test_every_option_is_in_the_documentation() -> None:
    text = texts()["docs/spark.md"]
    given_to_spark = {"checkpointLocation", "queryName"}
    assert not [name for name in OPTIONS if f"`{name}`" not in text and name not in given_to_spark]
    documented = documented_options()
    names = {name for name in documented if not name.startswith(("kafka.", "spark."))}
    assert {name for name in names if documented[name] != "not supported"} <= {*OPTIONS}
    verdicts = {
        name.removeprefix("kafka."): verdict for name, verdict in documented.items() if name.startswith("kafka.")
    }
    ignored = {*kafka.IGNORED_READING, *kafka.IGNORED_WRITING}
    refused = {*kafka.REFUSED_READING, *kafka.REFUSED_WRITING}
    assert {name for name, verdict in verdicts.items() if verdict == "no effect"} == ignored
    assert {name for name, verdict in verdicts.items() if verdict == "refused"} == refused
    supported = {name for name, verdict in verdicts.items() if verdict == "supported"}
    assert not {name for name in supported if not any(is_known(cls, name) for cls in (ReaderConfig, WriterConfig))}
    assert not supported & (ignored | refused)
