"""Who listens where with which settings."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

import pytest

from minikafka.broker.config.load import load
from minikafka.broker.config.properties import format_properties
from minikafka.broker.up.plan import HOST, Plan, UpError, free_ports, is_free, make_plan

RNG = random.Random(os.getpid())


def plan(brokers: int = 1, port: int = 0, nodes: int = 1, zookeeper: str | None = None, *sets: str) -> Plan:
    return make_plan(brokers, port, nodes, zookeeper, sets, RNG)


def row_of_ports(count: int) -> int:
    while True:
        first = RNG.randrange(20_000, 30_000)
        if all(map(is_free, range(first, first + count))):
            return first


def test_brokers_take_the_ports_after_the_first_and_are_numbered_from_one() -> None:
    first = row_of_ports(3)
    made = plan(3, first)
    assert [(each.id, each.port) for each in made.brokers] == [(1, first), (2, first + 1), (3, first + 2)]


@pytest.mark.parametrize("port", [0, row_of_ports(3)])
def test_all_ports_are_different(port: int) -> None:
    made = plan(3, port, 3)
    ports = [*made.zookeeper_ports, *(number for each in made.brokers for number in (each.port, each.http_port))]
    assert len(set(ports)) == len(ports) == 9
    assert made.zookeeper_connect == ",".join(f"{HOST}:{each}" for each in made.zookeeper_ports)


def test_free_ports_are_those_of_the_last_time_if_they_are_free() -> None:
    last = list(range(first := row_of_ports(3), first + 3))
    again = make_plan(3, 0, 1, None, [], RNG, last)
    assert [each.port for each in again.brokers] == last
    with socket.socket() as taken:
        taken.bind((HOST, last[1]))
        taken.listen()
        other = make_plan(3, 0, 1, None, [], RNG, last)
    assert last[1] not in [each.port for each in other.brokers]
    more = make_plan(4, 0, 1, None, [], RNG, last)
    assert len({each.port for each in more.brokers}) == 4


def test_a_zookeeper_that_runs_already() -> None:
    made = plan(1, 0, 1, "one:2181,two:2181/kafka")
    assert (made.zookeeper_ports, made.zookeeper_connect) == ((), "one:2181,two:2181/kafka")


def test_a_taken_port() -> None:
    first = row_of_ports(2)
    with socket.socket() as taken:
        taken.bind((HOST, first + 1))
        taken.listen()
        with pytest.raises(UpError, match=f"^port {first + 1} is taken"):
            plan(2, first)
        assert first + 1 not in free_ports(12_000 - 1, RNG)


def test_more_brokers_than_ports() -> None:
    with pytest.raises(UpError, match="no port above 65535"):
        plan(3, 65534)


@pytest.mark.parametrize(("brokers", "factor", "min_isr"), [(1, 1, 1), (2, 2, 2), (3, 3, 2), (5, 3, 2)])
def test_properties_are_what_a_broker_understands(tmp_path: Path, brokers: int, factor: int, min_isr: int) -> None:
    made = plan(brokers, 0, 1, None, "num.partitions=4", "group.initial.rebalance.delay.ms=7", "ssl.cipher.suites=a=b")
    broker = made.brokers[-1]
    file = tmp_path / "broker.properties"
    file.write_text(format_properties(made.properties(broker, tmp_path / "lo gs")))
    config, warnings = load(str(file), {})
    assert not [warning for warning in warnings if "ssl" not in warning]
    assert config.broker_id == brokers
    assert [str(each) for each in config.listeners] == [f"PLAINTEXT://{HOST}:{broker.port}"]
    assert config.log_dirs == (str(tmp_path / "lo gs"),)
    assert config.minikafka_http_port == broker.http_port
    assert config.zookeeper_connect == made.zookeeper_connect
    assert config.offsets_topic_replication_factor == config.transaction_state_log_replication_factor == factor
    assert config.transaction_state_log_min_isr == min_isr
    assert (config.num_partitions, config.group_initial_rebalance_delay_ms) == (4, 7)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("broker.id=7", "--set broker.id: brokers are numbered from 1"),
        (" listeners =PLAINTEXT://:1", "--set listeners: brokers listen on --port"),
        ("log.dirs=x", "--set log.dirs: brokers keep their logs in"),
        ("zookeeper.connect=x", "--set zookeeper.connect: that is what --zookeeper is for"),
        ("advertised.listeners=PLAINTEXT://x:1", "--set advertised.listeners: the same address"),
        ("nonsense", "--set: must be key=value"),
    ],
)
def test_what_cannot_be_set_for_every_broker(setting: str, complaint: str) -> None:
    with pytest.raises(UpError, match=f"^{complaint}") as raised:
        plan(2, 0, 1, None, setting)
    assert raised.value.code == 2


def test_one_broker_may_be_found_elsewhere() -> None:
    made = plan(1, 0, 1, None, "advertised.listeners=PLAINTEXT://example.com:9092")
    assert made.properties(made.brokers[0], Path("x"))["advertised.listeners"] == "PLAINTEXT://example.com:9092"
