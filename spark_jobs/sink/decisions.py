"""What was decided about micro-batches, in a topic of its own.

A batch is committed by ending one transaction after the other, and the driver may die in between. So before it ends the
first, it writes down that the batch is to be committed, and by ending which transactions:

    key    the query's id
    value  {"batch": 7, "transactions": [["spark-<query>-0", 4711, 3], ...]}

From then on the batch is written. When Spark runs it again, nothing is written again, and the transactions are ended
once more. Only the last decision of a query counts, so the topic is compacted.
"""

from __future__ import annotations

import json
import os
from typing import Final, NamedTuple

from minikafka.client.cluster import Cluster
from minikafka.client.consumer.config import Isolation
from minikafka.client.producer import Producer
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import TopicAlreadyExistsError, error_for
from minikafka.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.records import iter_records
from minikafka.spark_jobs.broker_catalog import find_existing
from minikafka.spark_jobs.broker_ranges import RangeReader
from minikafka.spark_jobs.catalog import LossPolicy
from minikafka.spark_jobs.errors import BadCheckpoint
from minikafka.spark_jobs.link import Link
from minikafka.spark_jobs.options import EARLIEST, LATEST, ReaderConfig, WriterConfig
from minikafka.spark_jobs.planning import OffsetRange
from minikafka.spark_jobs.sink.transactions import Transaction

_PARTITION: Final = 0
# Old decisions go when a segment is full, so that a worker that starts has little to read.
_CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.1"}


class Decision(NamedTuple):
    """A batch that is to be committed, and by ending which transactions."""

    batch_id: int
    transactions: tuple[Transaction, ...]

    def encode(self) -> bytes:
        return json.dumps({"batch": self.batch_id, "transactions": self.transactions}).encode()

    @classmethod
    def decode(cls, value: bytes) -> Decision:
        try:
            found = json.loads(value)
            ended = [Transaction(str(name), int(number), int(epoch)) for name, number, epoch in found["transactions"]]
            return cls(int(found["batch"]), tuple(ended))
        except (ValueError, KeyError, TypeError) as error:
            raise BadCheckpoint(f"the topic of decisions holds what is no decision: {value[:200]!r}") from error


class Decisions:
    """The last decision of each query. Reads on from where it was, so asking again costs little."""

    def __init__(self, link: Link[ReaderConfig], topic: str) -> None:
        self._link = link
        self._tp = TopicPartition(topic, _PARTITION)
        self._next_offset = -1
        self._last: dict[str, Decision] = {}

    def last(self, query_id: str) -> Decision | None:
        """What was decided last for a query, by anybody."""
        start, stop = self._link.run(self._ends)
        start = max(start, self._next_offset)
        if start < stop:
            wanted = OffsetRange(*self._tp, start, stop)
            # A decision that is missed is a batch that is written twice.
            for batch in RangeReader(self._link, LossPolicy(True), wanted).batches():
                batch.check_crc()
                for record in iter_records(batch):
                    if record.offset >= start and record.key is not None and record.value is not None:
                        self._last[record.key.decode()] = Decision.decode(record.value)
            self._next_offset = stop
        return self._last.get(query_id)

    async def _ends(self, cluster: Cluster) -> tuple[int, int]:
        await cluster.retry(lambda: _create(cluster, self._tp.topic))
        await cluster.wait_metadata([self._tp.topic])
        found = [
            (await find_existing(cluster, {self._tp: which}, Isolation.READ_UNCOMMITTED))[self._tp].offset
            for which in (EARLIEST, LATEST)
        ]
        return found[0], found[1]


# Workers outlive micro-batches, and what they have read. Keyed by process as well, see `link`.
_known: Final[dict[tuple[int, ReaderConfig, str], Decisions]] = {}


def decisions_for(link: Link[ReaderConfig], topic: str) -> Decisions:
    """The decisions that this process knows."""
    key = os.getpid(), link.config, topic
    found = _known.get(key)
    if found is None:
        found = _known[key] = Decisions(link, topic)
    return found


async def _create(cluster: Cluster, topic: str) -> None:
    """Make the topic unless it is there."""
    if cluster.partitions(topic) is None:
        # Asking for it needs fewer rights than making it.
        cluster.want_topics([topic])
        await cluster.refresh()
    if cluster.partitions(topic) is not None:
        return
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in _CONFIGS.items()]
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=-1, assignments=[], configs=configs)
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=cluster.config.request_timeout_ms)
    answer: CreateTopicsResponse = await cluster.request(await cluster.controller(), request)
    code = answer.topics[0].error_code
    if code and code != TopicAlreadyExistsError.code:
        raise error_for(code, f"topic {topic!r} cannot be made: {answer.topics[0].error_message}")


async def write_decision(config: WriterConfig, topic: str, query_id: str, decision: Decision) -> None:
    """Returns when all in-sync replicas have it."""
    async with Producer(config=config) as producer:
        await producer.send_and_wait(topic, decision.encode(), key=query_id.encode(), partition=_PARTITION)
