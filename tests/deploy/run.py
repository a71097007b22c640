"""`make compose-test`: the stack, built, started, used, broken and taken down, for real.

What each step says is written to deploy/RESULTS.md, with the time that it took. The project has a name of its own, so
that the volumes of a stack that is in use are not touched; its ports are the usual ones, though.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.deploy.report import Goal, Report
from tests.deploy.stack import BROKERS, INSIDE, PROJECT, Commands, Failed, Stack, taken_down
from tests.tree import ROOT

TOPIC = "numbers"
BASE_IMAGE = "python:3.11-slim-bookworm"
MINIKAFKA = ("exec", "-T", "broker-1", "minikafka")
LIGHT = 10_000
"""Records of one step: light load."""
LOAD_SECONDS = 20
LOAD = 20_000

HEALTHY_SECONDS_MAX = 20
IMAGE_MB_MAX = 120
RSS_MB_MAX = 100


class Run:
    """One run, step by step."""

    def __init__(self, stack: Stack, report: Report) -> None:
        self.stack = stack
        self.report = report
        self.count = 0
        """Records that are in the topic, every one of them acknowledged."""

    # ---------------------------------------------------------------------------------------- up and down

    def build(self) -> str:
        self.stack.build("minikafka:dev", "deploy/Dockerfile", "--target", "broker")
        self.stack.build("minikafka-client:dev", "tests/deploy/client/Dockerfile")
        size, base = self.stack.image_mb("minikafka:dev"), self.stack.image_mb(BASE_IMAGE)
        if size is None or base is None:
            return "minikafka:dev is there; how much more it has than its base, the engine does not tell"
        self.report.goals.append(Goal("image over its base, without Spark", size - base, IMAGE_MB_MAX, "MB"))
        return f"minikafka:dev has {size:.0f} MB, {size - base:.0f} MB more than {BASE_IMAGE}"

    def build_spark(self) -> str:
        self.stack.build("minikafka-spark:dev", "deploy/Dockerfile", "--target", "spark")
        size = self.stack.image_mb("minikafka-spark:dev")
        return "minikafka-spark:dev is there" if size is None else f"minikafka-spark:dev has {size:.0f} MB"

    def start(self) -> str:
        began = time.monotonic()
        self.stack.compose("up", "--detach", "--wait", timeout=180)
        seconds = time.monotonic() - began
        goal = Goal("all healthy, from `up` on nothing", seconds, HEALTHY_SECONDS_MAX, "s", is_by_the_clock=True)
        self.report.goals.append(goal)
        healthy = [name for name, each in self.stack.containers().items() if each["Health"] == "healthy"]
        return f"{len(healthy)} containers healthy: {', '.join(sorted(healthy))}"

    def grow(self) -> str:
        """Two more brokers, to which some of the partitions move."""
        self.stack.compose("--profile", "five", "up", "--detach", "--wait", timeout=180)
        self.stack.compose(*MINIKAFKA, "reassign", "--brokers", "1,2,3,4,5", TOPIC)
        described = json.loads(self.stack.compose(*MINIKAFKA, "topic", "describe", "--json", TOPIC))
        brokers = {broker for each in described[0]["partitions"] for broker in each["replicas"]}
        if brokers != {1, 2, 3, 4, 5}:
            raise Failed(f"after it was moved, the topic is on brokers {sorted(brokers)}")
        return f"on five brokers; {self.stack.outside(TOPIC, *self._all())}"

    def stop_and_start(self) -> str:
        """All at once, and again: what is in volumes stays."""
        self.stack.compose("stop", timeout=180)
        codes = {name: self.stack.containers()[name]["ExitCode"] for name in BROKERS}
        if any(codes.values()):
            raise Failed(f"brokers did not stop in good order: {codes}")
        self.stack.compose("up", "--detach", "--wait", timeout=180)
        return f"exit codes of brokers {sorted(set(codes.values()))}; {self.stack.outside(TOPIC, *self._all())}"

    # -------------------------------------------------------------------------------------------- traffic

    def from_the_host(self) -> str:
        sent = self.stack.outside(TOPIC, *self._next(LIGHT))
        return f"{sent}; {self.stack.outside(TOPIC, *self._all())}"

    def from_inside(self) -> str:
        sent = self.stack.inside(TOPIC, *self._next(LIGHT))
        return f"{sent}; {self.stack.inside(TOPIC, *self._all())}"

    def bundled_client(self) -> str:
        """The command line of the broker's own image, from lines to lines."""
        first, self.count = self.count, self.count + LIGHT
        lines = "".join(f"{number}\n" for number in range(first, self.count))
        self.stack.compose(*MINIKAFKA, "produce", TOPIC, stdin=lines)
        said = self.stack.compose(*MINIKAFKA, "consume", "--format", r"%s\n", TOPIC)
        if sorted(map(int, said.split())) != list(range(self.count)):
            raise Failed(f"minikafka consume printed {len(said.split())} records instead of {self.count}")
        return f"{LIGHT} lines produced, all {self.count} records printed once"

    def measure(self) -> str:
        """While there is light load."""
        with self.stack.going_on_outside(TOPIC, *self._next(LIGHT), "--seconds", "8") as said:
            for name in sorted(self.stack.containers()):
                self.report.memory[name] = self.stack.rss_mb(name)
        largest = max(self.report.memory[name] for name in BROKERS)
        self.report.goals.append(Goal("memory of a broker (RSS) under light load", largest, RSS_MB_MAX, "MB"))
        return f"{said[0]}; the largest broker has {largest:.0f} MB"

    def _next(self, count: int) -> list[str]:
        first, self.count = self.count, self.count + count
        return ["produce", "--first", str(first), "--count", str(count)]

    def _all(self) -> list[str]:
        return ["consume", "--count", str(self.count)]

    # ------------------------------------------------------------------------------------------- breaking

    def _under_load(self, action: Callable[[], object]) -> str:
        """Do something while records are sent; then all of them have to be there, and all replicas in sync."""
        with self.stack.going_on_outside(TOPIC, *self._next(LOAD), "--seconds", str(LOAD_SECONDS)) as said:
            time.sleep(LOAD_SECONDS / 5)
            action()
        self.stack.wait_in_sync()
        return f"{said[0]}; then {self.stack.inside(TOPIC, *self._all())}"

    def kill_a_broker(self) -> str:
        """With SIGKILL; it stays away for longer than its session lasts, so that others take over."""

        def kill() -> None:
            self.stack.compose("kill", "--signal", "SIGKILL", "broker-2")
            time.sleep(LOAD_SECONDS / 2)
            self.stack.compose("up", "--detach", "--wait", timeout=120)

        return self._under_load(kill)

    def restart_one_by_one(self) -> str:
        """As an upgrade does."""
        return self._under_load(lambda: self.stack.script("deploy/rolling.sh"))

    # ------------------------------------------------------------------------------------------- profiles

    def spark(self) -> str:
        """The job as it stands in the profile: it makes up lines, and shows how often each word occurs."""
        up = ("--profile", "spark", "up", "--detach", "--wait", "spark-master", "spark-worker")
        self.stack.compose(*up, timeout=600)
        said = self._submit()
        if not re.search(r"\|\s*the\|", said) or "word-count: done" not in said:
            raise Failed(f"the job does not show its counts:\n{said}")
        self.report.memory |= {name: self.stack.rss_mb(name) for name in ("spark-master", "spark-worker")}
        return next(line for line in said.splitlines() if "rows in" in line)

    def spark_on_all(self) -> str:
        """All that is in the topic by now: every number is a word that occurs once; the most frequent come first."""
        job = ("minikafka.spark_jobs.jobs.word_count", "--bootstrap-servers", INSIDE, "--topic", TOPIC)
        said = self._submit(*job, "--checkpoint", "/var/lib/minikafka/test", "--trigger", "available-now")
        rows = sum(map(int, re.findall(r"batch \d+, (\d+) rows", said)))
        counts = set(re.findall(r"\|\s*\d+\|\s*(\d+)\|", said))
        if rows != self.count or counts != {"1"}:
            raise Failed(f"Spark read {rows} records instead of {self.count}, and found some {counts} times:\n{said}")
        return f"{rows} records read, and every one counted once"

    def _submit(self, *job: str) -> str:
        return self.stack.compose("--profile", "spark", "run", "--rm", "-T", "word-count", *job, timeout=900)

    def monitoring(self) -> str:
        """Prometheus finds every broker."""
        self.stack.compose("--profile", "monitoring", "up", "--detach", "prometheus")
        query = "http://127.0.0.1:9090/api/v1/query?query=up%7Bjob%3D%22minikafka%22%7D"
        fetch = f"from urllib.request import urlopen; print(urlopen('{query}').read().decode())"
        for _ in range(60):
            time.sleep(1)
            try:
                found = json.loads(self.stack.host(sys.executable, "-c", fetch))["data"]["result"]
            except Failed:
                continue
            up = sorted(each["metric"]["instance"] for each in found if each["value"][1] == "1")
            if len(up) == len(BROKERS):
                return f"up: {', '.join(up)}"
        raise Failed("Prometheus does not find all brokers")


def steps(run: Run, options: argparse.Namespace) -> list[tuple[str, Callable[[], str]]]:
    """What is done, in this order."""
    listed: list[tuple[str, Callable[[], str]]] = [
        ("build the image of the broker", run.build),
        ("start, until all are healthy", run.start),
        ("produce and consume from the host", run.from_the_host),
        ("produce and consume from inside the network", run.from_inside),
        ("produce and consume with the bundled client", run.bundled_client),
        ("measure memory under light load", run.measure),
        ("kill a broker under load, start it again", run.kill_a_broker),
        ("restart one broker after the other under load", run.restart_one_by_one),
        ("stop all, start all", run.stop_and_start),
    ]
    if options.spark:
        listed += [
            ("build the image of Spark", run.build_spark),
            ("run the job of the profile `spark`", run.spark),
            ("let Spark count all that was produced", run.spark_on_all),
        ]
    if options.monitoring:
        listed.append(("let Prometheus scrape all brokers", run.monitoring))
    return [*listed, ("add two brokers, and spread the topic over five", run.grow)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compose", default="docker compose")
    parser.add_argument("--build", default="docker build")
    parser.add_argument("--exec", default="")
    parser.add_argument("--spark", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--monitoring", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--note", default="", help="a sentence for the page of results")
    options = parser.parse_args()
    stack = Stack(Commands(*(shlex.split(each) for each in (options.compose, options.build, options.exec))))
    report = Report(note=options.note)
    try:
        with taken_down(stack):
            run = Run(stack, report)
            for name, step in steps(run, options):
                report.take(name, step)
        report.take("take all down", lambda: f"{len(stack.containers())} containers of {PROJECT} are left")
    except Failed as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    if options.results is not None:
        (ROOT / options.results).write_text(report.page())
    return 1 if any(goal.is_failed for goal in report.goals) else 0


if __name__ == "__main__":
    sys.exit(main())
