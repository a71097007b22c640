"""Transactions that are begun in one place and ended in another, and what was decided about them. Without Spark."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from minikafka.spark_jobs.errors import BadCheckpoint, TransactionLost
from minikafka.spark_jobs.link import Link, close_links
from minikafka.spark_jobs.options import ReaderConfig, Use
from minikafka.spark_jobs.options.sink import SinkOptions, parse_sink_options
from minikafka.spark_jobs.sink.decisions import Decision, Decisions, write_decision
from minikafka.spark_jobs.sink.transactions import Transaction, check_open, end
from minikafka.spark_jobs.sink.writers import link_for, write_in_transaction
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
