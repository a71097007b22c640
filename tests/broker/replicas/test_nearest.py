"""Which replica a consumer is sent to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from minikafka.broker.replicas.leadership import FollowerFetch, Leadership
from minikafka.broker.replicas.nearest import nearest_replica
from minikafka.broker.replicas.partition import Partition
from minikafka.protocol.control import LiveBroker


def partition(isr: tuple[int, ...] = (1, 2, 3)) -> Partition:
    """Led by broker 1; broker 2 has offsets 5 to 10, broker 3 has 0 to 12."""
    leadership = Leadership(1, 0, 0)
    leadership.update((1, 2, 3), isr, 0, 0)
    leadership.followers[2].on_fetch(FollowerFetch(2, 0, 10, 5), 12, 0)
    leadership.followers[3].on_fetch(FollowerFetch(3, 0, 12, 0), 12, 0)
    return cast(Partition, SimpleNamespace(broker_id=1, leadership=leadership))


def brokers(**racks: str) -> dict[int, LiveBroker]:
    made = {int(name[1:]): rack for name, rack in racks.items()}
    return {each: LiveBroker(broker_id=each, broker_epoch=0, endpoints=[], rack=made[each]) for each in made}


@pytest.mark.parametrize(
    ("racks", "offset", "isr", "found"),
    [
        ({"b1": "a", "b2": "b", "b3": "c"}, 7, (1, 2, 3), 2),
        # The leader is near too, or nobody is.
        ({"b1": "b", "b2": "b", "b3": "c"}, 7, (1, 2, 3), None),
        ({"b1": "a", "b2": "c", "b3": "c"}, 7, (1, 2, 3), None),
        # It lacks the offset, on either side.
        ({"b1": "a", "b2": "b", "b3": "c"}, 3, (1, 2, 3), None),
        ({"b1": "a", "b2": "b", "b3": "c"}, 11, (1, 2, 3), None),
        # Of two, the one that has more.
        ({"b1": "a", "b2": "b", "b3": "b"}, 7, (1, 2, 3), 3),
        # Not in sync, or not alive.
        ({"b1": "a", "b2": "b", "b3": "c"}, 7, (1, 3), None),
        ({"b1": "a", "b3": "c"}, 7, (1, 2, 3), None),
    ],
)
def test_a_replica_in_the_rack(racks: dict[str, str], offset: int, isr: tuple[int, ...], found: int | None) -> None:
    assert nearest_replica(partition(isr), "b", offset, brokers(**racks)) == found
