"""A query goes on while brokers die: leaders are killed during it, and every acknowledged record is read once."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

from pyspark.sql import SparkSession

from minikafka.client import cluster as client_cluster
from minikafka.client.producer import Producer
from tests.chaos.cluster import Cluster
from tests.spark.marks import KILLS, SPARK
from tests.spark.running import Topics
from tests.spark.test_streaming import into_parquet, wait_until

pytestmark = SPARK

PARTITIONS = 2
BROKERS = 3


class Load:
    """Sends numbered records until it is told to stop, each again until it is acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._send(bootstrap, topic)))
        self._thread.start()

    async def _send(self, bootstrap: str, topic: str) -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            while not self._stop.is_set():
                numbers = range(self.acknowledged, self.acknowledged + 50)
                await asyncio.gather(
                    *[(await producer.send(topic, b"%d" % each, partition=each % PARTITIONS)) for each in numbers]
                )
                self.acknowledged += 50

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        return self.acknowledged


async def wait_for_brokers(client: client_cluster.Cluster) -> None:
    """Until the controller knows all of them, and can place replicas."""
    known = 0
    while known < BROKERS:
        known = len((await client.refresh()).brokers)
        await asyncio.sleep(0.1)


def test_leaders_are_killed(spark: SparkSession, tmp_path: Path, topic: str, checkpoint: str) -> None:
    with Cluster(tmp_path / "cluster", BROKERS) as cluster:
        topics = Topics(cluster.bootstrap)
        topics.run(wait_for_brokers)
        topics.create(topic, PARTITIONS, replicas=BROKERS)
        cluster.wait_until_whole(topic)
        reader = spark.readStream.format("minikafka").option("kafka.bootstrap.servers", cluster.bootstrap)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        rows = str(tmp_path / "rows")
        query = into_parquet(reader, rows, checkpoint).start()
        load = Load(cluster.bootstrap, topic)

        def has_read(count: int) -> bool:
            progress = query.lastProgress
            return progress is not None and sum(json.loads(progress.sources[0].endOffset)[topic].values()) >= count

        try:
            for partition in range(PARTITIONS if KILLS else 1):
                wait_until(lambda wanted=load.acknowledged + 100: has_read(wanted), query)  # type: ignore[misc]
                leader = cluster.view.partitions(topic)[partition].leader
                epoch = cluster.epoch(leader)
                cluster.broker(leader).kill()
                wait_until(lambda wanted=load.acknowledged + 100: has_read(wanted), query)  # type: ignore[misc]
                cluster.broker(leader).start()
                cluster.wait_until_back(leader, epoch)
                cluster.wait_until_whole(topic)
        finally:
            sent = load.stop()
        wait_until(lambda: has_read(sent), query)
        query.stop()
        found = spark.read.parquet(rows)
        assert (found.count(), found.select("value").distinct().count()) == (sent, sent)
