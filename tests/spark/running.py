"""What the tests with a real Spark share: topics and records made by our own client, and ways to run queries."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from minikafka.client.cluster import Cluster
from minikafka.client.config import ClientConfig
from minikafka.client.producer import Producer
from minikafka.protocol.errors import error_for
from minikafka.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_T = TypeVar("_T")

QUERY_SECONDS = 100

# Spark gives the process of a source ten seconds to start, which may not be enough on a busy machine.
NOT_STARTED = "Python worker failed to connect back"

# A JVM that starts fast, since no test runs for long enough to make up for a slow start.
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
}


def make_session(name: str, more: Mapping[str, str] | None = None) -> SparkSession:
    os.environ["MINIKAFKA_TEST_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = str(Path(__file__).with_name("python"))
    builder: Any = SparkSession.builder
    builder = builder.master("local[2]").appName(name)
    for key, value in {**CONFIG, **(more or {})}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


class Sent(NamedTuple):
    """A record to be sent."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Topics:
    """Makes topics and fills them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create(
        self, name: str, partitions: int = 1, *, replicas: int = 1, configs: Mapping[str, str] | None = None
    ) -> str:
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=[],
            # Tests send records with timestamps of long ago, and the broker looks for old ones twice a second.
            configs=[
                CreatableTopicConfig(name=key, value=value)
                for key, value in {"retention.ms": "-1", **(configs or {})}.items()
            ],
        )

        async def ask(cluster: Cluster) -> None:
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
            answer: CreateTopicsResponse = await cluster.request(await cluster.controller(), request)
            if answer.topics[0].error_code:
                raise error_for(answer.topics[0].error_code, answer.topics[0].error_message)
            await cluster.wait_metadata([name])

        self.run(ask)
        return name

    def run(self, ask: Any) -> Any:
        """What a function of a cluster gives."""

        async def inside() -> Any:
            async with Cluster(ClientConfig(bootstrap_servers=self.bootstrap)) as cluster:
                return await ask(cluster)

        return asyncio.run(inside())

    def send(self, topic: str, records: Sequence[Sent | bytes], **options: Any) -> None:
        async def send() -> None:
            async with Producer(bootstrap_servers=self.bootstrap, **options) as producer:
                for each in records:
                    record = Sent(each) if isinstance(each, bytes) else each
                    await producer.send(
                        topic, record.value, record.key, record.partition, record.timestamp_ms, record.headers
                    )

        asyncio.run(send())

    def send_many(self, topic: str, partitions: int, per_partition: int, start: int = 0, **options: Any) -> None:
        """Values `<partition>:<number>`, many at a time."""

        async def send() -> None:
            async with Producer(bootstrap_servers=self.bootstrap, **options) as producer:
                for partition in range(partitions):
                    numbers = range(start, start + per_partition)
                    await producer.send_batch(
                        topic, [b"%d:%d" % (partition, each) for each in numbers], None, partition
                    )

        asyncio.run(send())

    def transact(self, topic: str, transactional_id: str, values: Sequence[bytes], *, commit: bool | None) -> None:
        """Values in a transaction that is committed, aborted, or left open."""

        async def send() -> None:
            producer = Producer(bootstrap_servers=self.bootstrap, transactional_id=transactional_id)
            await producer.start()
            try:
                await producer.begin_transaction()
                await producer.send_batch(topic, values, None, 0)
                await producer.flush()
                if commit is not None:
                    await (producer.commit_transaction() if commit else producer.abort_transaction())
            finally:
                await producer.stop(flush=False)

        asyncio.run(send())


def run(work: Coroutine[Any, Any, _T]) -> _T:
    return asyncio.run(work)


def values_of(frame: DataFrame) -> list[bytes]:
    """The values of a frame in the order of partitions and offsets."""
    rows = frame.select("partition", "offset", "value").collect()
    return [bytes(row.value) for row in sorted(rows, key=lambda row: (row.partition, row.offset))]


def has_run(query: StreamingQuery) -> bool:
    """Wait for the end of a query; False if it could not even start."""
    try:
        assert query.awaitTermination(QUERY_SECONDS), "the query did not end"
    except StreamingQueryException as error:
        if NOT_STARTED in str(error):
            return False
        raise
    return True


def finish(writer: DataStreamWriter) -> StreamingQuery:
    """Run a query that ends by itself; what it failed with is raised."""
    for _ in range(5):
        query = writer.start()
        try:
            if has_run(query):
                return query
        finally:
            query.stop()
    raise AssertionError("the machine is too busy for Spark to start a process in ten seconds")
