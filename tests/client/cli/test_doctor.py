"""`minikafka doctor`: a healthy cluster, a sick one, and everything it can say."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from minikafka.client.admin import LogDirDescription, PartitionDescription, TopicDescription
from minikafka.client.cli.judging import OK, PROBLEM, WARNING, Clock, Facts, Finding, View, judge
from minikafka.client.config import Address
from minikafka.client.errors import ConnectionFailed
from minikafka.protocol.errors import KafkaStorageError, UnknownServerError
from tests.client.cli.calling import Called, Cli
from tests.compat.clients.model import eventually
from tests.compat.running import Cluster, Up, free_ports

VIEW = View("here", 1, {1: Address("a", 9092), 2: Address("b", 9092)})


def subjects(called: Called, level: str = PROBLEM) -> set[str]:
    return {each["subject"] for each in called.json["findings"] if each["level"] == level}


def test_a_healthy_cluster(cli: Cli, up_cluster: Cluster) -> None:
    # Replicas of other tests' topics may still be on their way.
    called = eventually(lambda: cli("doctor", "--json"), lambda found: found.code == 0)
    assert called.json["healthy"]
    assert subjects(called, OK) >= {"connection", "brokers", "controller", "partitions", "internal topics", "clocks"}
    server = up_cluster.brokers[1]
    shown = cli("doctor", f"{server.host}:{server.port}", "--read-only", env={"MINIKAFKA_BOOTSTRAP": "nowhere:1"})
    assert shown.out.splitlines()[-1] == "all is well" and "clocks" not in shown.out
    assert "minikafka-doctor" not in cli("topic", "list").out


def test_nobody_there(cli: Cli) -> None:
    called = cli("doctor", f"127.0.0.1:{free_ports(1)}", "--json")
    assert (called.code, subjects(called)) == (1, {"connection"})
    assert cli("doctor", "no:port:at:all").code == 2


def test_somebody_else_is_there(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        answering = Thread(target=answer)
        answering.start()
        shown = cli("doctor", f"127.0.0.1:{server.getsockname()[1]}")
        answering.join()
    assert shown.code == 1 and "security.protocol" in shown.out and shown.out.endswith("1 problem\n")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    """Two brokers, which are fewer than their settings ask for."""
    process = Up(tmp_path, 2, "offsets.topic.replication.factor=3")
    try:
        yield process.wait_until_ready()
    finally:
        process.stop()


def test_a_sick_cluster(pair: Cluster) -> None:
    cli = Cli(pair.bootstrap.partition(",")[0])
    cli("topic", "create", "both", "-r", 2, "-c", "min.insync.replicas=2").done()
    cli("topic", "create", "many", "-p", 4, "-r", 1).done()
    called = cli("doctor", "--json")
    assert subjects(called) == {"internal topics"}, called.out
    os.kill(pair.brokers[1].pid, signal.SIGKILL)
    # Until its session ends the cluster takes it for alive, and clients are sent to where nobody is.
    called = cli("doctor", "--json")
    assert (called.code, "brokers" in subjects(called)) == (1, True), called.out
    called = eventually(lambda: cli("doctor", "--json"), lambda found: "partitions" in subjects(found))
    texts = [each["text"] for each in called.json["findings"] if each["subject"] == "partitions"]
    assert any("2 partitions have no leader" in text and "many-" in text for text in texts), called.out
    assert any("min.insync.replicas" in text and "both-0" in text for text in texts), called.out


# ------------------------------------------------------------------------------------------ what it can say


def problems(facts: Facts, level: str = PROBLEM) -> list[Finding]:
    return [finding for finding in judge(facts) if finding.level == level]


def partition(index: int, leader: int | None, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionDescription:
    return PartitionDescription(index, leader, 0, replicas, isr, ())


def test_brokers_that_are_elsewhere() -> None:
    (found,) = problems(Facts(VIEW, reached={1: VIEW, 2: ConnectionFailed("refused")}))
    assert "broker 2" in found.text and "refused" in found.text and "advertised.listeners" in (found.hint or "")
    (found,) = problems(Facts(VIEW, reached={1: VIEW, 2: View("there", 1, VIEW.brokers)}))
    assert "another cluster" in found.text
    (found,) = problems(Facts(View("here", 1, {1: Address("a", 1), 2: Address("a", 1)})))
    assert "brokers 1, 2 are all said to be at a:1" in found.text


def test_no_controller_or_two() -> None:
    (found,) = problems(Facts(View("here", -1, VIEW.brokers)))
    assert found.subject == "controller" and "no controller" in found.text
    (found,) = problems(Facts(VIEW, reached={1: VIEW, 2: View("here", 2, VIEW.brokers)}))
    assert "another controller" in found.text
    (found,) = problems(Facts(VIEW, reached={1: VIEW, 2: View("here", 1, {2: Address("b", 9092)})}))
    assert "other brokers" in found.text


def test_partitions() -> None:
    topic = TopicDescription(
        "t",
        b"",
        False,
        (partition(0, None, (1,), ()), partition(1, 1, (1, 2), (1,)), partition(2, 1, (1, 2), (1, 2))),
    )
    texts = [found.text for found in problems(Facts(VIEW, [topic]))]
    assert texts == [
        "1 partitions have no leader: nothing can be read or written: t-0",
        "1 partitions are under-replicated: t-1",
    ]
    texts = [found.text for found in problems(Facts(VIEW, [topic], min_isr={"t": 2}))]
    assert texts[1].startswith("1 partitions have fewer replicas than min.insync.replicas")


def test_many_partitions_are_not_all_named() -> None:
    topic = TopicDescription("t", b"", False, tuple(partition(each, None, (1,), ()) for each in range(9)))
    (found,) = problems(Facts(VIEW, [topic]))
    assert found.text.endswith("t-0, t-1, t-2, t-3, t-4 and 4 more")


def test_too_few_brokers_for_internal_topics() -> None:
    configs = {"offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "2"}
    (found,) = problems(Facts(VIEW, configs=configs))
    assert found.text.startswith("consumer groups cannot work") and "2 on all of them" in (found.hint or "")
    there = TopicDescription("__consumer_offsets", b"", True, ())
    assert problems(Facts(VIEW, [there], configs=configs)) == []


def test_disks() -> None:
    full = LogDirDescription("/data", None, {}, 1000, 50)
    (found,) = problems(Facts(VIEW, log_dirs={1: (full,), 2: (LogDirDescription("/ok", None, {}, 10, 9),)}), WARNING)
    assert "5.0% are free" in found.text and "broker 1" in found.text
    (found,) = problems(Facts(VIEW, log_dirs={1: (LogDirDescription("/bad", KafkaStorageError(), {}, None, None),)}))
    assert "/bad of broker 1 is out of service" in found.text
    (found,) = problems(Facts(VIEW, log_dirs={1: UnknownServerError("oops")}), WARNING)
    assert "oops" in found.text


def test_clocks() -> None:
    assert problems(Facts(VIEW, clocks={1: Clock(900, 5), 2: Clock(-1100, 200)})) == []
    (found,) = problems(Facts(VIEW, clocks={1: Clock(0, 5), 2: Clock(-7200, 200)}))
    assert found.text == "the clock of broker 2 is 7.2 s behind the one here"
    (found,) = problems(Facts(VIEW, clocks={1: UnknownServerError("oops")}))
    assert "oops" in found.text
