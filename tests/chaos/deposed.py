"""A leader and coordinator that only clients reach: how long it goes on answering what may be out of date.

It is cut off from ZooKeeper and from all other brokers, so others lead and coordinate in its place after a session
timeout. From then on what it answers is stale: committed offsets at once, and the end of its partitions too. It has
reached neither ZooKeeper nor its replicas for a session timeout then, and has to stop by itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from minikafka.protocol.errors import KafkaError
from tests.chaos import offsets
from tests.chaos.cluster import SESSION_SECONDS, Broker
from tests.chaos.coordinators.wire import Address, Unanswered, Wire
from tests.chaos.coordinators.wire import Place as Partition
from tests.chaos.faults import Place, cut
from tests.chaos.links import HOST
from tests.chaos.waiting import pause

STALE_SECONDS_MAX = SESSION_SECONDS + 1.0
"""From the cut to the last answer."""
_CUT_SECONDS = STALE_SECONDS_MAX + 3.0
_ANSWER_SECONDS = 0.5
_LOOK_SECONDS = 0.05


def isolate_coordinator(place: Place) -> None:
    group, watched = f"watched-{place.rng.randrange(1 << 32)}", Partition(place.topic, 0)
    with Wire(place.cluster.bootstrap, "nemesis") as wire:
        broker_id, address = offsets.coordinator(wire, group)
        offsets.commit(wire, address, group, {watched: 1})
    broker = place.cluster.broker(broker_id)
    _isolate(place, broker, "OffsetFetch", lambda wire: offsets.fetch(wire, _address(broker), group, [watched]))


def isolate_leader(place: Place) -> None:
    broker = place.leader
    states = place.cluster.view.partitions(place.topic)
    led = next(Partition(place.topic, number) for number, state in states.items() if state.leader == broker.id)
    _isolate(place, broker, f"ListOffsets of {led}", lambda wire: offsets.end(wire, _address(broker), led))


def _address(broker: Broker) -> Address:
    return Address(HOST, broker.port)


def _isolate(place: Place, broker: Broker, what: str, ask: Callable[[Wire], object]) -> None:
    epoch = place.cluster.epoch(broker.id)
    names = [*place.cluster.others(broker.id), *place.cluster.node_names]
    with (
        Wire(place.cluster.bootstrap, "client of the deposed", _ANSWER_SECONDS) as wire,
        cut(place, broker, names, "everybody but clients"),
    ):
        answered = _seconds_answered(lambda: ask(wire))
    place.cluster.wait_until_back(broker.id, epoch)
    place.wait_until_whole()
    assert answered <= STALE_SECONDS_MAX, f"{broker.name} was cut off and answered {what} after {answered:.1f} s"


def _seconds_answered(ask: Callable[[], object]) -> float:
    """For how long something is answered, if it is asked again and again."""
    began, answered = time.monotonic(), 0.0
    while time.monotonic() < began + _CUT_SECONDS:
        with contextlib.suppress(KafkaError, Unanswered):
            ask()
            answered = time.monotonic() - began
        pause(_LOOK_SECONDS)
    return answered
