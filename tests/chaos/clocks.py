"""Wall clocks that jump, of one broker or of all, by hours or days, and back again.

A jump must delete nothing and expire no active producer: with retention.ms of half a day and producer.id.expiration.ms
of a day either would show, as lost records or as a retry that is written twice.
"""

from __future__ import annotations

from tests.chaos.faults import Place, kill
from tests.chaos.waiting import pause

_HOUR = 3600
JUMPS = (-30 * 24 * _HOUR, -_HOUR, _HOUR, 25 * _HOUR, 30 * 24 * _HOUR)

SETTINGS = {
    "log.retention.ms": str(12 * _HOUR * 1000),
    "log.retention.check.interval.ms": "1000",
    "producer.id.expiration.check.interval.ms": "1000",
}


def jump(place: Place) -> None:
    brokers = place.rng.choice([place.cluster.brokers, [place.leader]])
    seconds = place.rng.choice(JUMPS)
    place.tell(f"the clocks of {len(brokers)} brokers jump by {seconds / _HOUR:g} h")
    for broker in brokers:
        assert broker.injection is not None
        broker.injection.set_clock(seconds)
    try:
        pause(place.rng.uniform(2, 4))
        if place.rng.random() < 0.5:
            kill(place, place.leader)
    finally:
        place.cluster.reset_injection()
    pause(place.rng.uniform(1, 2))
    place.wait_until_whole()
