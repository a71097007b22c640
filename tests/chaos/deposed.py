"""A leader and coordinator that only clients reach: how long it goes on answering what may be out of date.

It is cut off from ZooKeeper and from all other brokers, so others lead and coordinate in its place after a session
timeout. From then on what it answers is stale: committed offsets at once, and the end of its partitions too. It has
reached neither ZooKeeper nor its replicas for a session timeout then, and has to stop by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

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


class _Asked(NamedTuple):
    """What a broker is asked again and again, and when it has last answered."""

    what: str
    ask: Callable[[], object]
    answered_at: list[float]

    def once(self) -> None:
        try:
            self.ask()
        except (KafkaError, Unanswered):
            return
        self.answered_at.append(time.monotonic())


def isolate(place: Place) -> None:
    group = f"watched-{place.rng.randrange(1 << 32)}"
    watched = Partition(place.topic, 0)
    with Wire(place.cluster.bootstrap, "nemesis") as wire:
        broker_id, address = offsets.coordinator(wire, group)
        offsets.commit(wire, address, group, {watched: 1})
    broker = place.cluster.broker(broker_id)
    epoch = place.cluster.epoch(broker.id)
    names = [*place.cluster.others(broker.id), *place.cluster.node_names]
    with (
        Wire(place.cluster.bootstrap, "client of the deposed", _ANSWER_SECONDS) as wire,
        cut(place, broker, names, "everybody but clients"),
    ):
        late = _last_answers(place, broker, wire, group, watched)
    place.cluster.wait_until_back(broker.id, epoch)
    place.wait_until_whole()
    assert not late, f"{broker.name} was cut off and still answered {', '.join(late)}"


def _last_answers(place: Place, broker: Broker, wire: Wire, group: str, watched: Partition) -> list[str]:
    """What was answered for too long."""
    address = Address(HOST, broker.port)
    states = place.cluster.view.partitions(place.topic)
    led = [Partition(place.topic, number) for number, state in states.items() if state.leader == broker.id]
    asked = [_Asked("OffsetFetch", lambda: offsets.fetch(wire, address, group, [watched]), [])]
    asked += [_Asked(f"ListOffsets of {one}", partial(offsets.end, wire, address, one), []) for one in led[:1]]
    began = time.monotonic()
    while time.monotonic() < began + _CUT_SECONDS:
        for question in asked:
            question.once()
        pause(_LOOK_SECONDS)
    return [
        f"{question.what} after {question.answered_at[-1] - began:.1f} s"
        for question in asked
        if question.answered_at and question.answered_at[-1] > began + STALE_SECONDS_MAX
    ]
