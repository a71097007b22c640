"""Which features are finalized, as the controller decides it: what every live broker supports, and nothing else.

It stands in `/feature`, as in Kafka, and the version of the node is the epoch of the features: it grows with every
change, whichever controller made it. A level is taken back before anybody hears of the broker that does not support
it. What an older version of ours left there is found by comparing with the brokers, so a controller that takes over
decides as if it had just seen all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from minikafka.broker.controller.state import Broker, Cluster
from minikafka.broker.controller.writer import Writer
from minikafka.broker.features import SUPPORTED, Finalized, common_levels
from minikafka.broker.zookeeper.coord import Create, NoNode, Set
from minikafka.broker.zookeeper.znodes import FEATURES, BadNode, FeaturesNode

log: Final = logging.getLogger(__name__)


class Features:
    """See the module's description."""

    def __init__(self, cluster: Cluster, writer: Writer) -> None:
        self._cluster = cluster
        self._writer = writer

    async def settle(self, brokers: Mapping[int, Broker]) -> None:
        """Finalize what all these brokers support."""
        while True:
            found = await self._writer.read(self._read)
            if found is None:
                # Empty at first, so that the first feature comes with a later epoch than none at all.
                await self._writer.write(Create(FEATURES, FeaturesNode().encode()))
                continue
            node, version = found
            wanted = node.with_levels(common_levels(each.node.features for each in brokers.values()), SUPPORTED)
            if wanted == node:
                self._cluster.features = Finalized(node.levels, version)
                return
            log.info("finalized features: %s", dict(wanted.levels))
            await self._writer.write(Set(FEATURES, wanted.encode(), version))

    async def _read(self) -> tuple[FeaturesNode, int] | None:
        try:
            data, stat = await self._writer.coord.get(FEATURES)
        except NoNode:
            return None
        try:
            return FeaturesNode.decode(data), stat.version
        except BadNode as error:
            log.error("%s: it is written again", error)
            return FeaturesNode(is_enabled=False), stat.version
