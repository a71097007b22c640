"""Where reading begins, how long it waits, and how it ends, as consumers see it."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest

from tests.compat.clients.confluent import Confluent, ConfluentAdmin
from tests.compat.clients.model import Client, Reading, Record, Refused, rows
from tests.compat.clients.topics import Topics

ROWS = [Record(b"value %d" % row) for row in range(50)]

OFFSET_OUT_OF_RANGE = 1


def test_from_the_middle(client: Client, confluent: Confluent, topics: Topics) -> None:
    """Also from the middle of a batch: the broker hands out whole ones, and the client skips."""
    topic = topics.make()
    confluent.produce(topic, ROWS)
    read = [*client.read(topic, 13, Reading(offset=37))]
    assert [one.offset for one in read] == [*range(37, 50)]
    assert rows(read) == ROWS[37:]


def test_out_of_range(client: Client, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make()
    confluent.produce(topic, ROWS)
    with pytest.raises(Refused) as refused:
        next(client.read(topic, 1, Reading(offset=51)))
    assert refused.value.code == OFFSET_OUT_OF_RANGE


def test_below_the_beginning(client: Client, confluent: Confluent, keeper: ConfluentAdmin, topics: Topics) -> None:
    topic = topics.make()
    confluent.produce(topic, ROWS)
    assert keeper.delete_records(topic, 20) == 20
    with pytest.raises(Refused) as refused:
        next(client.read(topic, 1, Reading(offset=19)))
    assert refused.value.code == OFFSET_OUT_OF_RANGE
    assert rows([*client.read(topic, 30, Reading(offset=20))]) == ROWS[20:]


def test_a_waiting_reader_is_woken(client: Client, confluent: Confluent, topics: Topics) -> None:
    """A fetch that waits is answered when there is something, long before its time is over."""
    topic = topics.make()
    confluent.produce(topic, ROWS[:1])
    with closing(client.read(topic, 2, Reading(wait_ms=12_000))) as records:
        next(records)
        sent: list[float] = []
        # By now the next fetch lies at the broker. Were it not, the test would only be easier.
        later = threading.Timer(0.3, lambda: sent.append(_send(confluent, topic)))
        later.start()
        assert next(records).value == ROWS[1].value
        taken_s = time.monotonic() - (sent[0] if sent else time.monotonic())
        later.join()
    assert taken_s < 5


def _send(confluent: Confluent, topic: str) -> float:
    confluent.produce(topic, ROWS[1:2])
    return time.monotonic()


def test_a_reader_may_want_more(client: Client, confluent: Confluent, topics: Topics) -> None:
    """Less than the least a fetch asks for comes too, but only when its time is over."""
    topic = topics.make()
    confluent.produce(topic, [Record(b"v" * 20_000)])
    with closing(client.read(topic, 2, Reading(wait_ms=1_000, bytes_min=10_000))) as records:
        next(records)
        start = time.monotonic()
        confluent.produce(topic, ROWS[:1])
        assert next(records).value == ROWS[0].value
        taken_s = time.monotonic() - start
    assert 0.7 < taken_s < 5


def test_long_logs_are_read_to_the_end(client: Client, confluent: Confluent, topics: Topics) -> None:
    """Several segments, several fetches."""
    topic = topics.make(configs={"segment.bytes": "1000000"})
    sent = [Record(b"%d" % row + b"." * 1000) for row in range(4000)]
    confluent.produce(topic, sent)
    assert rows([*client.read(topic, len(sent))]) == sent
