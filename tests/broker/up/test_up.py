"""`minikafka up` as a whole, with a real ZooKeeper and real brokers."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from minikafka.broker.zookeeper.embedded import ZooKeeperServer
from tests.broker.eventually import eventually
from tests.broker.up.commands import run, running
from tests.broker.up.test_cluster import is_alive

pytestmark = pytest.mark.needs("java")

# So long does ZooKeeper remember a broker that was killed.
SHORT_SESSIONS = ("--set", "zookeeper.session.timeout.ms=2000")


def pids(told: dict[str, Any]) -> list[int]:
    return [each["pid"] for each in (*told["brokers"], *told["zookeeper"])]


def send(port: int, value: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{port}")
    producer.send("words", value, partition=0).get(30)
    producer.close()


def read(port: int, count: int) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=f"127.0.0.1:{port}", consumer_timeout_ms=30_000)
    partition = TopicPartition("words", 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    values = [record.value for record in islice(consumer, count)]
    consumer.close()
    return values


async def test_life_of_a_cluster(tmp_path: Path) -> None:
    """Started, used, stopped, started again with the same data, and begun anew."""
    arguments = ("up", "--port", 0, "--data", tmp_path / "data")
    with running(tmp_path, *arguments) as up:
        told = await up.told()
        port = told["brokers"][0]["port"]
        await asyncio.to_thread(send, port, b"one")
        assert up.end(signal.SIGINT) == 0, up.said()
        assert not any(map(is_alive, pids(told)))
        assert (tmp_path / "data" / "broker-1" / ".kafka_cleanshutdown").exists()
        assert not (tmp_path / "data" / "cluster.json").exists()
        assert " ERROR " not in up.said()
    with running(tmp_path, *arguments) as up:
        told = await up.told()
        port = told["brokers"][0]["port"]
        await asyncio.to_thread(send, port, b"two")
        assert await asyncio.to_thread(read, port, 2) == [b"one", b"two"]
        assert up.end(signal.SIGTERM) == 0, up.said()
    with running(tmp_path, *arguments, "--fresh") as up:
        told = await up.told()
        assert not (tmp_path / "data" / "broker-1" / "words-0").exists()
        assert up.end(signal.SIGTERM) == 0, up.said()


async def test_a_killed_broker_is_started_again_by_its_properties(tmp_path: Path) -> None:
    with running(tmp_path, "up", "--brokers", 2, "--port", 0, "--data", tmp_path / "data", *SHORT_SESSIONS) as up:
        told = await up.told()
        killed = told["brokers"][1]
        os.kill(killed["pid"], signal.SIGKILL)
        await eventually(lambda: "start it again" in up.said())
        line = next(line for line in up.said().splitlines() if "start it again" in line)
        words = line.partition(": minikafka ")[2].split()
        (tmp_path / "again").mkdir()
        with running(tmp_path / "again", *words) as again:
            await eventually(lambda: "broker 2 is ready" in again.said(), 50)
            await asyncio.to_thread(send, killed["port"], b"one")
            assert again.end(signal.SIGTERM) == 0, again.said()
        assert up.end(signal.SIGTERM) == 0, up.said()


async def test_nothing_is_left_when_it_is_killed(tmp_path: Path) -> None:
    arguments = ("up", "--port", 0, "--data", tmp_path / "data", *SHORT_SESSIONS)
    with running(tmp_path, *arguments) as up:
        told = await up.told()
        assert up.end(signal.SIGKILL) == -signal.SIGKILL
        await eventually(lambda: not any(map(is_alive, pids(told))))
        # And the next one is not confused by what it left behind.
        assert (tmp_path / "data" / "cluster.json").exists()
    with running(tmp_path, *arguments) as up:
        await eventually(lambda: not (tmp_path / "data" / "cluster.json").exists())
        # Brokers have the same addresses again, by which ZooKeeper's memory of them is known to be of the dead.
        assert (await up.told())["brokers"][0]["port"] == told["brokers"][0]["port"]
        assert up.end(signal.SIGTERM) == 0, up.said()


async def test_a_zookeeper_that_runs_already(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    connect = f"{zookeeper.connect}/{tmp_path.name}"
    with running(tmp_path, "up", "--port", 0, "--data", tmp_path / "data", "--zookeeper", connect) as up:
        told = await up.told()
        assert told["zookeeper"] == []
        assert not (tmp_path / "data" / "zookeeper").exists()
        assert up.end(signal.SIGTERM) == 0, up.said()


async def test_several_nodes_of_zookeeper(tmp_path: Path) -> None:
    with running(tmp_path, "up", "--port", 0, "--data", tmp_path / "data", "--zookeeper-nodes", 3) as up:
        told = await up.told()
        assert [each["id"] for each in told["zookeeper"]] == [1, 2, 3]
        assert up.end(signal.SIGTERM) == 0, up.said()
    assert not any(map(is_alive, pids(told)))


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = run("up", "--port", port, "--data", tmp_path / "data")
    assert code == 1
    assert said == f"minikafka up: port {port} is taken; is another Kafka running? --port chooses another one\n"


def test_a_wrong_setting_is_one_clear_line(tmp_path: Path) -> None:
    arguments = ("up", "--brokers", 2, "--port", 0, "--data", tmp_path / "data", "--log-level", "error")
    code, said = run(*arguments, "--set", "num.partitions=none")
    assert (code, said.count("\n")) == (2, 1)
    assert "num.partitions='none': must be a" in said


def test_without_java_it_says_what_would_help(tmp_path: Path) -> None:
    code, said = run("up", "--port", 0, "--data", tmp_path / "data", JAVA_HOME=str(tmp_path))
    assert code == 1
    assert said == f"minikafka up: JAVA_HOME is {tmp_path}, and there is no Java 8 or newer in it\n"


def test_the_environment_names_the_folder(tmp_path: Path) -> None:
    code, _ = run("up", "--port", 0, "--set", "x", XDG_DATA_HOME=str(tmp_path))
    assert code == 2
    assert (tmp_path / "minikafka" / "port-0" / ".minikafka-up").exists()
