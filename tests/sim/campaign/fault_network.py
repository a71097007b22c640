"""Faults between brokers: their clients and ZooKeeper reach them all the same."""

from __future__ import annotations

from random import Random

from tests.sim.campaign.fault_zookeeper import ZooKeeperFaults
from tests.sim.campaign.faults import Hit
from tests.sim.campaign.plan import BROKERS
from tests.sim.client import host_of

_CLIENTS = ("", "follower", "controller", "broker")
"""Whose connections a one-way cut concerns: all, or those of one kind."""


class NetworkFaults(ZooKeeperFaults):
    """See the module's description."""

    def _cut(self, hit: Hit, rng: Random) -> bool:
        other = self._other(hit.broker, rng)
        self.cluster.cut(hit.broker, other)
        self._loop.call_later(hit.seconds, self.cluster.heal, hit.broker, other)
        return True

    def _cut_one_way(self, hit: Hit, rng: Random) -> bool:
        way = (host_of(hit.broker), host_of(self._other(hit.broker, rng)), rng.choice(_CLIENTS))
        self.cluster.network.cut(*way)
        self._loop.call_later(hit.seconds, self.cluster.network.heal, *way)
        return True

    def _isolate(self, hit: Hit, rng: Random) -> bool:
        self._isolate_for(hit.broker, hit.seconds)
        return True

    def _isolate_for(self, broker_id: int, seconds: float) -> None:
        self.cluster.isolate(broker_id)
        for other in BROKERS:
            if other != broker_id:
                self._loop.call_later(seconds, self.cluster.heal, broker_id, other)

    def _strand(self, hit: Hit, rng: Random) -> bool:
        """Neither brokers nor ZooKeeper are reached, but clients are: it takes itself for the leader while another
        one is elected, and comes back with what it was given meanwhile."""
        if self.cluster.nodes[hit.broker].coord is None or not self._take(hit.broker):
            return False
        seconds = self.cluster.session_seconds * rng.choice((0.5, 1.1, 1.1)) + hit.seconds
        self._isolate_for(hit.broker, seconds)
        self.cluster.cut_zookeeper(hit.broker)
        return self._later(Hit(hit.broker, seconds), lambda: self.cluster.heal_zookeeper(hit.broker))

    def _reset(self, hit: Hit, rng: Random) -> bool:
        self.cluster.network.reset(host_of(hit.broker), host_of(self._other(hit.broker, rng)))
        return True

    def _lose_answers(self, hit: Hit, rng: Random) -> bool:
        """What a broker is asked is done; what it answers is lost with the connection."""
        one, other = host_of(hit.broker), host_of(self._other(hit.broker, rng))
        self.cluster.network.cut(one, other)

        def end() -> None:
            self.cluster.network.reset(one, other, loses=True)
            self.cluster.network.heal(one, other)

        self._loop.call_later(hit.seconds, end)
        return True

    def _slow_channel(self, hit: Hit, rng: Random) -> bool:
        """What the controller has to say is held back, so that later news is coalesced with it."""
        controller_id = self.cluster.controller_id
        if controller_id is None or controller_id == hit.broker:
            return False
        way = (host_of(controller_id), host_of(hit.broker), "controller")
        self.cluster.network.cut(*way)
        self._loop.call_later(hit.seconds, self.cluster.network.heal, *way)
        return True
