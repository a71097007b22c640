"""How long nothing was acknowledged, told by histories whose outages are known."""

from __future__ import annotations

import pytest

from tests.chaos.outages import find_outages, outages_by_fault
from tests.chaos.told import PARTITION, Tale


def longest(tale: Tale) -> float:
    (outage,) = find_outages(tale.events)
    return outage.seconds


def test_from_one_acknowledgement_to_the_next_while_others_are_awaited() -> None:
    tale = Tale()
    tale.send(1)
    tale.send(2)
    tale.ack(1, 0)
    tale.now += 5
    tale.ack(2, 1)
    assert longest(tale) == pytest.approx(6)


def test_nobody_is_kept_waiting_while_nobody_sends() -> None:
    tale = Tale()
    tale.write(1, 0)
    tale.now += 100
    tale.write(2, 1)
    assert longest(tale) == pytest.approx(1)


def test_sends_that_fail_do_not_end_an_outage() -> None:
    tale = Tale()
    tale.send(1)
    tale.lose_sight(1)
    tale.send(2)
    tale.fail(2)
    tale.write(3, 0)
    assert longest(tale) == pytest.approx(5)


def test_an_outage_that_nothing_ends_lasts_as_long_as_the_history() -> None:
    tale = Tale()
    tale.send(1)
    tale.now += 9
    tale.note("final")
    (outage,) = find_outages(tale.events)
    assert outage.seconds == pytest.approx(10)
    assert not outage.is_over


def test_partitions_are_seen_apart() -> None:
    tale = Tale()
    tale.send(1)
    tale.send(2, partition="load-1")
    tale.ack(2, 0, partition="load-1")
    tale.ack(1, 0)
    assert {outage.partition: outage.seconds for outage in find_outages(tale.events)} == {PARTITION: 3.0, "load-1": 1.0}


def test_every_fault_has_its_own_outage() -> None:
    tale = Tale()
    tale.write(1, 0)
    tale.note("fault", "one")
    tale.send(2)
    tale.now += 3
    tale.ack(2, 1)
    tale.note("fault", "another")
    tale.write(3, 2)
    tale.note("fault", "one that nobody notices")
    assert outages_by_fault(tale.events) == [pytest.approx(4), pytest.approx(1), 0]
