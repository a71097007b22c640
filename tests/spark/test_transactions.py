"""Transactions that are begun in one place and ended in another, and what was decided about them. Without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage

from minikafka.client.cluster import Cluster
from minikafka.spark_jobs.errors import BadCheckpoint, TransactionLost
from minikafka.spark_jobs.link import Link, close_links
from minikafka.spark_jobs.options import ReaderConfig, Use
from minikafka.spark_jobs.options.sink import SinkOptions, parse_sink_options
from minikafka.spark_jobs.sink import writers
from minikafka.spark_jobs.sink.decisions import Decision, Decisions, write_decision
from minikafka.spark_jobs.sink.exactly_once import Written, link_for, transactions_of, write_in_transaction
from minikafka.spark_jobs.sink.transactions import Transaction, check_open, end
from minikafka.spark_jobs.sink.writers import StreamSink, write_at_least_once
from tests.spark.running import Topics
from tests.spark.test_direct import read_broker

pytestmark = pytest.mark.needs("java")


@pytest.fixture
def sink(topics: Topics, topic: str) -> SinkOptions:
    topics.create(topic)
    given = {"kafka.bootstrap.servers": topics.bootstrap, "topic": topic, "delivery": "exactly_once"}
    return parse_sink_options(given, Use.STREAM_WRITE)


def rows(*values: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})


def seen(topics: Topics, topic: str) -> list[bytes]:
    found: list[bytes] = (
        read_broker(topics, topic, kafka__isolation__level="read_committed").column("value").to_pylist()
    )
    return found


def test_ended_by_somebody_else(topics: Topics, topic: str, sink: SinkOptions) -> None:
    link = link_for(sink.config)
    one = write_in_transaction(sink, f"{topic}-1", iter([rows(b"a", b"b"), rows(b"c")])).transaction
    other = write_in_transaction(sink, f"{topic}-2", iter([rows(b"x")])).transaction
    assert one is not None and other is not None
    check_open(link, [one, other])
    assert seen(topics, topic) == []
    end(link, [one], committed=True)
    end(link, [other], committed=False)
    assert seen(topics, topic) == [b"a", b"b", b"c"]
    # Asked for once more, for example by a driver that was started again.
    end(link, [one], committed=True)
    assert seen(topics, topic) == [b"a", b"b", b"c"]
    with pytest.raises(TransactionLost):
        end(link, [other], committed=True)
    with pytest.raises(TransactionLost, match="was ended before it could be committed"):
        check_open(link, [one])


def test_no_rows_no_transaction(topic: str, sink: SinkOptions) -> None:
    assert write_in_transaction(sink, f"{topic}-1", iter([])).transaction is None
    assert write_in_transaction(sink, f"{topic}-1", iter([rows()])).transaction is None


def test_the_next_attempt_fences_the_one_before(topics: Topics, topic: str, sink: SinkOptions) -> None:
    link = link_for(sink.config)
    first = write_in_transaction(sink, f"{topic}-1", iter([rows(b"first")])).transaction
    second = write_in_transaction(sink, f"{topic}-1", iter([rows(b"second")])).transaction
    assert first is not None and second is not None
    with pytest.raises(TransactionLost):
        check_open(link, [first])
    with pytest.raises(TransactionLost):
        end(link, [first], committed=True)
    end(link, [second], committed=True)
    assert seen(topics, topic) == [b"second"]


def test_rows_that_cannot_all_be_written_hold_nobody_up(topics: Topics, topic: str, sink: SinkOptions) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield rows(b"first")
        raise LookupError("no more rows")

    with pytest.raises(LookupError):
        write_in_transaction(sink, f"{topic}-1", batches())
    topics.send(topic, [b"behind"])
    assert seen(topics, topic) == [b"behind"]
    # Without a row there is nothing to abort.
    with pytest.raises(ZeroDivisionError):
        write_in_transaction(sink, f"{topic}-1", (1 // 0 for _ in "x"))


def test_keys_count_only_where_the_partitioner_says_so(topics: Topics, topic: str) -> None:
    topics.create(topic, 4)
    keys = [b"%d" % number for number in range(40)]
    batch = pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.binary()), "value": pa.array(keys, pa.binary())})
    given = {"kafka.bootstrap.servers": topics.bootstrap, "topic": topic, "kafka.partitioner": "sticky"}
    assert write_at_least_once(parse_sink_options(given, Use.BATCH_WRITE), iter([batch])).rows == 40
    found = read_broker(topics, topic)
    assert len({*found.column("partition").to_pylist()}) == 1
    assert found.column("key").to_pylist() == found.column("value").to_pylist() == keys


class Task:
    """What Spark tells a task."""

    def __init__(self, query_id: str) -> None:
        self._query_id = query_id
        self.batch_id = 0
        self.partition = 0
        self.run = "run-1"
        self.attempt = 0

    def getLocalProperty(self, name: str) -> str | None:
        properties = {
            "sql.streaming.queryId": self._query_id,
            "streaming.sql.batchId": str(self.batch_id),
            "spark.jobGroup.id": self.run,
        }
        return properties.get(name)

    def partitionId(self) -> int:
        return self.partition

    def attemptNumber(self) -> int:
        return self.attempt


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch, topic: str) -> Task:
    made = Task(topic)
    monkeypatch.setattr(writers, "_context", lambda: made)
    return made


def write_batch(sink: SinkOptions, task: Task, batch_id: int, *values: bytes) -> list[WriterCommitMessage | None]:
    """A batch with a task for each value."""
    task.batch_id = batch_id
    messages: list[WriterCommitMessage | None] = []
    for task.partition, value in enumerate(values):
        messages.append(StreamSink(sink).write(iter([rows(value)])))
    return messages


class LostAnswer(StreamSink):
    """A decision is written, but the driver is not told so."""

    def _decide(self, query_id: str, decision: Decision) -> None:
        super()._decide(query_id, decision)
        raise TimeoutError


class HalfEnded(StreamSink):
    """The broker goes away after the first end."""

    def _end(self, transactions: Sequence[Transaction]) -> None:
        super()._end(transactions[:1])
        raise TimeoutError


class NotDecided(StreamSink):
    """The broker goes away before the decision."""

    def _decide(self, query_id: str, decision: Decision) -> None:
        raise TimeoutError


@pytest.mark.parametrize("failing", [LostAnswer, HalfEnded, NotDecided])
def test_a_commit_that_fails_is_done_by_the_next_run(
    topics: Topics, topic: str, sink: SinkOptions, task: Task, failing: type[StreamSink]
) -> None:
    messages = write_batch(sink, task, 5, b"a", b"b")
    with pytest.raises(TimeoutError):
        failing(sink).commit(messages, 5)
    # As Spark does.
    StreamSink(sink).abort(messages, 5)
    for _ in range(2):
        StreamSink(sink).commit(write_batch(sink, task, 5, b"a", b"b"), 5)
        assert sorted(seen(topics, topic)) == [b"a", b"b"]


def test_a_task_that_fails_takes_the_others_with_it(topics: Topics, topic: str, sink: SinkOptions, task: Task) -> None:
    StreamSink(sink).commit(write_batch(sink, task, 0, b"a"), 0)
    messages = write_batch(sink, task, 1, b"b", b"c")
    StreamSink(sink).abort([messages[0], None], 1)
    StreamSink(sink).abort([messages[1], None], 1)
    topics.send(topic, [b"behind"])
    assert seen(topics, topic) == [b"a", b"behind"]
    # What was decided, for example by a driver that runs as well, is not for anybody to abort.
    messages = write_batch(sink, task, 1, b"b")
    with pytest.raises(TimeoutError):
        LostAnswer(sink).commit(messages, 1)
    StreamSink(sink).abort([*messages, None], 1)
    StreamSink(sink).commit(write_batch(sink, task, 1, b"b"), 1)
    assert seen(topics, topic) == [b"a", b"behind", b"b"]


def test_a_transaction_that_is_lost_before_the_decision(
    topics: Topics, topic: str, sink: SinkOptions, task: Task
) -> None:
    first = write_batch(sink, task, 0, b"a", b"b")
    end(link_for(sink.config), transactions_of(first[:1]), committed=False)
    with pytest.raises(TransactionLost):
        StreamSink(sink).commit(first, 0)
    topics.send(topic, [b"behind"])
    assert seen(topics, topic) == [b"behind"]


def test_a_checkpoint_that_is_older_than_the_decision(
    topics: Topics, topic: str, sink: SinkOptions, task: Task
) -> None:
    StreamSink(sink).commit(write_batch(sink, task, 5, b"a"), 5)
    for message in ("batch 3 is to be written", "that batch 5 of this query was written already"):
        with pytest.raises(BadCheckpoint, match=message):
            write_batch(sink, task, 3, b"other")
    with pytest.raises(BadCheckpoint):
        StreamSink(sink).commit([Written(1, topic, is_decided=True, batch_id=3)], 3)
    StreamSink(sink).commit(write_batch(sink, task, 6, b"b"), 6)
    assert seen(topics, topic) == [b"a", b"b"]


def test_decisions(topics: Topics, topic: str, sink: SinkOptions) -> None:
    link: Link[ReaderConfig] = link_for(sink.config)
    decisions = Decisions(link, f"{topic}-decisions")
    assert decisions.last("q") is None
    decided = Decision(7, (Transaction("spark-q-0", 4711, 3), Transaction("spark-q-1", 4712, 0)))
    for query, decision in (("q", Decision(6, ())), ("other", Decision(9, ())), ("q", decided)):
        asyncio.run(write_decision(sink.config, f"{topic}-decisions", query, decision))
    assert decisions.last("q") == decided
    assert decisions.last("other") == Decision(9, ())
    # As a worker sees it that has just been started.
    assert Decisions(link, f"{topic}-decisions").last("q") == decided


def test_a_topic_of_decisions_that_is_there_is_not_made(
    topics: Topics, topic: str, sink: SinkOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise AssertionError("asked to make a topic that is there")

    close_links()
    monkeypatch.setattr(Cluster, "controller", refuse)
    assert Decisions(link_for(sink.config), topic).last("q") is None


@pytest.mark.parametrize("value", [b"", b"{}", b'{"batch": 1}', b'{"batch": "x", "transactions": []}', b"[]"])
def test_what_is_no_decision(value: bytes) -> None:
    with pytest.raises(BadCheckpoint):
        Decision.decode(value)


def test_links_are_shared_and_can_be_closed(sink: SinkOptions) -> None:
    link = link_for(sink.config)
    assert link_for(sink.config) is link
    link.cluster()
    close_links()
    assert not link.is_open
    assert link_for(sink.config) is not link
