"""The load generator: built when it is needed, run for one measurement at a time; and the topics it works on.

It is a small C program on librdkafka, since nothing slower than that keeps a broker busy.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

SOURCE = Path(__file__).parent / "load" / "load.c"
BINARY = Path("build") / "bench" / "load"
RUN_SECONDS_MAX = 300
TOPIC_SECONDS_MAX = 60


def build() -> None:
    """Compile it, unless that was done since it was last changed."""
    if BINARY.exists() and BINARY.stat().st_mtime > SOURCE.stat().st_mtime:
        return
    compiler = shutil.which("cc")
    if compiler is None:
        raise SystemExit("the load generator is written in C and there is no C compiler 'cc' (Debian: apt install gcc)")
    BINARY.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-O2", str(SOURCE), "-o", str(BINARY), "-lrdkafka", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        needs = "it needs librdkafka and its headers (Debian: apt install librdkafka-dev)"
        raise SystemExit(f"{done.stderr}\nthe load generator could not be built: {needs}")


def run(mode: str, servers: str, topic: str, arguments: Sequence[str]) -> dict[str, float]:
    """One measurement; what the program prints."""
    command = [str(BINARY), mode, servers, topic, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nended with code {done.returncode}\n{done.stdout}{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def create_topics(servers: str, partitions: Mapping[str, int], replication_factor: int) -> None:
    """Topics with so many partitions. A broker without CreateTopics is taken to create them when they are used."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    # Where there are replicas, one of them may be missing.
    config = {"min.insync.replicas": "2"} if replication_factor > 1 else {}
    topics = [NewTopic(name, count, replication_factor, config=config) for name, count in partitions.items()]
    _wait(admin.create_topics(topics))


def delete_topics(servers: str, names: Sequence[str]) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    _wait(admin.delete_topics(list(names)))


def _wait(answers: Mapping[str, Future[None]]) -> None:
    for answer in answers.values():
        try:
            answer.result(TOPIC_SECONDS_MAX)
        except KafkaException as error:
            if not _is_unsupported(error):
                raise


def _is_unsupported(error: KafkaException) -> bool:
    return bool(error.args[0].name() == "_UNSUPPORTED_FEATURE")
