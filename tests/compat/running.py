"""A cluster in processes of its own, as a user starts it: by the command, found through its `cluster.json`."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sysconfig
from pathlib import Path
from typing import NamedTuple

# From the command to the last broker being ready, on a machine that is busy with other things.
START_S = 60
STOP_S = 30

# What a broker that has nothing to complain about never prints.
COMPLAINT = re.compile(r"Traceback|\b(?:ERROR|CRITICAL|FATAL)\b")


class Broker(NamedTuple):
    """One broker process. Apache Kafka's have no HTTP port."""

    id: int
    pid: int
    host: str
    port: int
    http_port: int | None = None


class Cluster(NamedTuple):
    """A running cluster and where it keeps its files."""

    data: Path
    brokers: tuple[Broker, ...]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.brokers)

    @property
    def broker_ids(self) -> set[int]:
        return {broker.id for broker in self.brokers}


def read_cluster(path: Path) -> Cluster:
    brokers = json.loads(path.read_text())["brokers"]
    return Cluster(path.parent, tuple(Broker(**broker) for broker in brokers))


def free_ports(count: int) -> int:
    """The first of a row of ports nobody listens on, outside the range from which outgoing connections take theirs."""
    while True:
        first = random.randrange(20_000, 32_000)
        if all(_is_free(port) for port in range(first, first + count)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Up:
    """`minikafka up` as a child process; what it prints goes to a file."""

    def __init__(self, folder: Path, brokers: int, *settings: str) -> None:
        self.data = folder / "data"
        self._output = folder / "output.txt"
        command = Path(sysconfig.get_path("scripts")) / "minikafka"
        options = ["--brokers", str(brokers), "--port", str(free_ports(brokers)), "--data", str(self.data)]
        options += [word for setting in settings for word in ("--set", setting)]
        with self._output.open("wb") as output:
            # A session of its own: Ctrl-C at the tests is not for the cluster, which is ended by its pid.
            self._process = subprocess.Popen(
                [command, "up", *options], stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def wait_until_ready(self) -> Cluster:
        """Wait for the file that is written when every broker serves."""
        file = self.data / "cluster.json"
        for _ in range(START_S * 20):
            if file.exists():
                return read_cluster(file)
            try:
                code = self._process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"minikafka up ended with {code}:\n{self.output}")
        raise AssertionError(f"minikafka up is not ready after {START_S} s:\n{self.output}")

    def stop(self) -> int:
        """End it as a user would. The last resort takes the brokers with it, and shows as a signal's exit code."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGTERM)
        try:
            return self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            return self._process.wait()

    def complaints(self) -> list[str]:
        return [line for line in self.output.splitlines() if COMPLAINT.search(line)]
