"""Where replicas go. The expected tables were worked out from Kafka's own description of its rule."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from minikafka.broker.controller.assignment import Racks, assign, assign_more
from minikafka.protocol.errors import InvalidPartitionsError, InvalidReplicationFactorError

FIVE: Racks = dict.fromkeys(range(5))


class Drawn(Random):
    """Numbers as they were drawn."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = list(numbers)
        super().__init__()

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return self._numbers.pop(0)


def test_the_example_of_kafkas_documentation() -> None:
    assert assign(FIVE, 10, 3, Drawn(0, 0)) == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


def test_start_and_distance_are_drawn() -> None:
    assert assign(FIVE, 2, 3, Drawn(3, 2)) == {0: (3, 1, 2), 1: (4, 2, 3)}


def test_the_same_by_the_same_seed() -> None:
    assert assign(FIVE, 20, 3, Random(7)) == assign(FIVE, 20, 3, Random(7))


def test_racks() -> None:
    """Six brokers in three racks, as in Kafka's documentation: lined up 0, 3, 1, 5, 4, 2."""
    racks = {0: "1", 1: "3", 2: "3", 3: "2", 4: "2", 5: "1"}
    # One of each rack in turn: 0 3 1, then 5 4 2.
    assert assign(racks, 7, 3, Drawn(0, 0)) == {
        0: (0, 3, 1),
        1: (3, 1, 5),
        2: (1, 5, 4),
        3: (5, 4, 2),
        4: (4, 2, 0),
        5: (2, 0, 3),
        6: (0, 4, 2),
    }


@pytest.mark.parametrize("seed", range(20))
def test_no_rack_gets_two_while_another_has_none(seed: int) -> None:
    rng = Random(seed)
    racks = {broker: f"rack{rng.randrange(3)}" for broker in range(rng.randint(3, 9))}
    count = len(set(racks.values()))
    for replicas in assign(racks, 30, min(3, len(racks)), rng).values():
        assert len(set(replicas)) == len(replicas)
        assert len({racks[each] for each in replicas}) == min(count, len(replicas))


@pytest.mark.parametrize("seed", range(20))
def test_everybody_gets_its_share(seed: int) -> None:
    rng = Random(seed)
    brokers = rng.randint(3, 7)
    placed = assign(dict.fromkeys(range(brokers)), brokers * 4, 3, rng)
    assert set(Counter(replicas[0] for replicas in placed.values()).values()) == {4}
    assert set(Counter(each for replicas in placed.values() for each in replicas).values()) == {12}


def test_some_brokers_without_a_rack() -> None:
    assert assign({0: "a", 1: None, 2: "b"}, 1, 3, Drawn(0, 0)) == {0: (0, 1, 2)}


def test_one_broker() -> None:
    assert assign({7: None}, 2, 1, Drawn(0, 0)) == {0: (7,), 1: (7,)}
    assert assign({7: "a"}, 2, 1, Drawn(0, 0)) == {0: (7,), 1: (7,)}


def test_more_partitions_go_on_where_the_first_stopped() -> None:
    assert assign_more(FIVE, 2, 4, (1, 2, 3)) == {2: (3, 0, 1), 3: (4, 1, 2), 4: (0, 2, 3), 5: (1, 4, 0)}
    # The first broker is not there any more: the next one stands in for it.
    assert assign_more({1: None, 3: None}, 1, 1, (2,)) == {1: (1,)}
    assert assign_more({1: None, 3: None}, 1, 1, (9,)) == {1: (3,)}


def test_what_cannot_be() -> None:
    for partitions in (0, -1):
        with pytest.raises(InvalidPartitionsError):
            assign(FIVE, partitions, 1, Random(0))
    for replication_factor in (0, -1, 6):
        with pytest.raises(InvalidReplicationFactorError):
            assign(FIVE, 1, replication_factor, Random(0))
    with pytest.raises(InvalidReplicationFactorError):
        assign({}, 1, 1, Random(0))
