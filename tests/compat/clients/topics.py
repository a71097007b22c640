"""Topics of a test: named after it, so that a broker's log tells whose they were, and never met again."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from functools import partial

from minikafka.protocol.records import BatchView
from tests.compat.clients.confluent import ConfluentAdmin
from tests.compat.clients.model import eventually
from tests.compat.running import Broker, Cluster
from tests.compat.wire import led_partitions, stored

NAME_LENGTH_MAX = 249


def named_after(test: str) -> str:
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", test).strip("-")


class Topics:
    """Makes topics and looks into them."""

    def __init__(self, keeper: ConfluentAdmin, cluster: Cluster, prefix: str) -> None:
        self._keeper = keeper
        self._cluster = cluster
        self._prefix = prefix

    def name(self) -> str:
        """A name nobody has."""
        return f"{self._prefix}-{uuid.uuid4().hex[:8]}"[-NAME_LENGTH_MAX:]

    def make(self, partitions: int = 1, configs: Mapping[str, str] = {}) -> str:
        topic = self.name()
        self._keeper.create_topic(topic, partitions, configs)
        self.wait_for(topic, partitions)
        return topic

    def wait_for(self, topic: str, partitions: int) -> None:
        """Until every broker has heard of it: clients ask any."""
        for broker in self._cluster.brokers:
            eventually(partial(led_partitions, broker, topic), lambda led: led == partitions)

    def batches(self, topic: str, partition: int = 0) -> list[BatchView]:
        return stored(self.leader(topic, partition), topic, partition)

    def leader(self, topic: str, partition: int = 0) -> Broker:
        leader = self._keeper.leaders(topic)[partition]
        return next(broker for broker in self._cluster.brokers if broker.id == leader)
