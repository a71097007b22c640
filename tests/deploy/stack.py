"""The stack of deploy/docker-compose.yml, driven by the commands of any engine that stands in for Docker's.

COMPOSE   `docker compose`, followed by its arguments
BUILD     `docker build`, followed by options, -f FILE, -t TAG and the context
EXEC      in front of a command of the host that is to reach published ports, and to call `docker`; may be empty
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.tree import ROOT

PROJECT = "minikafka-test"
FILES = ("deploy/docker-compose.yml", "tests/deploy/client/compose.yml")
BROKERS = ("broker-1", "broker-2", "broker-3")
INSIDE = ",".join(f"{name}:9092" for name in BROKERS)
OUTSIDE = "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"

# Of all processes of a container, in kB. ZooKeeper's image has no Python.
_RSS = "cat /proc/[0-9]*/status | awk '/^VmRSS/ {sum += $2} END {print sum}'"
_IN_SYNC = "/usr/local/lib/minikafka/in_sync.py"


class Failed(Exception):
    """A command of the engine, or a client, did not do what it should."""


class Commands(NamedTuple):
    """Of the engine."""

    compose: Sequence[str]
    build: Sequence[str]
    exec: Sequence[str]


class Stack:
    """See the module's description."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        files = [word for name in FILES for word in ("-f", name)]
        self._compose = [*commands.compose, "-p", PROJECT, *files]

    # ---------------------------------------------------------------------------------------------- commands

    def compose(self, *arguments: str, timeout: float = 300, stdin: str = "") -> str:
        return _run([*self._compose, *arguments], timeout, stdin)

    def script(self, path: str, timeout: float = 300) -> str:
        """One that finds what it is to call in COMPOSE."""
        return _run(["env", f"COMPOSE={' '.join(self._compose)}", "sh", path], timeout)

    def build(self, tag: str, file: str, *options: str) -> None:
        _run([*self._commands.build, *options, "-f", file, "-t", tag, "."], 1800)

    def host(self, *command: str, timeout: float = 300) -> str:
        return _run([*self._commands.exec, *command], timeout)

    # ------------------------------------------------------------------------------------------------ clients

    def outside(self, topic: str, *arguments: str) -> str:
        """The client on the host, through published ports."""
        return self.host(*self._outside(topic, arguments)).strip()

    def inside(self, topic: str, *arguments: str) -> str:
        """The client in a container of the network."""
        options = ("--bootstrap-servers", INSIDE, "--topic", topic)
        return self.compose("run", "--rm", "-T", "client", *options, *arguments).strip()

    @contextmanager
    def going_on_outside(self, topic: str, *arguments: str) -> Iterator[list[str]]:
        """The same as `outside`, while other things happen. What it said is in the list when it has ended well."""
        said: list[str] = []
        command = [*self._commands.exec, *self._outside(topic, arguments)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            yield said
        finally:
            out, errors = process.communicate()
        if process.returncode:
            raise Failed(f"{' '.join(command)}: exit code {process.returncode}\n{out}{errors[-4000:]}")
        said.append(out.strip())

    def _outside(self, topic: str, arguments: Sequence[str]) -> list[str]:
        options = ["--bootstrap-servers", OUTSIDE, "--topic", topic]
        return [sys.executable, "tests/deploy/traffic.py", *options, *arguments]

    # ------------------------------------------------------------------------------------------------ looking

    def containers(self) -> dict[str, Mapping[str, Any]]:
        """What is running, by service."""
        lines = self.compose("ps", "--all", "--format", "json").splitlines()
        found = [json.loads(line) for line in lines if line.strip()]
        return {each["Service"]: each for each in found}

    def image_mb(self, image: str) -> float | None:
        """The size of an image; None if the engine does not have it, as that of a base it has built on."""
        try:
            return int(self.host("docker", "image", "inspect", "--format", "{{.Size}}", image)) / 1e6
        except Failed:
            return None

    def rss_mb(self, service: str) -> float:
        return int(self.compose("exec", "-T", service, "sh", "-c", _RSS)) * 1024 / 1e6

    def wait_in_sync(self, seconds: float = 60) -> None:
        """Until no broker leads a partition of which a replica is out of sync."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                for each in BROKERS:
                    self.compose("exec", "-T", each, "python", _IN_SYNC)
                return
            except Failed:
                time.sleep(0.5)
        raise Failed(f"replicas are not in sync after {seconds} s")


@contextmanager
def taken_down(stack: Stack) -> Iterator[None]:
    """Nothing of it is left, before and after."""
    everything = ("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "60")
    stack.compose(*everything)
    try:
        yield
    finally:
        stack.compose(*everything)


def _run(command: Sequence[str], timeout: float, stdin: str = "") -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(command)}: no end after {timeout} s") from error
    except OSError as error:
        raise Failed(f"{command[0]} cannot be called: {error}") from error
    if done.returncode:
        raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout
