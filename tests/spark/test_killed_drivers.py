"""Drivers that are killed, and started again from their checkpoints: every row is there, and once.

Each start of Spark takes many seconds, so one kill has to do. With MINIKAFKA_SPARK_KILLS=20 drivers are killed at all
points of a commit, and twenty more at any time.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.spark.crashing import POINTS, VARIABLE
from tests.spark.marks import KILLS, SPARK
from tests.spark.running import Topics
from tests.spark.test_direct import read_broker
from tests.tree import ROOT

pytestmark = [pytest.mark.timeout(900), *SPARK]

PARTITIONS, ROWS = 2, 2400


class Drivers:
    """Runs of the same driver, one after the other."""

    def __init__(self, topics: Topics, topic: str, folder: Path) -> None:
        self._topics = topics
        self.sink = topics.create(f"{topic}-out", 2)
        self._source = topics.create(f"{topic}-in", PARTITIONS)
        self._folder = folder
        topics.send_many(self._source, PARTITIONS, ROWS)

    @contextmanager
    def start(self, crash: str = "") -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-m", "tests.spark.driver", self._topics.bootstrap, self._source, self.sink]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        with subprocess.Popen(
            [*command, str(self._folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, VARIABLE: crash, "PYTHONPATH": path},
            # A group of its own, with the JVM and its workers in it.
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                kill_group(process)

    def run(self, crash: str = "") -> str:
        """What a driver prints until it ends, by itself or by a crash."""
        with self.start(crash) as process:
            output, _ = process.communicate()
        assert bool(crash) == bool(process.returncode), output
        return output

    def kill_after(self, seconds: float) -> None:
        """Kill a driver and everything that belongs to it, some time after its queries have started."""
        with self.start() as process:
            assert process.stdout is not None
            while process.stdout.readline().strip() != "started":
                assert process.poll() is None
            time.sleep(seconds)

    def check(self, output: str) -> None:
        """All rows are in the files and in the topic, and once."""
        total = PARTITIONS * ROWS
        assert f"rows {total} {total}" in output, output
        committed = read_broker(self._topics, self.sink, kafka__isolation__level="read_committed")
        found = sorted(committed.column("value").to_pylist())
        assert found == sorted(b"%d:%d" % (p, n) for p in range(PARTITIONS) for n in range(ROWS))


def kill_group(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def test_every_row_is_there_once(topics: Topics, topic: str, tmp_path: Path) -> None:
    drivers = Drivers(topics, topic, tmp_path)
    for batch, point in enumerate(POINTS if KILLS else ("half",), 1):
        drivers.run(f"{point}:{batch}")
    rng = random.Random(7)
    for _ in range(KILLS):
        drivers.kill_after(rng.uniform(0, 8))
    drivers.check(drivers.run())
