"""A topic that is deleted and made again while a group has committed offsets for it.

The offsets belong to the topic that is gone: the group begins the new one at its beginning. Where the group's
coordinator is held up meanwhile it hears of both at once, and must not take the new topic for the old one. What the
group has committed for another topic stays.
"""

from __future__ import annotations

import signal

from confluent_kafka import Consumer, Producer

from tests.chaos import offsets
from tests.chaos.cluster import HEAL_SECONDS, Broker
from tests.chaos.coordinators.wire import Place as Partition
from tests.chaos.coordinators.wire import Wire, insist
from tests.chaos.faults import Place
from tests.chaos.moving import assign_topic, delete_topic, order_deletion
from tests.chaos.waiting import wait_until

_TOPIC = "reborn"
_OLD_RECORDS, _NEW_RECORDS = 60, 30


def recreate(place: Place) -> None:
    group = f"devoted-{place.rng.randrange(1 << 32)}"
    kept, gone = Partition(place.topic, 0), Partition(_TOPIC, 0)
    with Wire(place.cluster.bootstrap, "nemesis") as wire:
        broker_id, address = offsets.coordinator(wire, group)
        broker = place.cluster.broker(broker_id)
        # Not on the coordinator: a deletion would wait for it.
        others = [other.id for other in place.cluster.brokers if other.id != broker.id]
        assign_topic(place.cluster, _TOPIC, others)
        _write(place, range(_OLD_RECORDS))
        assert _consume(place, group, _OLD_RECORDS) == list(range(_OLD_RECORDS))
        insist(lambda: offsets.commit(wire, address, group, {kept: 1}), HEAL_SECONDS)
        _exchange(place, broker, others)
        _write(place, range(_OLD_RECORDS, _OLD_RECORDS + _NEW_RECORDS))
        found = insist(lambda: offsets.fetch(wire, address, group, [kept, gone]), HEAL_SECONDS)
        assert found[kept] == 1, f"{group} has lost what it had committed for {kept}: {found}"
        assert found[gone] == offsets.NOTHING, f"{group} has {found[gone]} committed in a topic that was made after it"
        read = _consume(place, group, _NEW_RECORDS)
        assert read == list(range(_OLD_RECORDS, _OLD_RECORDS + _NEW_RECORDS)), f"{group} was given {read}"
    delete_topic(place.cluster, _TOPIC)
    place.wait_until_whole()


def _exchange(place: Place, coordinator: Broker, others: list[int]) -> None:
    """The old topic for the new one, often behind the coordinator's back."""
    is_held = coordinator is not place.controller and place.rng.random() < 0.7
    place.tell(f"{_TOPIC} is deleted and made again{', its coordinator stands still' if is_held else ''}")
    if is_held:
        coordinator.signal(signal.SIGSTOP)
    try:
        order_deletion(place.cluster, _TOPIC, others)
        assign_topic(place.cluster, _TOPIC, others)
    finally:
        coordinator.signal(signal.SIGCONT)


def _write(place: Place, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": place.cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in numbers:
        producer.produce(_TOPIC, str(number).encode(), partition=0)
    assert producer.flush(HEAL_SECONDS) == 0


def _consume(place: Place, group: str, count: int) -> list[int]:
    """As a member of a group, from where it has committed, else from the beginning; commits what it was given."""
    consumer = Consumer(
        {
            "bootstrap.servers": place.cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    values: list[int] = []

    def are_read() -> bool:
        messages = consumer.consume(count, 0.5)
        values.extend(int(value) for message in messages if isinstance(value := message.value(), bytes))
        return len(values) >= count

    try:
        consumer.subscribe([_TOPIC])
        wait_until(are_read, HEAL_SECONDS, f"{group} has read {count} records of {_TOPIC}")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values
