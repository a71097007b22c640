"""The broker that the suite expects: alone, with id 0, four partitions in a topic that comes by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minikafka.broker.zookeeper.embedded import ZooKeeperServer
from tests.compat.running import START_S, STOP_S, free_ports

SETTINGS = """\
broker.id=0
listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={folder}
zookeeper.connect={zookeeper}
num.partitions=4
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.min.session.timeout.ms=1000
group.initial.rebalance.delay.ms=0
"""


@contextmanager
def lone_broker(folder: Path) -> Iterator[str]:
    """Its address."""
    zookeeper = ZooKeeperServer(folder / "zookeeper", is_durable=False)
    asyncio.run(zookeeper.start())
    try:
        with _broker(folder, zookeeper.connect) as address:
            yield address
    finally:
        asyncio.run(zookeeper.stop())


@contextmanager
def _broker(folder: Path, zookeeper: str) -> Iterator[str]:
    port = free_ports(1)
    file = folder / "broker.properties"
    file.write_text(SETTINGS.format(port=port, folder=folder / "broker", zookeeper=zookeeper))
    command = Path(sysconfig.get_path("scripts")) / "minikafka"
    with (folder / "broker.log").open("wb") as output:
        process = subprocess.Popen([command, "broker", "--config", file], stdout=output, stderr=subprocess.STDOUT)
    try:
        _wait_for(process, port)
        yield f"127.0.0.1:{port}"
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait(STOP_S)


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    """Until it listens. It keeps those who come early waiting."""
    for _ in range(START_S * 20):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            pass
        try:
            raise SystemExit(f"the broker ended with {process.wait(0.05)}")
        except subprocess.TimeoutExpired:
            continue
    raise SystemExit("the broker does not listen")
