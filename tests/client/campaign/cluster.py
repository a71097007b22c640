"""Three real brokers with ZooKeeper, and the proxy in front of the listener that clients under test use.

CLIENT   advertised with the proxy's ports: whoever starts there stays behind the proxy
DIRECT   advertised as it is: for those who prepare, move leaders and look on
PEER     between brokers
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from minikafka.broker.config.properties import format_properties
from minikafka.broker.up.plan import free_ports
from minikafka.broker.zookeeper.embedded import ZooKeeperServer
from tests.chaos.cluster import START_SECONDS, Broker
from tests.chaos.links import HOST
from tests.chaos.waiting import wait_until
from tests.proxy.control import Proxy

SETTINGS = {
    "auto.create.topics.enable": "false",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "leader.imbalance.check.interval.seconds": "3600",
    "log.segment.delete.delay.ms": "1000",
}


class CampaignBroker(Broker):
    """One with three listeners."""

    def __init__(self, broker_id: int, folder: Path, ports: list[int]) -> None:
        self.client_port, self.direct_port, self.proxy_port, peer_port = ports
        super().__init__(broker_id, folder, self.client_port, peer_port)

    def write_properties(self, settings: Mapping[str, str], zookeeper: str, advertised_peer_port: int) -> None:
        peer = f"PEER://{HOST}:{advertised_peer_port}"
        direct = f"DIRECT://{HOST}:{self.direct_port}"
        mine = {
            "broker.id": str(self.id),
            "listeners": f"CLIENT://{HOST}:{self.client_port},{direct},{peer}",
            "advertised.listeners": f"CLIENT://{HOST}:{self.proxy_port},{direct},{peer}",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,DIRECT:PLAINTEXT,PEER:PLAINTEXT",
            "inter.broker.listener.name": "PEER",
            "log.dirs": str(self.log_dir),
            "zookeeper.connect": zookeeper,
        }
        self.properties.write_text(format_properties({**SETTINGS, **settings, **mine}))


class CampaignCluster:
    """See the module's description."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        ports = free_ports(12, random.Random())
        self.brokers = [CampaignBroker(index + 1, folder, ports[index * 4 : index * 4 + 4]) for index in range(3)]
        self._zookeeper = ZooKeeperServer(folder / "zookeeper", is_durable=False)
        self.proxy = Proxy({broker.proxy_port: broker.client_port for broker in self.brokers})

    @property
    def bootstrap(self) -> str:
        """Behind the proxy."""
        return ",".join(f"{HOST}:{broker.proxy_port}" for broker in self.brokers)

    @property
    def direct(self) -> str:
        """Past the proxy."""
        return ",".join(f"{HOST}:{broker.direct_port}" for broker in self.brokers)

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            asyncio.run(self._zookeeper.start())
            for broker in self.brokers:
                broker.write_properties({}, self._zookeeper.connect, broker.peer_port)
                broker.start()
            self._wait_until_ready()
            self.proxy.__enter__()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.proxy.__exit__()
        self._stop()

    def _wait_until_ready(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.direct, "log_level": 0})
        wanted = {broker.id for broker in self.brokers}

        def are_there() -> bool:
            return set(admin.list_topics(timeout=1).brokers) == wanted

        wait_until(are_there, START_SECONDS, "all brokers are there", KafkaException)

    def _stop(self) -> None:
        for broker in self.brokers:
            broker.close()
        asyncio.run(self._zookeeper.stop())

    def complaints(self) -> list[str]:
        """Lines of brokers that must not be, since the last time."""
        return [
            f"{broker.name}: {line}"
            for broker in self.brokers
            for line in broker.read_output()
            if "Traceback" in line or " CRITICAL " in line
        ]
