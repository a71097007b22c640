"""Who listens where with which settings: all that is decided before anything is started.

A broker's settings are for a machine on which everything can be started again in a second: coordinators do not wait
for more members, internal topics have as many replicas as there are brokers, sessions end soon. Whatever is given by
`--set` counts more, except for what has to differ from broker to broker.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

HOST: Final = "127.0.0.1"

PORT_MAX: Final = 65_535
# Below the ports that outgoing connections are given, so that none of them is in the way at the next start.
_FREE_PORTS: Final = range(20_000, 32_000)

_OURS: Final = {
    "broker.id": "brokers are numbered from 1",
    "node.id": "brokers are numbered from 1",
    "listeners": "brokers listen on --port and those after it",
    "log.dir": "brokers keep their logs in the folder of --data",
    "log.dirs": "brokers keep their logs in the folder of --data",
    "zookeeper.connect": "that is what --zookeeper is for",
    "minikafka.http.port": "every broker has a free one",
}


class UpError(Exception):
    """The cluster cannot be started; the text is one line for whoever asked for it."""

    def __init__(self, reason: str, code: int = 1) -> None:
        super().__init__(reason)
        self.code = code


class BrokerPlan(NamedTuple):
    """One broker to be."""

    id: int
    port: int
    http_port: int


class Plan(NamedTuple):
    """A cluster to be."""

    brokers: tuple[BrokerPlan, ...]
    zookeeper_ports: tuple[int, ...]
    """Of the nodes to start; none if the ensemble is somebody else's."""
    zookeeper_connect: str
    settings: Mapping[str, str]
    """For every broker."""

    def properties(self, broker: BrokerPlan, log_dir: Path) -> dict[str, str]:
        """All settings of one broker."""
        count = len(self.brokers)
        return {
            "broker.id": str(broker.id),
            "listeners": f"PLAINTEXT://{HOST}:{broker.port}",
            "log.dirs": str(log_dir),
            "zookeeper.connect": self.zookeeper_connect,
            "zookeeper.session.timeout.ms": "6000",
            # ZooKeeper is started at the same time, perhaps on a machine that is busy.
            "zookeeper.connection.timeout.ms": "60000",
            "minikafka.http.port": str(broker.http_port),
            "offsets.topic.replication.factor": str(min(3, count)),
            "transaction.state.log.replication.factor": str(min(3, count)),
            "transaction.state.log.min.isr": str(min(2, count)),
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }


def make_plan(
    brokers: int,
    port: int,
    zookeeper_nodes: int,
    zookeeper: str | None,
    sets: Sequence[str],
    rng: random.Random,
    last_ports: Sequence[int] = (),
) -> Plan:
    """Decide everything; UpError if something is in the way. Port 0 stands for free ones, the last ones if they are."""
    settings = _settings(sets, brokers)
    if port + brokers - 1 > PORT_MAX:
        raise UpError(f"{brokers} brokers from port {port} on: there is no port above {PORT_MAX}", 2)
    ports = list(range(port, port + brokers)) if port else _any_ports(brokers, last_ports, rng)
    for each in ports:
        if not is_free(each):
            raise UpError(f"port {each} is taken; is another Kafka running? --port chooses another one")
    others = free_ports(brokers + (0 if zookeeper else zookeeper_nodes), rng, ports)
    nodes = tuple(others[brokers:])
    return Plan(
        brokers=tuple(BrokerPlan(index + 1, ports[index], others[index]) for index in range(brokers)),
        zookeeper_ports=nodes,
        zookeeper_connect=zookeeper or ",".join(f"{HOST}:{each}" for each in nodes),
        settings=settings,
    )


def _settings(sets: Sequence[str], brokers: int) -> dict[str, str]:
    settings = {}
    for each in sets:
        name, equals, value = each.partition("=")
        name = name.strip()
        if not equals:
            # Without an equals sign there is no telling where a secret begins.
            raise UpError("--set: must be key=value", 2)
        if name in _OURS:
            raise UpError(f"--set {name}: {_OURS[name]}", 2)
        if name == "advertised.listeners" and brokers > 1:
            raise UpError("--set advertised.listeners: the same address cannot be that of every broker", 2)
        settings[name] = value
    return settings


def _any_ports(count: int, last: Sequence[int], rng: random.Random) -> list[int]:
    """Rather those of the last time: until its session is over, ZooKeeper takes a broker elsewhere for another one."""
    kept = [each for each in last[:count] if is_free(each)]
    return kept if len(kept) == count else free_ports(count, rng)


def free_ports(count: int, rng: random.Random, without: Iterable[int] = ()) -> list[int]:
    """Different ports on which nobody listens now."""
    found: list[int] = []
    for port in rng.sample(_FREE_PORTS, len(_FREE_PORTS)):
        if len(found) == count:
            break
        if port not in without and is_free(port):
            found.append(port)
    return found


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As a server does that may use a port again whose last connections are not forgotten yet.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
