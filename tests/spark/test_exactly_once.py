"""Runs of one query that overlap, attempts that were given up, and several writes of one batch. Without Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from minikafka.spark_jobs.errors import MinikafkaSparkError, QuerySuperseded, TransactionLost
from minikafka.spark_jobs.options import Use
from minikafka.spark_jobs.options.sink import SinkOptions, parse_sink_options
from minikafka.spark_jobs.sink.decisions import Decision
from minikafka.spark_jobs.sink.exactly_once import transactions_of
from minikafka.spark_jobs.sink.transactions import Transaction
from minikafka.spark_jobs.sink.writers import BatchSink, StreamSink
from tests.spark.running import Topics
from tests.spark.test_transactions import Task, rows, seen, sink, task, write_batch

__all__ = ["sink", "task"]

pytestmark = pytest.mark.needs("java")


class Paused(StreamSink):
    """A driver that stands still when it has found all transactions open."""

    def _decide(self, query: str, decision: Decision) -> None:
        self.late = query, decision
        raise TimeoutError

    def wake(self) -> None:
        super()._decide(*self.late)
        super()._end(self.late[1].transactions)


class DiesHalf(StreamSink):
    def _end(self, transactions: Sequence[Transaction]) -> None:
        super()._end(transactions[:1])
        raise TimeoutError


def test_driver_that_was_replaced_decides_nothing(topics: Topics, topic: str, sink: SinkOptions, task: Task) -> None:
    old = Paused(sink)
    with pytest.raises(TimeoutError):
        old.commit(write_batch(sink, task, 5, b"5a", b"5b"), 5)
    task.run = "run-2"
    StreamSink(sink).commit(write_batch(sink, task, 5, b"5a", b"5b"), 5)
    with pytest.raises(TimeoutError):
        DiesHalf(sink).commit(write_batch(sink, task, 6, b"6a", b"6b"), 6)
    with pytest.raises(QuerySuperseded):
        old.wake()
    task.run = "run-3"
    StreamSink(sink).commit(write_batch(sink, task, 6, b"6a", b"6b"), 6)
    assert sorted(seen(topics, topic)) == [b"5a", b"5b", b"6a", b"6b"]
    # The tasks of the old run are refused as well.
    task.run = "run-1"
    with pytest.raises(QuerySuperseded):
        write_batch(sink, task, 7, b"7a")


def test_decision_that_a_new_run_overtakes_does_not_count(
    topics: Topics, topic: str, sink: SinkOptions, task: Task
) -> None:
    """The new run begins between the last look of the old one and its decision."""
    old = Paused(sink)
    with pytest.raises(TimeoutError):
        old.commit(write_batch(sink, task, 5, b"old"), 5)
    task.run = "run-2"
    messages = write_batch(sink, task, 5, b"new")
    with pytest.raises(QuerySuperseded):
        old.wake()
    StreamSink(sink).commit(messages, 5)
    assert seen(topics, topic) == [b"new"]


def test_new_run_aborts_what_earlier_runs_have_left_open(
    topics: Topics, topic: str, sink: SinkOptions, task: Task
) -> None:
    """With fewer tasks than before, nobody would write under the other ids again."""
    write_batch(sink, task, 5, b"a", b"b", b"c")
    topics.send(topic, [b"behind"])
    task.run = "run-2"
    StreamSink(sink).commit(write_batch(sink, task, 5, b"abc"), 5)
    assert seen(topics, topic) == [b"behind", b"abc"]


def test_attempt_that_was_given_up_ends_no_transaction_but_its_own(
    topics: Topics, topic: str, sink: SinkOptions, task: Task
) -> None:
    (given_up,) = write_batch(sink, task, 5, b"first attempt")
    task.attempt = 1
    messages = write_batch(sink, task, 5, b"second attempt")
    StreamSink(sink).commit(messages, 5)
    assert {transaction.id for transaction in transactions_of([given_up, *messages])} == {
        f"spark-{topic}-0",
        f"spark-{topic}-0-1.1",
    }
    # In later batches of the run the id of the first attempt is not used any more.
    task.attempt = 0
    (later,) = write_batch(sink, task, 6, b"later")
    assert transactions_of([later])[0].id == f"spark-{topic}-0-1.1"
    StreamSink(sink).commit([later], 6)
    # The driver has aborted what the first attempt had left open, or nothing could be read behind it.
    assert seen(topics, topic) == [b"second attempt", b"later"]


def batch_options(sink: SinkOptions, **given: str) -> SinkOptions:
    common = {"kafka.bootstrap.servers": str(sink.config.bootstrap_servers), "topic": sink.topic or ""}
    return parse_sink_options({**common, "delivery": "exactly_once", **given}, Use.BATCH_WRITE)


def write_in_foreach_batch(options: SinkOptions, task: Task, batch_id: int, value: bytes) -> None:
    task.batch_id, task.partition = batch_id, 0
    batch_sink = BatchSink(options)
    batch_sink.commit([batch_sink.write(iter([rows(value)]))])


def test_write_in_foreach_batch_is_written_once(topics: Topics, topic: str, sink: SinkOptions, task: Task) -> None:
    options = batch_options(sink)
    write_in_foreach_batch(options, task, 3, b"a")
    task.run = "run-2"
    write_in_foreach_batch(options, task, 3, b"a")
    write_in_foreach_batch(options, task, 4, b"b")
    assert seen(topics, topic) == [b"a", b"b"]


def test_writes_of_one_batch_need_ids_of_their_own(topics: Topics, topic: str, sink: SinkOptions, task: Task) -> None:
    named = [batch_options(sink, writeid=name) for name in ("first", "second")]
    for run in ("run-1", "run-2"):
        task.run = run
        for options, value in zip(named, (b"a", b"b"), strict=True):
            write_in_foreach_batch(options, task, 3, value)
    assert sorted(seen(topics, topic)) == [b"a", b"b"]
    nameless = batch_options(sink)
    write_in_foreach_batch(nameless, task, 4, b"c")
    with pytest.raises(MinikafkaSparkError, match="each write needs an option writeId of its own"):
        write_in_foreach_batch(nameless, task, 4, b"d")
    assert sorted(seen(topics, topic)) == [b"a", b"b", b"c"]


def test_query_that_is_stopped_leaves_nothing_open(
    topics: Topics, topic: str, sink: SinkOptions, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark kills the tasks and calls `abort` without a message of theirs."""
    monkeypatch.setattr("minikafka.spark_jobs.sink.exactly_once._driver_process", lambda: f"this:{topic}")
    options = parse_sink_options(
        {
            "kafka.bootstrap.servers": topics.bootstrap,
            "topic": topic,
            "delivery": "exactly_once",
            "checkpointlocation": topic,
        },
        Use.STREAM_WRITE,
    )
    StreamSink(options).commit(write_batch(options, task, 4, b"committed"), 4)
    write_batch(options, task, 5, b"a", b"b")
    topics.send(topic, [b"behind"])
    assert seen(topics, topic) == [b"committed"]
    StreamSink(options).abort([None, None], 5)
    assert seen(topics, topic) == [b"committed", b"behind"]
    # What is decided is not for a stop to abort.
    messages = write_batch(options, task, 5, b"c", b"d")
    with pytest.raises(TimeoutError):
        DiesHalf(options).commit(messages, 5)
    StreamSink(options).abort([None, None], 5)
    StreamSink(options).commit(write_batch(options, task, 5, b"c", b"d"), 5)
    assert sorted(seen(topics, topic)) == [b"behind", b"c", b"committed", b"d"]


def test_driver_that_was_replaced_aborts_nothing_of_the_new_run(
    topics: Topics, topic: str, sink: SinkOptions, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"kafka.bootstrap.servers": topics.bootstrap, "topic": topic, "delivery": "exactly_once"}
    options = parse_sink_options({**given, "checkpointlocation": topic}, Use.STREAM_WRITE)
    monkeypatch.setattr("minikafka.spark_jobs.sink.exactly_once._driver_process", lambda: f"old:{topic}")
    old = StreamSink(options)
    write_batch(options, task, 5, b"old")
    monkeypatch.setattr("minikafka.spark_jobs.sink.exactly_once._driver_process", lambda: f"new:{topic}")
    task.run = "run-2"
    messages = write_batch(options, task, 5, b"new")
    old.abort([None], 5)
    StreamSink(options).commit(messages, 5)
    assert seen(topics, topic) == [b"new"]


def test_transaction_is_lost_if_its_attempt_is_started_twice(
    topics: Topics, topic: str, sink: SinkOptions, task: Task
) -> None:
    messages = write_batch(sink, task, 5, b"a")
    write_batch(sink, task, 5, b"a")
    with pytest.raises(TransactionLost):
        StreamSink(sink).commit(messages, 5)
