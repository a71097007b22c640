"""Timestamps of either kind, and offsets found by them."""

from __future__ import annotations

import json
import time

import pytest

from tests.compat.clients.confluent import Confluent
from tests.compat.clients.kcat import Kcat
from tests.compat.clients.model import CODECS, Client, Producing, Record
from tests.compat.clients.topics import Topics
from tests.compat.running import Cluster

BEGIN_MS = 1_700_000_000_000


def at(*timestamps_ms: int) -> list[Record]:
    return [Record(b"at %d" % timestamp_ms, timestamp_ms=timestamp_ms) for timestamp_ms in timestamps_ms]


def test_create_time(client: Client, topics: Topics) -> None:
    topic = topics.make()
    if client.sets_timestamps:
        # Not in order, and one before the time from which clients count.
        wanted = [BEGIN_MS + 500, BEGIN_MS, BEGIN_MS + 1_000_000, 1]
        client.produce(topic, at(*wanted))
    else:
        client.produce(topic, [Record(b"now")])
        wanted = []
    read = [*client.read(topic, max(1, len(wanted)))]
    assert not any(one.is_append_time for one in read)
    if wanted:
        assert [one.timestamp_ms for one in read] == wanted
    else:
        assert abs(read[0].timestamp_ms / 1000 - time.time()) < 30


@pytest.mark.parametrize("codec", CODECS)
def test_append_time(client: Client, codec: str, topics: Topics) -> None:
    """The broker's clock counts, whatever a producer says. It writes it into the batch, compressed or not."""
    topic = topics.make(configs={"message.timestamp.type": "LogAppendTime"})
    before = time.time()
    told = client.produce(topic, at(BEGIN_MS, BEGIN_MS + 1, BEGIN_MS + 2), how=Producing(codec))
    read = [*client.read(topic, 3)]
    assert all(one.is_append_time in (True, None) for one in read)
    assert all(before - 1 < one.timestamp_ms / 1000 < time.time() + 1 for one in read)
    if client.tells_deliveries:
        assert [one.timestamp_ms for one in told] == [one.timestamp_ms for one in read]


def test_offsets_by_time(client: Client, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make()
    assert client.offset_at(topic, BEGIN_MS) is None
    for start in range(0, 100, 10):
        confluent.produce(topic, at(*(BEGIN_MS + 1000 * row for row in range(start, start + 10))))
    asked = {0: 0, BEGIN_MS: 0, BEGIN_MS + 1: 1, BEGIN_MS + 41_000: 41, BEGIN_MS + 98_999: 99, BEGIN_MS + 99_001: None}
    assert {time_ms: client.offset_at(topic, time_ms) for time_ms in asked} == asked


@pytest.mark.needs("kcat")
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_kcat_tells_the_kind(kind: str, confluent: Confluent, topics: Topics, up_cluster: Cluster) -> None:
    topic = topics.make(configs={"message.timestamp.type": kind})
    confluent.produce(topic, at(BEGIN_MS))
    told = json.loads(Kcat(up_cluster.bootstrap).run("-C", "-t", topic, "-p", "0", "-o", "beginning", "-c", "1", "-J"))
    assert told["tstype"] == kind.removesuffix("Time").lower()
    assert (told["ts"] == BEGIN_MS) == (kind == "CreateTime")


@pytest.mark.needs("kcat")
def test_kcat_reads_between_two_times(confluent: Confluent, topics: Topics, up_cluster: Cluster) -> None:
    topic = topics.make()
    confluent.produce(topic, at(*(BEGIN_MS + row for row in range(20))))
    span = ("-o", f"s@{BEGIN_MS + 5}", "-o", f"e@{BEGIN_MS + 15}")
    read = Kcat(up_cluster.bootstrap).run("-C", "-t", topic, "-p", "0", *span, "-e", "-f", "%o ")
    assert [int(word) for word in read.split()] == [*range(5, 15)]
