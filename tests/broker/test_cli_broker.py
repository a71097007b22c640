"""`minikafka broker` as a process: how it starts, what it says when it cannot, and how it stops."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from minikafka.broker.lifeline import VARIABLE
from minikafka.broker.up.plan import HOST
from minikafka.broker.zookeeper.embedded import ZooKeeperServer

pytestmark = pytest.mark.needs("java")

READY_SECONDS = 50


class Ended(NamedTuple):
    code: int
    said: str


def command(*options: str) -> list[str]:
    return [sys.executable, "-P", "-m", "minikafka", "broker", *options]


def run(*options: str, **environment: str) -> Ended:
    """A broker that does not come up."""
    done = subprocess.run(
        command(*options),
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return Ended(done.returncode, done.stdout)


def complaints(said: str) -> list[str]:
    """What is not as it should be; that the machine is busy with other things is no fault of the broker."""
    found = [line for line in said.splitlines() if " ERROR " in line or " WARNING " in line]
    return [line for line in found if "broker.watchdog" not in line]


class Running:
    """A broker that has been started."""

    def __init__(self, process: subprocess.Popen[str], lifeline: socket.socket) -> None:
        self.process = process
        self.lifeline = lifeline

    def news(self) -> dict[str, object]:
        told: dict[str, object] = json.loads(self.lifeline.makefile().readline())
        return told

    def end(self) -> Ended:
        said, _ = self.process.communicate(timeout=READY_SECONDS)
        return Ended(self.process.returncode, said)


@contextmanager
def started(
    *options: str, environment: Mapping[str, str] | None = None, files_max: int | None = None
) -> Iterator[Running]:
    ours, theirs = socket.socketpair()
    with ours:
        ours.settimeout(READY_SECONDS)
        with theirs:
            limited = [] if files_max is None else ["sh", "-c", f'ulimit -n {files_max}; exec "$@"', "sh"]
            process = subprocess.Popen(
                limited + command(*options),
                env={**os.environ, VARIABLE: str(theirs.fileno()), **(environment or {})},
                pass_fds=[theirs.fileno()],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        try:
            yield Running(process, ours)
        finally:
            process.kill()
            process.communicate()


@pytest.fixture
def settings(tmp_path: Path, zookeeper: ZooKeeperServer) -> dict[str, str]:
    return {
        "broker.id": "5",
        "listeners": f"PLAINTEXT://{HOST}:0",
        "log.dirs": str(tmp_path / "logs"),
        # A tree of its own.
        "zookeeper.connect": f"{zookeeper.connect}/{tmp_path.name}",
    }


@pytest.fixture
def config(tmp_path: Path, settings: dict[str, str]) -> str:
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return str(path)


def test_a_bad_value(config: str) -> None:
    code, said = run("--config", config, "--set", "num.partitions=none")
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("minikafka broker: --set: num.partitions='none'")


def test_an_unknown_key(config: str) -> None:
    with open(config, "a") as file:
        file.write("log.dirz=x\n")
    code, said = run("--config", config)
    assert (code, said.count("\n")) == (2, 1)
    assert f"{config}:5: " in said
    assert "unknown key 'log.dirz', did you mean 'log.dir'?" in said


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    code, said = run("--config", str(tmp_path / "none"))
    assert (code, said) == (2, f"minikafka broker: {tmp_path / 'none'}: cannot be read: No such file or directory\n")


def test_a_secret_is_not_shown(config: str) -> None:
    code, said = run("--config", config, "--set", "ssl.keystore.password=swordfish", "--set", "num.partitions=none")
    assert code == 2
    assert "swordfish" not in said


def test_the_reason_as_json(config: str) -> None:
    code, said = run("--config", config, "--log-format", "json", "--set", "num.partitions=none")
    assert code == 2
    assert json.loads(said)["level"] == "CRITICAL"


def test_nobody_is_there(config: str) -> None:
    with socket.socket() as nobody:
        nobody.bind((HOST, 0))
        where = f"{HOST}:{nobody.getsockname()[1]}"
        code, said = run(
            *("--config", config, "--set", f"zookeeper.connect={where}"),
            *("--set", "zookeeper.connection.timeout.ms=300", "--log-level", "error"),
        )
    assert (code, said.count("\n")) == (1, 1)
    assert f"no ZooKeeper within 0.3 s at {where}" in said


def test_a_taken_port(config: str) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        for key, value in (("listeners", f"PLAINTEXT://{HOST}:{port}"), ("minikafka.http.port", str(port))):
            code, said = run("--config", config, "--set", f"{key}={value}", "--log-level", "error")
            assert (code, said.count("\n")) == (1, 1)
            assert str(port) in said
            assert "address already in use" in said


def test_a_directory_of_another_cluster(config: str, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "meta.properties").write_text("broker.id=5\nversion=0\ncluster.id=another\n")
    code, said = run("--config", config, "--log-level", "error")
    assert (code, said.count("\n")) == (2, 1)
    assert "belongs to broker 5 of cluster another" in said


def test_life(config: str, tmp_path: Path) -> None:
    """Started, asked, joined by one of the same id, stopped."""
    with started("--config", config, "--set", "minikafka.http.port=0") as broker:
        assert broker.news() == {"ready": True}
        other = ("--set", f"log.dirs={tmp_path / 'other'}", "--set", f"listeners=PLAINTEXT://{HOST}:0")
        code, said = run("--config", config, *other, "--log-level", "error")
        assert (code, said.count("\n")) == (2, 1)
        assert "broker id 5 is taken by the broker at PLAINTEXT://127.0.0.1:" in said
        broker.process.send_signal(signal.SIGTERM)
        code, said = broker.end()
        assert code == 0, said
        assert (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
    assert "broker 5 is ready" in said
    assert not complaints(said)


def test_settings_by_the_environment_alone(settings: dict[str, str]) -> None:
    variables = {f"KAFKA_{key.replace('.', '_').upper()}": value for key, value in settings.items()}
    with started("--log-format", "json", "--set", "minikafka.http.port=0", environment=variables) as broker:
        assert broker.news() == {"ready": True}
        broker.process.send_signal(signal.SIGINT)
        code, said = broker.end()
    assert code == 0
    lines = [json.loads(line) for line in said.splitlines()]
    (url,) = [
        line["message"].split()[-1] for line in lines if line["logger"] == "broker.process" and "http:" in str(line)
    ]
    assert url.startswith(f"http://{HOST}:")


def test_pages(config: str) -> None:
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    with started("--config", config, "--set", f"minikafka.http.port={port}") as broker:
        assert broker.news() == {"ready": True}
        for page, expected in (
            ("health", b'"healthy"'),
            ("ready", b'"ready"'),
            ("metrics", b"kafka_controller_kafkacontroller_activecontrollercount 1.0"),
        ):
            with urllib.request.urlopen(f"http://{HOST}:{port}/{page}", timeout=30) as answer:
                assert expected in answer.read()
        broker.process.send_signal(signal.SIGTERM)
        assert broker.end().code == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=30)


def test_no_disk_is_left(config: str, tmp_path: Path) -> None:
    with started("--config", config, "--set", "replica.high.watermark.checkpoint.interval.ms=100") as broker:
        assert broker.news() == {"ready": True}
        shutil.rmtree(tmp_path / "logs")
        news = broker.news()
        code, said = broker.end()
    assert code == news["code"] == 1, said
    assert str(news["failed"]).startswith(f"no log directory is left: {tmp_path / 'logs'}")


def test_too_few_open_files_are_told_in_one_line(config: str) -> None:
    with started("--config", config, files_max=200) as broker:
        assert broker.news() == {"ready": True}
        broker.process.send_signal(signal.SIGTERM)
        code, said = broker.end()
    assert code == 0, said
    (line,) = complaints(said)
    assert "at most 200 files and connections can be open" in line


def test_told_to_stop_before_it_is_ready(config: str) -> None:
    with socket.socket() as silent:
        silent.bind((HOST, 0))
        silent.listen()
        where = f"{HOST}:{silent.getsockname()[1]}"
        with started("--config", config, "--set", f"zookeeper.connect={where}") as broker:
            silent.settimeout(READY_SECONDS)
            connection, _ = silent.accept()
            with connection:
                broker.process.send_signal(signal.SIGTERM)
                code, said = broker.end()
    assert code == 0, said
    assert "stopping before it was ready" in said


def test_the_second_signal_counts_at_once(config: str) -> None:
    with started("--config", config) as broker:
        assert broker.news() == {"ready": True}
        # It cannot take note of the first before it has both.
        broker.process.send_signal(signal.SIGSTOP)
        broker.process.send_signal(signal.SIGTERM)
        broker.process.send_signal(signal.SIGINT)
        broker.process.send_signal(signal.SIGCONT)
        assert broker.end().code in (-signal.SIGTERM, -signal.SIGINT)


def test_the_end_of_whoever_started_it(config: str) -> None:
    with started("--config", config) as broker:
        assert broker.news() == {"ready": True}
        broker.lifeline.close()
        code, said = broker.end()
    assert code == 0, said


def test_the_reason_is_told_to_whoever_started_it(config: str) -> None:
    with started("--config", config, "--set", "num.partitions=none") as broker:
        news = broker.news()
        assert news["code"] == 2
        assert "num.partitions" in str(news["failed"])
        assert broker.end() == (2, "")
