"""Faults of sessions with ZooKeeper, and of ZooKeeper."""

from __future__ import annotations

from random import Random

from tests.sim.campaign.faults import Hit, Injector
from tests.sim.campaign.plan import BROKERS


class ZooKeeperFaults(Injector):
    """See the module's description."""

    def _cut_zookeeper(self, hit: Hit, rng: Random) -> bool:
        if self.cluster.nodes[hit.broker].coord is None or not self._take(hit.broker):
            return False
        self.cluster.cut_zookeeper(hit.broker)
        return self._later(hit, lambda: self.cluster.heal_zookeeper(hit.broker))

    def _lose_response(self, hit: Hit, rng: Random) -> bool:
        """The connection breaks at a coming request, before or after ZooKeeper has carried it out."""
        coord = self.cluster.nodes[hit.broker].coord
        if coord is None:
            return False
        coord.lose_answer(rng.choice(("", "multi", "set", "create")), done=rng.random() < 0.7, skip=rng.randint(0, 3))
        return True

    def _stale_reads(self, hit: Hit, rng: Random) -> bool:
        """The server of a session lags behind the others, until a write or a sync of the session."""
        coord = self.cluster.nodes[hit.broker].coord
        if coord is None or not coord.fall_behind():
            return False
        self._loop.call_later(min(hit.seconds, self.cluster.session_seconds), coord.catch_up)
        return True

    def _expire(self, hit: Hit, rng: Random) -> bool:
        if self.cluster.nodes[hit.broker].coord is None:
            return False
        self.cluster.expire(hit.broker)
        return True

    def _depose(self, hit: Hit, rng: Random) -> bool:
        if self.cluster.controller_id is None:
            return False
        self.cluster.depose_controller()
        return True

    def _stop_zookeeper(self, hit: Hit, rng: Random) -> bool:
        if not self.cluster.is_zookeeper_up or self.ailing:
            return False
        self.ailing.update(BROKERS)
        self.cluster.stop_zookeeper()
        self._loop.call_later(hit.seconds, self._start_zookeeper)
        return True

    def _start_zookeeper(self) -> None:
        self.cluster.start_zookeeper()
        self.ailing.clear()
