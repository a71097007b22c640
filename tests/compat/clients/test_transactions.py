"""Transactions: what is committed is seen as a whole, and nothing else of them by who reads what is committed."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.compat.clients.confluent import Confluent
from tests.compat.clients.model import READ_S, Reading, Record, eventually
from tests.compat.clients.topics import Topics
from tests.compat.clients.transacting import COMMITTED, UNCOMMITTED, Fatal, Place, finish, read_all, wait_end
from tests.compat.clients.transacting_pairs import Pair

pytestmark = pytest.mark.needs("java")

# librdkafka's own codes, and those of the broker that all clients take for it.
FENCED = (-144, 47, 90)


@pytest.fixture
def name() -> str:
    """A transactional id that nobody has."""
    return f"transactions {uuid.uuid4().hex[:8]}"


def test_what_is_committed_is_read(pair: Pair, confluent: Confluent, topics: Topics, name: str) -> None:
    place = Place(topics.make())
    producer = pair.transactor(name)
    for first in (b"a", b"b", b"c"):
        producer.begin()
        producer.send(place, [first + b"1", first + b"2"])
        producer.commit()
    finish(confluent, place)
    for isolation in (COMMITTED, UNCOMMITTED):
        assert read_all(pair.client, place, isolation) == [b"a1", b"a2", b"b1", b"b2", b"c1", b"c2"]


def test_a_marker_takes_an_offset(pair: Pair, topics: Topics, name: str) -> None:
    place = Place(topics.make())
    producer = pair.transactor(name)
    offsets = []
    for ending in (producer.commit, producer.abort, producer.commit):
        producer.begin()
        offsets += producer.send(place, [b"1", b"2"])
        ending()
    assert offsets == [0, 1, 3, 4, 6, 7]
    wait_end(pair.transacting, place, 9)


def test_what_is_aborted_is_read_by_no_one_who_cares(
    pair: Pair, confluent: Confluent, topics: Topics, name: str
) -> None:
    place = Place(topics.make())
    producer = pair.transactor(name)
    for number, ending in enumerate([producer.abort, producer.commit, producer.abort, producer.abort, producer.commit]):
        producer.begin()
        producer.send(place, [b"%d" % number])
        ending()
        confluent.produce(place.topic, [Record(b"beside %d" % number)])
    finish(confluent, place)
    beside = [b"beside %d" % number for number in range(5)]
    committed = [value for value in read_all(pair.client, place, COMMITTED) if value not in beside]
    assert committed == [b"1", b"4"]
    everything = read_all(pair.client, place, UNCOMMITTED)
    assert [value for value in everything if value not in beside] == [b"0", b"1", b"2", b"3", b"4"]
    assert [value for value in everything if value in beside] == beside


def test_one_transaction_over_partitions_and_topics(
    pair: Pair, confluent: Confluent, topics: Topics, name: str
) -> None:
    first, second = topics.make(3), topics.make(2)
    places = [Place(first, 0), Place(first, 2), Place(second, 1), Place(first, 1), Place(second, 0)]
    producer = pair.transactor(name)
    for number, ending in enumerate([producer.commit, producer.abort, producer.commit]):
        producer.begin()
        for place in places:
            producer.send(place, [b"%d" % number])
        ending()
    finish(confluent, *places)
    for place in places:
        assert read_all(pair.client, place, COMMITTED) == [b"0", b"2"]
        assert read_all(pair.client, place, UNCOMMITTED) == [b"0", b"1", b"2"]


def test_an_open_transaction_holds_up_who_reads_what_is_committed(
    pair: Pair, confluent: Confluent, topics: Topics, name: str
) -> None:
    """Also from records that others have written behind it."""
    place = Place(topics.make())
    confluent.produce(place.topic, [Record(b"before")])
    producer = pair.transactor(name)
    producer.begin()
    producer.send(place, [b"inside"])
    confluent.produce(place.topic, [Record(b"behind")])
    assert pair.transacting.end_offset(place, COMMITTED) == 1
    assert pair.transacting.end_offset(place, UNCOMMITTED) == 3
    everybody = pair.client.read(place.topic, 3, Reading(isolation=UNCOMMITTED))
    assert [record.value for record in everybody] == [b"before", b"inside", b"behind"]
    with closing(pair.client.read(place.topic, 3, Reading(isolation=COMMITTED))) as records:
        assert next(records).value == b"before"
        with ThreadPoolExecutor(1) as thread:
            following = thread.submit(lambda: [record.value for record in records])
            # A fetch that waits for more is answered twice in this time.
            with pytest.raises(TimeoutError):
                following.result(1.2)
            producer.commit()
            assert following.result(READ_S) == [b"inside", b"behind"]
    wait_end(pair.transacting, place, 4)


def test_two_transactions_at_once_in_one_partition(pair: Pair, confluent: Confluent, topics: Topics, name: str) -> None:
    """The one that was begun first holds up both."""
    place = Place(topics.make())
    early, late = pair.transactor(name), pair.transactor(f"{name} late")
    early.begin()
    late.begin()
    early.send(place, [b"early 1"])
    late.send(place, [b"late 1"])
    early.send(place, [b"early 2"])
    late.send(place, [b"late 2"])
    late.commit()
    # Its marker is there, so it has had its effect.
    eventually(lambda: pair.transacting.end_offset(place, UNCOMMITTED), lambda end: end == 5)
    assert pair.transacting.end_offset(place, COMMITTED) == 0
    early.abort()
    wait_end(pair.transacting, place, 6)
    finish(confluent, place)
    assert read_all(pair.client, place, COMMITTED) == [b"late 1", b"late 2"]


def test_a_zombie_is_fenced(pair: Pair, confluent: Confluent, topics: Topics, name: str) -> None:
    """By whoever takes its transactional id, which aborts what it has begun."""
    place = Place(topics.make())
    zombie = pair.transactor(name)
    zombie.begin()
    zombie.send(place, [b"of the zombie"])
    successor = pair.transactor(name)
    assert pair.transacting.end_offset(place, COMMITTED) == 2
    successor.begin()
    successor.send(place, [b"of its successor"])
    with pytest.raises(Fatal) as refusal:
        zombie.commit()
    assert refusal.value.code in FENCED
    successor.commit()
    finish(confluent, place)
    assert read_all(pair.client, place, COMMITTED) == [b"of its successor"]


def test_a_zombie_writes_nothing(pair: Pair, confluent: Confluent, topics: Topics, name: str) -> None:
    """Not even where it has not been yet."""
    place, other = Place(topics.make()), Place(topics.make())
    zombie = pair.transactor(name)
    zombie.begin()
    zombie.send(place, [b"of the zombie"])
    pair.transactor(name)
    with pytest.raises(Fatal) as refusal:
        zombie.send(other, [b"of the zombie"])
        zombie.commit()
    assert refusal.value.code in FENCED
    finish(confluent, other)
    assert read_all(pair.client, other, UNCOMMITTED) == []


def test_one_who_dies_is_followed_by_the_next(pair: Pair, confluent: Confluent, topics: Topics, name: str) -> None:
    place = Place(topics.make())
    values = []
    for life in range(4):
        producer = pair.transactor(name)
        producer.begin()
        producer.send(place, [b"whole %d" % life])
        producer.commit()
        values.append(b"whole %d" % life)
        producer.begin()
        producer.send(place, [b"left open %d" % life])
    # Until the last one is taken over, too.
    pair.transactor(name)
    finish(confluent, place)
    assert read_all(pair.client, place, COMMITTED) == values


def test_a_transaction_that_takes_too_long_is_aborted(
    pair: Pair, confluent: Confluent, topics: Topics, name: str
) -> None:
    place = Place(topics.make())
    producer = pair.transactor(name, timeout_ms=1_000)
    producer.begin()
    producer.send(place, [b"too late"])
    wait_end(pair.transacting, place, 2)
    with pytest.raises(Fatal) as refusal:
        producer.commit()
    assert refusal.value.code in FENCED
    successor = pair.transactor(name)
    successor.begin()
    successor.send(place, [b"in time"])
    successor.commit()
    finish(confluent, place)
    assert read_all(pair.client, place, COMMITTED) == [b"in time"]
