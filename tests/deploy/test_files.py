"""The files of deploy/: as far as tools can tell without starting anything, and the scripts that are in the image."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import find_program
from tests.tree import ROOT, texts

DEPLOY = ROOT / "deploy"
DOCKERFILES = sorted(name for name in texts() if name.rpartition("/")[2] == "Dockerfile")


def run(program: str, *arguments: object) -> str:
    command = [find_program(program) or program, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def load(path: Path) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ------------------------------------------------------------------------------------------------------ with tools


@pytest.mark.needs("hadolint")
@pytest.mark.parametrize("name", DOCKERFILES)
def test_dockerfile(name: str) -> None:
    run("hadolint", name)


def test_images_are_built_without_a_registry_of_frontends() -> None:
    assert len(DOCKERFILES) == 2
    assert not [name for name in DOCKERFILES if re.search(r"^#\s*syntax\s*=", texts()[name], re.MULTILINE)]


@pytest.mark.needs("docker compose")
def test_compose_file() -> None:
    run("docker", "compose", "-f", DEPLOY / "docker-compose.yml", "--profile", "*", "config", "--quiet")


@pytest.mark.needs("docker compose")
def test_every_service_is_limited_and_unprivileged() -> None:
    config = ("config", "--format", "json")
    said = run("docker", "compose", "-f", DEPLOY / "docker-compose.yml", "--profile", "*", *config)
    services: dict[str, Any] = json.loads(said)["services"]
    assert len(services) == 13
    for name, each in services.items():
        assert int(each["mem_limit"]) > 0, name
        assert each["logging"]["options"]["max-size"], name
        assert all(port["host_ip"] == "127.0.0.1" for port in each.get("ports", ())), name
    for name, each in services.items():
        # The image of ZooKeeper begins as root to own its folders, and then drops it.
        if not name.startswith("zookeeper"):
            assert each["cap_drop"] == ["ALL"] and each["security_opt"] == ["no-new-privileges:true"], name
    brokers = {name: each for name, each in services.items() if name.startswith("broker")}
    assert len({each["environment"]["KAFKA_BROKER_ID"] for each in brokers.values()}) == len(brokers) == 5
    assert len({port["published"] for each in brokers.values() for port in each["ports"]}) == 5
    assert all(each["read_only"] and each["environment"]["KAFKA_BROKER_RACK"] for each in brokers.values())


@pytest.mark.needs("kubernetes-validate")
def test_kubernetes_example() -> None:
    said = run("kubernetes-validate", "--strict", *sorted((DEPLOY / "kubernetes").glob("*.yaml")))
    assert "statefulset/minikafka" in said


@pytest.mark.parametrize("script", sorted(DEPLOY.glob("*.sh")), ids=lambda path: path.name)
def test_shell_scripts(script: Path) -> None:
    run("sh", "-n", script)


def test_brokers_are_recreated_with_the_settings_of_an_override(tmp_path: Path) -> None:
    """Compose reads docker-compose.override.yml by itself, in its folder and if no other file is named."""
    (tmp_path / "docker").write_text(
        '#!/bin/sh\necho "$PWD $*" >> "$SAID"\ncase $* in *services*) echo broker-1 ;; esac\n'
    )
    (tmp_path / "docker").chmod(0o755)
    said = tmp_path / "said"
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SAID": str(said)}
    done = subprocess.run(
        ["sh", DEPLOY / "rolling.sh", "broker-2"], cwd="/", env=variables, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["broker-2", "all replicas are in sync"], done.stderr
    calls = said.read_text().splitlines()
    assert f"{DEPLOY} compose up --detach --wait --no-deps --force-recreate broker-2" in calls
    assert all(call.startswith(f"{DEPLOY} compose ") and " -f " not in call for call in calls)


# --------------------------------------------------------------------------------------------------- what is locked


def locked(*wanted: str) -> dict[str, str]:
    """The packages that the script chooses, each with all it says about it."""
    text = run(sys.executable, DEPLOY / "locked.py", *wanted)
    return {block.partition("==")[0]: block for block in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE) if block}


def test_an_image_gets_what_its_extra_needs_and_nothing_else() -> None:
    broker, spark = locked("minikafka[broker]"), locked("minikafka[spark]")
    assert {"kazoo", "uvloop", "lz4", "msgpack", "click"} <= broker.keys()
    assert not broker.keys() & {"pyspark", "pytest", "aiokafka", "hatchling"}
    # py4j is there because pyspark needs it, which only the lock knows.
    assert {"pyspark", "pyarrow", "py4j", "lz4"} <= spark.keys()
    assert not spark.keys() & {"kazoo", "pytest"}
    assert all("--hash=sha256:" in each and "# via" not in each for each in (broker | spark).values())


def test_what_is_not_locked_is_an_error() -> None:
    done = subprocess.run(
        [sys.executable, str(DEPLOY / "locked.py"), "no-such-package"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "not in requirements.lock: no-such-package" in done.stderr


# ------------------------------------------------------------------------------------------------------ in the image


class Pages(BaseHTTPRequestHandler):
    """Answers as a broker would."""

    status = 200
    body = b""

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: what was asked is not for the output of the tests."""

    protocol_version = "HTTP/1.1"


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Pages]]:
    class Own(Pages):
        """Of this test."""

    with HTTPServer(("127.0.0.1", 0), Own) as server:
        monkeypatch.setenv("KAFKA_MINIKAFKA_HTTP_PORT", str(server.server_port))
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield Own
        server.shutdown()
        thread.join()


def test_health_check(pages: type[Pages], capsys: pytest.CaptureFixture[str]) -> None:
    ready = load(DEPLOY / "ready.py")
    pages.body = b'{"status": "ready"}\n'
    assert ready.main() == 0
    pages.status, pages.body = 503, b'{"status": "not ready", "reason": "starting"}\n'
    assert ready.main() == 1
    assert "starting" in capsys.readouterr().out


def test_health_check_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), Pages) as server:
        monkeypatch.setenv("KAFKA_MINIKAFKA_HTTP_PORT", str(server.server_port))
    assert load(DEPLOY / "ready.py").main() == 1


@pytest.mark.parametrize(("count", "code"), [(0, 0), (2, 1)])
def test_in_sync(pages: type[Pages], count: int, code: int) -> None:
    pages.body = (
        f"# TYPE x gauge\nkafka_server_replicamanager_underreplicatedpartitions {count}.0\nother 1.0\n".encode()
    )
    pages.protocol_version = "HTTP/1.0"
    assert load(DEPLOY / "in_sync.py").main() == code
