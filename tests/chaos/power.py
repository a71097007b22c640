"""Loss of power: a process is gone, and so is what its host had not brought to disk.

Only what lies before the recovery point is certain to be there (`recovery-point-offset-checkpoint`, written after a
sync). Everything behind it may be lost, in whole or in part: the log ends at any byte, its last bytes may be zeros
(the size reached the disk, the bytes did not), and segments behind that place are empty.

With min.insync.replicas=2 and full ISRs before every fault nothing acknowledged may be lost as long as one in-sync
replica keeps its power (README.md), and whoever has lost its tail must not lead while such a replica is alive
(KIP-966).
"""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from kazoo.exceptions import KazooException

from minikafka.protocol.records import read_whole_batches
from minikafka.storage.formats import LOG_SUFFIX, parse_offsets, parse_partition_dir, parse_segment_name
from tests.chaos.cluster import SESSION_SECONDS, START_SECONDS, Broker
from tests.chaos.faults import PAST_SESSION_SECONDS, Place, cut
from tests.chaos.waiting import pause, wait_until

_RECOVERY_POINTS = "recovery-point-offset-checkpoint"


class _Unsynced(NamedTuple):
    """The part of a segment that may be lost."""

    path: Path
    start: int
    size: int


def lose_unsynced(log_dir: Path, rng: random.Random) -> int:
    """Leave of a directory what a loss of power might leave; returns the number of bytes that are gone."""
    checkpoint = log_dir / _RECOVERY_POINTS
    points = parse_offsets(checkpoint.read_bytes() if checkpoint.exists() else b"")
    lost = 0
    for folder in sorted(log_dir.iterdir()):
        name = parse_partition_dir(folder.name)
        if name is not None:
            lost += _cut_log(list(_unsynced(folder, points.get(name, 0))), rng)
    return lost


def _unsynced(folder: Path, recovery_point: int) -> Iterator[_Unsynced]:
    paths = sorted(folder.glob(f"*{LOG_SUFFIX}"))
    # The first offset behind each segment.
    ends = [_base_offset(path) for path in paths[1:]]
    for path, end in zip(paths, [*ends, None], strict=True):
        if end is not None and end <= recovery_point:
            continue
        batches, _ = read_whole_batches(path.read_bytes())
        synced = sum(batch.size for batch in batches if batch.last_offset < recovery_point)
        yield _Unsynced(path, synced, path.stat().st_size)


def _base_offset(path: Path) -> int:
    name = parse_segment_name(path.name)
    assert name is not None
    return name[0]


def _cut_log(parts: Sequence[_Unsynced], rng: random.Random) -> int:
    unsynced = sum(part.size - part.start for part in parts)
    # Often all of it, else a place by chance: between two batches, or in the middle of one.
    kept = rng.choice([0, rng.randint(0, unsynced)])
    is_zeroed = rng.random() < 0.3
    for part in parts:
        end = min(part.size, part.start + kept)
        kept -= end - part.start
        with part.path.open("r+b") as file:
            file.truncate(end)
            if is_zeroed and end < part.size:
                file.truncate(part.size)
                is_zeroed = False
    return unsynced - sum(part.path.stat().st_size - part.start for part in parts)


def lose_power(place: Place, *brokers: Broker) -> None:
    """All of them at once; each is back at once, or after its session, or in between."""
    epochs = {broker.id: place.cluster.epoch(broker.id) for broker in brokers}
    place.tell(f"power loss of {', '.join(broker.name for broker in brokers)}")
    for broker in brokers:
        broker.kill()
        lose_unsynced(broker.log_dir, place.rng)
    for broker in brokers:
        pause(place.rng.choice([0.0, place.rng.uniform(0.0, SESSION_SECONDS), PAST_SESSION_SECONDS]) / len(brokers))
        broker.start()
    for broker in brokers:
        place.cluster.wait_until_back(broker.id, epochs[broker.id])
    place.wait_until_whole()


def of_leader(place: Place) -> None:
    lose_power(place, place.leader)


def of_leader_and_controller(place: Place) -> None:
    """Two hosts of three, if they are not the same one."""
    lose_power(place, *{broker.id: broker for broker in (place.leader, place.controller)}.values())


def of_last_in_sync(place: Place) -> None:
    """A leader is alone in its ISRs when its power goes; the others are up and have all that is committed."""
    make_alone = place.rng.choice([_cut_off, _outlast])
    # Nobody else can take the others out of its ISRs while it is cut off from them.
    leader = place.controller if make_alone is _cut_off else place.leader
    epoch = place.cluster.epoch(leader.id)
    with make_alone(place, leader):
        wait_until(
            lambda: _is_alone(place, leader), START_SECONDS, f"only {leader.name} is in its ISRs", KazooException
        )
        leader.kill()
        lose_unsynced(leader.log_dir, place.rng)
    pause(place.rng.choice([0.0, place.rng.uniform(0.0, SESSION_SECONDS), PAST_SESSION_SECONDS]))
    leader.start()
    place.cluster.wait_until_back(leader.id, epoch)
    place.cluster.wait_until_registered()
    place.wait_until_whole()


def _is_alone(place: Place, leader: Broker) -> bool:
    states = place.cluster.view.partitions(place.topic).values()
    return all(state.isr == (leader.id,) for state in states if state.leader == leader.id)


def _cut_off(place: Place, leader: Broker) -> AbstractContextManager[None]:
    return cut(place, leader, place.cluster.others(leader.id), "other brokers, and then from power")


@contextlib.contextmanager
def _outlast(place: Place, leader: Broker) -> Iterator[None]:
    """The others are stopped until their sessions are over."""
    others = [broker for broker in place.cluster.brokers if broker is not leader]
    place.tell(f"SIGSTOP all but {leader.name}, and then its power goes")
    for broker in others:
        broker.signal(signal.SIGSTOP)
    try:
        for broker in others:
            place.cluster.wait_until_gone(broker.id)
        yield
    finally:
        for broker in others:
            broker.signal(signal.SIGCONT)
