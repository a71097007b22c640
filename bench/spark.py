"""`make bench-spark`: rows through Spark, from a broker and from its files, beside what else there is to compare with.

    python -m bench.spark                                    100 B and 1 KB, lz4 and none, 1, 2 and 4 partitions
    python -m bench.spark --scale 0.1 --rounds 2             a short try
    python -m bench.spark --connector-jars A.jar,B.jar       beside Spark's own Kafka connector, on the same topics

All read the same rows on `local[2]` into the sink `noop`: `broker` and `files` are ours, `parquet` are the rows as
uncompressed files, `ready` are columns that need no reading, so that is as fast as a Python data source can be. They
take turns; the first round warms up and does not count, and medians of the others are told, with the best beside them.
`stream` and `connector stream` are micro-batches, timed by the part of a batch that reads it. The last line is what a
micro-batch takes that has hardly a row.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.cluster import running
from bench.spark_ready import ReadySource
from minikafka.client.producer import Producer
from minikafka.storage.formats.checkpoints import parse_offsets
from tests.spark.running import Topics

ROWS = {100: 4_000_000, 1024: 1_000_000}
STREAM_BATCHES = 6
EMPTY_BATCHES = 30
CHECKPOINT_SECONDS_MAX = 30


class Cell(NamedTuple):
    """One combination, and where its rows are."""

    size: int
    codec: str
    partitions: int
    rows: int

    @property
    def topic(self) -> str:
        return f"rows-{self.size}-{self.codec}-{self.partitions}"

    def __str__(self) -> str:
        return f"{self.size} B, {self.codec}, {self.partitions} partition{'s' if self.partitions > 1 else ''}"


def fill(bootstrap: str, cell: Cell) -> None:
    """Values that lz4 halves: half of each is noise."""
    Topics(bootstrap).create(cell.topic, cell.partitions)
    noise = os.urandom(1 << 20)

    def values(start: int, count: int) -> list[bytes]:
        half = cell.size // 2
        places = [(start + number) * half % (len(noise) - half) for number in range(count)]
        return [noise[at : at + half].ljust(cell.size, b"x") for at in places]

    async def send() -> None:
        async with Producer(bootstrap_servers=bootstrap, compression_type=cell.codec) as producer:
            per_partition = cell.rows // cell.partitions
            for partition in range(cell.partitions):
                for start in range(0, per_partition, 5000):
                    count = min(5000, per_partition - start)
                    await producer.send_batch(cell.topic, values(start, count), None, partition)

    asyncio.run(send())


def wait_checkpointed(log_dir: Path, cell: Cell) -> None:
    """Until the files can be read to their end: as far as the broker has written down that they are committed."""
    deadline = time.monotonic() + CHECKPOINT_SECONDS_MAX
    while True:
        offsets = parse_offsets((log_dir / "replication-offset-checkpoint").read_bytes())
        if sum(offset for (topic, _), offset in offsets.items() if topic == cell.topic) == cell.rows:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"{cell.topic} has not been checkpointed: {offsets}")
        time.sleep(0.05)


class Bench:
    """A session with a broker, and the ways to read a cell."""

    def __init__(self, session: Any, bootstrap: str, log_dir: Path, folder: Path, has_connector: bool) -> None:
        self._session = session
        self._bootstrap = bootstrap
        self._log_dir = log_dir
        self._folder = folder
        self._has_connector = has_connector

    def ways(self, cell: Cell) -> dict[str, Callable[[], float]]:
        """Each reads the whole cell once, and gives rows per second."""
        parquet = str(self._folder / cell.topic)
        self._ours().option("subscribe", cell.topic).load().write.option("compression", "none").parquet(parquet)
        ready = self._session.read.format("ready").options(rows=cell.rows, size=cell.size, partitions=cell.partitions)
        batches = {
            "broker": lambda: self._ours().option("subscribe", cell.topic).load(),
            "files": lambda: self._files().option("subscribe", cell.topic).load(),
            "parquet": lambda: self._session.read.parquet(parquet),
            "ready": ready.load,
        }
        if self._has_connector:
            batches["connector"] = lambda: self._kafka(self._session.read, cell).load()
        ways: dict[str, Callable[[], float]] = {
            name: lambda load=load: self._time(load(), cell.rows)  # type: ignore[misc]
            for name, load in batches.items()
        }
        ways["stream"] = lambda: self._stream("minikafka", cell)
        if self._has_connector:
            ways["connector stream"] = lambda: self._stream("kafka", cell)
        return ways

    def _ours(self) -> Any:
        return self._session.read.format("minikafka").option("kafka.bootstrap.servers", self._bootstrap)

    def _files(self) -> Any:
        return self._session.read.format("minikafka").option("logDirs", str(self._log_dir))

    def _kafka(self, reader: Any, cell: Cell) -> Any:
        reader = reader.format("kafka").option("kafka.bootstrap.servers", self._bootstrap)
        return reader.option("subscribe", cell.topic).option("startingOffsets", "earliest")

    def _time(self, frame: Any, rows: int) -> float:
        started = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return rows / (time.perf_counter() - started)

    def _stream(self, form: str, cell: Cell) -> float:
        progress = self.run_stream(form, cell.topic, cell.rows // STREAM_BATCHES)
        # The first batch of a query starts its workers.
        rates = [each.numInputRows / each.durationMs["addBatch"] * 1000 for each in progress[1:] if each.numInputRows]
        return float(statistics.median(rates))

    def run_stream(self, form: str, topic: str, per_batch: int) -> list[Any]:
        reader = self._session.readStream.format(form).option("kafka.bootstrap.servers", self._bootstrap)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        with checkpoint(self._folder) as place:
            writer = reader.option("maxOffsetsPerTrigger", per_batch).load().writeStream.format("noop")
            query = writer.option("checkpointLocation", place).trigger(availableNow=True).start()
            query.awaitTermination()
            return list(query.recentProgress)

    def overhead_ms(self) -> float:
        """What a micro-batch of one row takes, the first left out."""
        cell = Cell(1, "none", 1, EMPTY_BATCHES)
        fill(self._bootstrap, cell)
        progress = self.run_stream("minikafka", cell.topic, 1)
        return float(statistics.median(each.durationMs["triggerExecution"] for each in progress[1:]))


@contextmanager
def checkpoint(folder: Path) -> Iterator[str]:
    place = tempfile.mkdtemp(dir=folder)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def open_session(jars: str) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    builder = builder.master("local[2]").appName("bench").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "3g").config("spark.ui.showConsoleProgress", "false")
    if jars:
        builder = builder.config("spark.jars", jars)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(ReadySource)
    return session


def measure(bench: Bench, cell: Cell, rounds: int) -> None:
    rates: dict[str, list[float]] = {}
    ways = bench.ways(cell)
    for number in range(rounds + 1):
        for name, way in ways.items():
            rate = way()
            if number:
                rates.setdefault(name, []).append(rate)
    print(f"\n{cell}, {cell.rows:,} rows")
    for name, found in rates.items():
        median = statistics.median(found)
        beside = f"best {max(found) / 1e6:5.2f}" if len(found) > 1 else ""
        print(f"  {name:<17} {median / 1e6:5.2f} M rows/s  {median * cell.size / 1e6:7.0f} MB/s  {beside}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="how many of the rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="100,1024")
    parser.add_argument("--codecs", default="lz4,none")
    parser.add_argument("--partitions", default="1,2,4")
    parser.add_argument("--connector-jars", default="", help="spark-sql-kafka and what it needs, by commas")
    args = parser.parse_args()
    choices = (args.sizes.split(","), args.codecs.split(","), args.partitions.split(","))
    cells = [
        Cell(int(size), codec, int(count), int(ROWS[int(size)] * args.scale) // 4 * 4)
        for size, codec, count in itertools.product(*choices)
    ]
    settings = ("replica.high.watermark.checkpoint.interval.ms=500", "log.retention.ms=-1")
    folder = Path(tempfile.mkdtemp(prefix="minikafka-bench-spark-"))
    try:
        with running(1, *settings) as cluster:
            (log_dir,) = {path.parent for path in cluster.process.data.rglob("meta.properties")}
            session = open_session(args.connector_jars)
            bench = Bench(session, cluster.servers, log_dir, folder, bool(args.connector_jars))
            for cell in cells:
                fill(cluster.servers, cell)
                wait_checkpointed(log_dir, cell)
                measure(bench, cell, args.rounds)
            print(f"\na micro-batch of one row: {bench.overhead_ms():.0f} ms")
            session.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
