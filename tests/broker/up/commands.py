"""`minikafka up` and `minikafka broker` as a user runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.broker.eventually import eventually

STOP_SECONDS = 50


def words(*arguments: object) -> list[str]:
    return [sys.executable, "-P", "-m", "minikafka", *map(str, arguments)]


class Running:
    """A command that goes on until it is stopped; all it says goes to a file."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path, data: Path) -> None:
        self.process = process
        self.output = output
        self.data = data

    def said(self) -> str:
        return self.output.read_text(errors="replace")

    async def told(self) -> dict[str, Any]:
        """Its cluster.json, when it is there."""
        file = self.data / "cluster.json"
        await eventually(lambda: file.exists() or self.process.poll() is not None, 50)
        assert file.exists(), self.said()
        told: dict[str, Any] = json.loads(file.read_text())
        return told

    def end(self, number: signal.Signals) -> int:
        os.kill(self.process.pid, number)
        return self.process.wait(STOP_SECONDS)


@contextmanager
def running(folder: Path, *arguments: object, **environment: str) -> Iterator[Running]:
    """`minikafka` with these arguments. The folder is for its output; `--data` is the one below it."""
    output = folder / "output.txt"
    with output.open("ab") as stream:
        process = subprocess.Popen(
            words(*arguments), stdout=stream, stderr=stream, env={**os.environ, **environment}, start_new_session=True
        )
    try:
        yield Running(process, output, folder / "data")
    finally:
        process.kill()
        process.wait()


def run(*arguments: object, **environment: str) -> tuple[int, str]:
    """A command that ends by itself: its exit code, and all it said."""
    done = subprocess.run(
        words(*arguments),
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout
