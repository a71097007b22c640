"""What all jobs share: their common options, the Spark session, showing progress, and stopping cleanly.

A job that is asked to stop (Ctrl-C, SIGTERM) stops its query and ends with 0. What its last batch had not finished is
done again by the next run, from the checkpoint.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, TypeVar

import click
from py4j.protocol import Py4JNetworkError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from minikafka.client.config import ClientConfig
from minikafka.spark_jobs.options.kafka import ReaderConfig, WriterConfig, is_known
from minikafka.spark_jobs.source import register

_F = TypeVar("_F", bound=Callable[..., Any])

# How long the driver waits for the query before it looks for signals and progress again.
_LOOK_SECONDS: Final = 1

# Spark gives the Python process of a source ten seconds to start, which may not be enough on a busy machine.
_NOT_STARTED: Final = "Python worker failed to connect back"
_STARTS_MAX: Final = 5

_SPARK_IS_GONE: Final = (Py4JNetworkError, ConnectionError)


@dataclass(frozen=True)
class JobOptions:
    """What every job is told."""

    bootstrap_servers: str
    checkpoint: str
    starting_offsets: str
    trigger: str
    max_offsets_per_trigger: int | None
    kafka: tuple[str, ...] = ()
    master: str | None = None
    shuffle_partitions: int = 4

    def reader_options(self) -> dict[str, str]:
        """Options of the client for a source."""
        return self._kafka_options(ReaderConfig, WriterConfig)

    def writer_options(self) -> dict[str, str]:
        """Options of the client for a sink."""
        return self._kafka_options(WriterConfig, ReaderConfig)

    def _kafka_options(self, cls: type[ClientConfig], other: type[ClientConfig]) -> dict[str, str]:
        options = {"kafka.bootstrap.servers": self.bootstrap_servers}
        for setting in self.kafka:
            name, equals, value = setting.partition("=")
            if not equals:
                raise click.BadParameter(f"{setting!r} is not NAME=VALUE", param_hint="--kafka")
            # One that neither knows is told of by whoever gets it first.
            if is_known(cls, name) or not is_known(other, name):
                options[f"kafka.{name}"] = value
        return options


def job_options(command: _F) -> _F:
    """The options of `JobOptions`, for a click command that takes `**common`."""
    for add in (
        click.option("--master", help="Spark's master; local[2] if neither this nor spark-submit says otherwise."),
        click.option(
            "--shuffle-partitions",
            type=click.IntRange(1),
            default=4,
            show_default=True,
            help="Tasks after a grouping or join; the first run decides.",
        ),
        click.option(
            "--kafka",
            multiple=True,
            metavar="NAME=VALUE",
            help="An option of the client, for source or sink or both; may be repeated.",
        ),
        click.option("--max-offsets-per-trigger", type=click.IntRange(1), help="How much a batch takes at most."),
        click.option(
            "--trigger",
            default="1 second",
            show_default=True,
            help="How often to look for new data, or 'available-now' to take what there is and end.",
        ),
        click.option("--starting-offsets", default="earliest", show_default=True, help="Where the first run begins."),
        click.option("--checkpoint", required=True, help="Where the job keeps how far it has come."),
        click.option("--bootstrap-servers", default="localhost:9092", show_default=True, help="Where brokers are."),
    ):
        command = add(command)
    return command


@contextmanager
def job_session(name: str, options: JobOptions) -> Iterator[SparkSession]:
    """The session that spark-submit has prepared, or a local one; stopped at the end."""
    session = _open_session(name, options)
    try:
        yield session
    finally:
        with suppress(*_SPARK_IS_GONE):
            session.stop()


def _open_session(name: str, options: JobOptions) -> SparkSession:
    # Workers must be of this Python, which has what the source needs.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    builder = builder.appName(name).config("spark.ui.showConsoleProgress", "false")
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if options.master is not None or not is_submitted:
        builder = builder.master(options.master or "local[2]")
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    # Spark's 200 would be 200 files or transactions in every batch.
    session.conf.set("spark.sql.shuffle.partitions", options.shuffle_partitions)
    # Found without this where minikafka is installed; with --py-files alone it is not.
    register(session)
    return session


def read_topic(session: SparkSession, options: JobOptions, topic: str, **more: str) -> DataFrame:
    """A stream of a topic's records."""
    reader = session.readStream.format("minikafka").options(**options.reader_options())
    reader = reader.option("subscribe", topic).option("startingOffsets", options.starting_offsets).options(**more)
    if options.max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", options.max_offsets_per_trigger)
    return reader.load()


def run_query(name: str, options: JobOptions, writer: DataStreamWriter) -> None:
    """Start a query and stay with it until it ends or somebody asks for that."""
    writer = writer.queryName(name).option("checkpointLocation", options.checkpoint)
    if options.trigger == "available-now":
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=options.trigger)
    stop_wanted: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop_wanted.append(number)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    click.echo(f"{name}: checkpoint {options.checkpoint}")
    try:
        for attempts_left in reversed(range(_STARTS_MAX)):
            if _run_once(name, writer, stop_wanted, may_fail_to_start=attempts_left > 0):
                break
    except _SPARK_IS_GONE:
        # Under spark-submit a signal reaches Spark itself too, which then ends by itself.
        if not stop_wanted:
            raise click.ClickException("Spark has ended") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    click.echo(f"{name}: {'stopped' if stop_wanted else 'done'}")


def _run_once(name: str, writer: DataStreamWriter, stop_wanted: list[int], *, may_fail_to_start: bool) -> bool:
    """Run the query to its end; False if it did not even start, for a reason that is likely to pass."""
    query = writer.start()
    try:
        _follow(name, query, stop_wanted)
    except StreamingQueryException as error:
        if may_fail_to_start and _NOT_STARTED in str(error):
            return False
        raise
    query.stop()
    return True


def _follow(name: str, query: StreamingQuery, stop_wanted: list[int]) -> None:
    """Show progress until the end; what the query failed with is raised."""
    shown = -1
    is_over = False
    while not is_over and not stop_wanted:
        is_over = query.awaitTermination(_LOOK_SECONDS) is True
        for progress in query.recentProgress:
            if progress.batchId > shown and progress.numInputRows:
                shown = progress.batchId
                click.echo(f"{name}: {describe(progress)}")


def describe(progress: Any) -> str:
    """A batch in one line: its rows, its time, and how far it is behind the topics."""
    behind = sum(behind_of(source.endOffset, source.latestOffset) for source in progress.sources)
    seconds = progress.durationMs.get("triggerExecution", 0) / 1000
    return f"batch {progress.batchId}, {progress.numInputRows} rows in {seconds:.1f} s, {behind} behind"


def behind_of(end: str | Mapping[str, Any] | None, latest: str | Mapping[str, Any] | None) -> int:
    """How many offsets lie between the end of a batch and the end of its topics."""
    done, there = (_topics(each) for each in (end, latest))
    return sum(
        max(0, offset - done.get(topic, {}).get(partition, 0))
        for topic, partitions in there.items()
        for partition, offset in partitions.items()
    )


def _topics(offset: str | Mapping[str, Any] | None) -> dict[str, dict[str, int]]:
    found = json.loads(offset) if isinstance(offset, str) else offset or {}
    return {name: each for name, each in (found or {}).items() if not name.startswith("@")}
