"""A cluster of real processes that can be killed, stopped, cut off and started again one by one.

Brokers are started as `minikafka up` starts them, by their properties files, and end with this process. The variable
MINIKAFKA_CHAOS_BROKER may name another command, in which {folder} and {id} stand for those of a file
folder/broker-id.properties: with Apache Kafka's the tests themselves are put to the test.

Times are short, so that much happens in one run: sessions end after seconds, segments are full after seconds, and a
follower that lags leaves the ISR after seconds. What a producer has sent is remembered as long as Kafka does by
default, though: a retry that comes after it was forgotten makes a duplicate, by design.
"""

from __future__ import annotations

import asyncio
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from kazoo.exceptions import KazooException

from minikafka.broker.config.properties import format_properties
from minikafka.broker.lifeline import VARIABLE
from minikafka.broker.up.plan import free_ports
from minikafka.broker.zookeeper.embedded import Node, ZooKeeperServer
from tests.chaos.injection import Injection, build_library
from tests.chaos.links import HOST, Links, State, holds_socket
from tests.chaos.view import View
from tests.chaos.waiting import NotInTime, wait_until

COMMAND_VARIABLE = "MINIKAFKA_CHAOS_BROKER"

SESSION_SECONDS = 4.0
LAG_SECONDS = 2.0
START_SECONDS = 60.0
STOP_SECONDS = 60.0
HEAL_SECONDS = 60.0

SETTINGS = {
    "zookeeper.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
    "zookeeper.connection.timeout.ms": "60000",
    "replica.lag.time.max.ms": str(int(LAG_SECONDS * 1000)),
    "min.insync.replicas": "2",
    "log.segment.bytes": "65536",
    "log.index.interval.bytes": "256",
    "log.segment.delete.delay.ms": "1000",
    "leader.imbalance.check.interval.seconds": "30",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}


class Broker:
    """One broker, through all its processes."""

    def __init__(self, broker_id: int, folder: Path, port: int, peer_port: int) -> None:
        self.id = broker_id
        self.name = f"broker-{broker_id}"
        self.port = port
        self.peer_port = peer_port
        self.log_dir = folder / self.name
        self.properties = folder / f"{self.name}.properties"
        self.output = folder / f"{self.name}.txt"
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: socket.socket | None = None
        self._output_read = 0
        self.environment: dict[str, str] = {}
        """What its next process has beside the variables of this one."""
        self.injection: Injection | None = None

    @property
    def pid(self) -> int:
        """0 if it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else 0

    def write_properties(self, settings: Mapping[str, str], zookeeper: str, advertised_peer_port: int) -> None:
        mine = {
            "broker.id": str(self.id),
            "listeners": f"CLIENT://{HOST}:{self.port},PEER://{HOST}:{self.peer_port}",
            "advertised.listeners": f"CLIENT://{HOST}:{self.port},PEER://{HOST}:{advertised_peer_port}",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,PEER:PLAINTEXT",
            "inter.broker.listener.name": "PEER",
            "log.dirs": str(self.log_dir),
            "zookeeper.connect": zookeeper,
        }
        self.properties.write_text(format_properties({**SETTINGS, **settings, **mine}))

    def start(self) -> None:
        assert not self.pid
        self._drop_lifeline()
        self._lifeline, theirs = socket.socketpair()
        with theirs, self.output.open("ab") as output:
            self._process = subprocess.Popen(
                broker_command(self.properties.parent, self.id),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **self.environment, VARIABLE: str(theirs.fileno())},
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        # Does nothing to a process that has ended and was waited for, whose number may be another's by now.
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """As a crash would end it."""
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """In good order; returns its exit code."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        assert self._process is not None
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            return self._process.wait()

    def read_output(self) -> list[str]:
        """What it has said since the last time."""
        with self.output.open(errors="replace") as lines:
            lines.seek(self._output_read)
            new = lines.read().splitlines()
            self._output_read = lines.tell()
        return new

    def close(self) -> None:
        if self.pid:
            self.stop()
        self._drop_lifeline()

    def _drop_lifeline(self) -> None:
        if self._lifeline is not None:
            self._lifeline.close()
            self._lifeline = None


def broker_command(folder: Path, broker_id: int) -> list[str]:
    given = os.environ.get(COMMAND_VARIABLE)
    if given is not None:
        return [word.format(folder=folder, id=broker_id) for word in shlex.split(given)]
    config = str(folder / f"broker-{broker_id}.properties")
    return [sys.executable, "-P", "-m", "minikafka", "broker", "--config", config]


class Cluster:
    """See the module's description. To be used by one thread, which has to outlive it."""

    def __init__(
        self,
        folder: Path,
        brokers: int = 3,
        *,
        linked: bool = False,
        injected: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`linked`: between brokers, and from them to ZooKeeper, connections can be cut. `injected`: disks and clocks
        of brokers can fail, for which a compiler is needed."""
        self.folder = folder
        self._settings = settings or {}
        self.is_linked = linked
        self._is_injected = injected
        ports = free_ports(2 * brokers, random.Random())
        self.brokers = [Broker(index + 1, folder, *ports[2 * index : 2 * index + 2]) for index in range(brokers)]
        self.zookeeper = ZooKeeperServer(folder / "zookeeper", nodes=3, is_durable=False)
        self.links = Links(self._name_of)
        self.view = View(self.zookeeper.connect)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{broker.port}" for broker in self.brokers)

    @property
    def nodes(self) -> Sequence[Node]:
        return self.zookeeper.nodes

    def broker(self, broker_id: int) -> Broker:
        return self.brokers[broker_id - 1]

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.links.__enter__()
        if self._is_injected:
            self._prepare_injection()
        try:
            asyncio.run(self.zookeeper.start())
            self.view.__enter__()
            for broker in self.brokers:
                broker.write_properties(self._settings, self._zookeeper_for(broker), self._advertised(broker))
                broker.start()
            self.wait_until_registered()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        """However it is found."""
        self.links.heal()
        self.reset_injection()
        self.resume_zookeeper()
        for broker in self.brokers:
            broker.signal(signal.SIGCONT)
            broker.signal(signal.SIGTERM)
        for broker in self.brokers:
            broker.close()
        self.view.__exit__()
        asyncio.run(self.zookeeper.stop())
        self.links.__exit__()

    def _prepare_injection(self) -> None:
        library = build_library(self.folder)
        for broker in self.brokers:
            broker.injection = Injection(library, self.folder / f"{broker.name}.inject", broker.log_dir)
            broker.environment |= broker.injection.environment

    def reset_injection(self) -> None:
        for broker in self.brokers:
            if broker.injection is not None:
                broker.injection.reset()

    # ZooKeeper's nodes

    def pause_zookeeper(self) -> None:
        self._signal_zookeeper(signal.SIGSTOP)

    def resume_zookeeper(self) -> None:
        self._signal_zookeeper(signal.SIGCONT)

    def _signal_zookeeper(self, number: signal.Signals) -> None:
        for node in self.nodes:
            if node.process is not None:
                node.process.send_signal(number)

    def kill_node(self, node: Node) -> None:
        asyncio.run(self.zookeeper.stop_node(node, kill=True))

    def start_node(self, node: Node) -> None:
        asyncio.run(self.zookeeper.start_node(node))

    # Links

    def cut(self, broker_id: int, others: Sequence[str], state: State) -> None:
        assert self.is_linked
        self.links.cut([self.broker(broker_id).name], others, state)

    @property
    def node_names(self) -> list[str]:
        return [f"zookeeper-{node.number}" for node in self.nodes]

    def others(self, broker_id: int) -> list[str]:
        return [broker.name for broker in self.brokers if broker.id != broker_id]

    def _zookeeper_for(self, broker: Broker) -> str:
        if not self.is_linked:
            return self.zookeeper.connect
        ports = [self.links.open(node.ports.client, f"zookeeper-{node.number}", broker.name) for node in self.nodes]
        return ",".join(f"{HOST}:{port}" for port in ports)

    def _advertised(self, broker: Broker) -> int:
        return self.links.open(broker.peer_port, broker.name) if self.is_linked else broker.peer_port

    def _name_of(self, inode: int) -> str:
        names = (broker.name for broker in self.brokers if broker.pid and holds_socket(broker.pid, inode))
        return next(names, "a stranger")

    # Waiting

    def epoch(self, broker_id: int) -> int:
        """Of the broker's registration, -1 if there is none."""
        return self.view.brokers.get(broker_id, -1)

    def wait_until_registered(self) -> None:
        wanted = {broker.id for broker in self.brokers}
        wait_until(lambda: set(self.view.brokers) == wanted, START_SECONDS, "all brokers are there", KazooException)

    def wait_until_gone(self, broker_id: int) -> None:
        wait_until(lambda: self.epoch(broker_id) == -1, START_SECONDS, f"broker {broker_id} is gone", KazooException)

    def wait_until_back(self, broker_id: int, epoch: int) -> None:
        """Until it is registered, and not by what was known of it at an epoch."""
        what = f"broker {broker_id} is back"
        wait_until(lambda: self.epoch(broker_id) not in (-1, epoch), START_SECONDS, what, KazooException)

    def wait_until_whole(self, topic: str) -> None:
        """Until every partition of a topic has a leader and all its replicas are in sync."""

        def is_whole() -> bool:
            states = self.view.partitions(topic)
            return bool(states) and all(state.is_whole for state in states.values()) and not self.view.is_moving

        try:
            wait_until(is_whole, HEAL_SECONDS, "all replicas are in sync", KazooException)
        except NotInTime as error:
            raise NotInTime(f"{error}: {self.view.partitions(topic)}") from None

    def complaints(self) -> Iterator[str]:
        """What brokers have said since the last time that they never should."""
        for broker in self.brokers:
            for line in broker.read_output():
                if "Traceback" in line or " CRITICAL " in line:
                    yield f"{broker.name}: {line}"
