"""All faults in one row, one after another by chance, and often a second one beside it that must not make it worse."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from tests.chaos import clocks, deposed, disks, faults, incarnations, power
from tests.chaos.faults import Fault, Place
from tests.chaos.moving import move_replicas

_FAULTS: tuple[Fault, ...] = (
    *(faults.kill_leader, faults.kill_follower, faults.kill_controller, faults.kill_all),
    *(faults.freeze_leader, faults.freeze_controller, faults.freeze_zookeeper, faults.end_session),
    *(faults.cut_from_zookeeper, faults.cut_from_brokers, faults.restart, faults.change_factor, faults.churn),
    *(power.of_leader, power.of_leader_and_controller, power.of_last_in_sync),
    *(disks.fill, disks.fail, clocks.jump, incarnations.recreate, deposed.isolate_coordinator),
)


@contextlib.contextmanager
def _nothing(place: Place) -> Iterator[None]:
    yield


@contextlib.contextmanager
def _wrong_clock(place: Place) -> Iterator[None]:
    broker = place.rng.choice(place.cluster.brokers)
    assert broker.injection is not None
    broker.injection.set_clock(place.rng.choice(clocks.JUMPS))
    try:
        yield
    finally:
        place.cluster.reset_injection()


@contextlib.contextmanager
def _moving_replicas(place: Place) -> Iterator[None]:
    move_replicas(place.cluster, place.topic, place.rng)
    yield


@contextlib.contextmanager
def _one_zookeeper_less(place: Place) -> Iterator[None]:
    node = place.rng.choice(place.cluster.nodes)
    place.cluster.kill_node(node)
    try:
        yield
    finally:
        place.cluster.start_node(node)


_BESIDE: tuple[Callable[[Place], AbstractContextManager[None]], ...] = (
    *(_nothing, _wrong_clock, _moving_replicas, _one_zookeeper_less),
)


def mix(place: Place) -> None:
    fault, beside = place.rng.choice(_FAULTS), place.rng.choice(_BESIDE)
    if fault is faults.freeze_zookeeper or (beside is _moving_replicas and _loses_power(fault)):
        # Who loses power with others must be no more than the ISRs allow for, and a reassignment changes those.
        beside = _nothing
    with beside(place):
        fault(place)
    place.wait_until_whole()


def _loses_power(fault: Fault) -> bool:
    return fault in (power.of_leader, power.of_leader_and_controller, power.of_last_in_sync)
