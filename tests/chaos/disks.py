"""Disks that are full or fail. A broker with one log directory ends when that has failed, and others lead at once."""

from __future__ import annotations

from tests.chaos.cluster import START_SECONDS, Broker
from tests.chaos.faults import Place
from tests.chaos.injection import Disk
from tests.chaos.waiting import pause, wait_until


def break_disk(place: Place, broker: Broker, disk: Disk) -> None:
    """Until the broker has given up; it is started again when its disk is well."""
    assert broker.injection is not None
    epoch = place.cluster.epoch(broker.id)
    place.tell(f"the disk of {broker.name}: {disk.name}")
    broker.injection.set_disk(disk)
    try:
        wait_until(lambda: not broker.pid, START_SECONDS, f"{broker.name} gives up its disk")
        pause(place.rng.uniform(0, 2))
    finally:
        broker.injection.set_disk(Disk.WELL)
    broker.start()
    place.cluster.wait_until_back(broker.id, epoch)
    place.wait_until_whole()


def fill(place: Place) -> None:
    """A disk that fills up takes a part of a batch first."""
    break_disk(place, place.rng.choice([place.leader, place.follower]), Disk.FULL)


def fail(place: Place) -> None:
    disk = place.rng.choice([Disk.FAILS_WRITES, Disk.FAILS_SYNCS, Disk.FAILS_READS])
    break_disk(place, place.leader, disk)
