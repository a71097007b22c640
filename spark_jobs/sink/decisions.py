"""What was decided about micro-batches, in a topic of its own, and which run of a query may decide.

A batch is committed by ending one transaction after the other, and the driver may die in between. So before it ends the
first, it writes down that the batch is to be committed, and by ending which transactions. From then on the batch is
written: when Spark runs it again, nothing is written again, and the transactions are ended once more.

A run is what lies between two starts of a query. A driver that was paused may wake up when a newer run has long gone
on. So each run writes that it has begun before its first task writes rows, and the order of the records in the topic is
the order of the runs. A decision counts only if its run was the newest when it was written, and only as the first of
its batch; so every reader of the topic comes to the same state, and a driver reads its decision back before it acts on
it. Compaction takes nothing away that counts: no two records have the same key, and only what does not count any more
is deleted.

    key    ["run", query, run, nonce]       value  {"run": run, "owner": owner}
    key    ["batch", query, run, nonce]     value  {"batch": 7, "run": run, "write": w, "transactions": [[id, 4711, 3]]}

Records of earlier versions have the query as their key and no run; they count until the first run has begun.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
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

_RUN: Final = "run"
_BATCH: Final = "batch"

_LATER_ID: Final = re.compile(r".*-(?P<task>\d+)-(?P<run>\d+)\.(?P<attempt>\d+)")


class Decision(NamedTuple):
    """A batch that is to be committed, and by ending which transactions."""

    batch_id: int
    transactions: tuple[Transaction, ...]
    run: str = ""
    """The run that has decided; empty in records of earlier versions."""
    write_id: str = ""
    """Which write of the batch this is about; a batch may have several inside of foreachBatch."""
    attempts: Mapping[int, int] = {}
    """By task, which attempt was committed last in this run, where it was not the first."""

    def encode(self) -> bytes:
        content = {
            "batch": self.batch_id,
            "run": self.run,
            "write": self.write_id,
            "attempts": {str(task): attempt for task, attempt in sorted(self.attempts.items())},
            "transactions": self.transactions,
        }
        return json.dumps(content).encode()

    @classmethod
    def decode(cls, value: bytes) -> Decision:
        try:
            content = json.loads(value)
            transactions = [
                Transaction(str(name), int(number), int(epoch)) for name, number, epoch in content["transactions"]
            ]
            attempts = {int(task): int(attempt) for task, attempt in content.get("attempts", {}).items()}
            run, write_id = str(content.get("run", "")), str(content.get("write", ""))
            return cls(int(content["batch"]), tuple(transactions), run, write_id, attempts)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadCheckpoint(f"the topic of decisions holds what is no decision: {value[:200]!r}") from error


class Run(NamedTuple):
    """A run of a query; its owner is the driver's process, if that can be known."""

    id: str
    owner: str = ""

    @classmethod
    def decode(cls, value: bytes) -> Run:
        try:
            content = json.loads(value)
            return cls(str(content["run"]), str(content.get("owner", "")))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadCheckpoint(f"the topic of decisions holds what is no run: {value[:200]!r}") from error


@dataclass
class QueryState:
    """What holds for a query after some records of the topic. Changed by `apply` only, record after record."""

    runs: dict[str, int] = field(default_factory=dict)
    """All runs that have begun, numbered from 1."""
    owner: str = ""
    """Whose the newest run is."""
    last: Decision | None = None
    stale_keys: set[bytes] = field(default_factory=set)
    """Records that do not count, or not any more."""
    _last_key: bytes = b""

    @property
    def newest_run(self) -> str:
        return next(reversed(self.runs), "")

    def apply(self, key: bytes, record: Decision | Run | None) -> None:
        """Take in a decision, a run that has begun, or that a record was deleted."""
        if record is None:
            self.stale_keys.discard(key)
        elif isinstance(record, Decision):
            self._apply_decision(key, record)
        elif record.id in self.runs:
            # Several tasks of a run may have written it; the first counts.
            self.stale_keys.add(key)
        else:
            self.runs[record.id], self.owner = len(self.runs) + 1, record.owner

    def _apply_decision(self, key: bytes, decision: Decision) -> None:
        # Earlier versions knew nothing of runs, and wrote a batch again under the same key.
        is_again = not decision.run and self.last is not None and decision.batch_id == self.last.batch_id
        is_later = self.last is None or decision.batch_id > self.last.batch_id
        counts = decision.run == self.newest_run and (is_later or is_again)
        stale = self._last_key if counts else key
        if counts:
            self.last, self._last_key = decision, key
        if stale and stale != self._last_key:
            self.stale_keys.add(stale)


class Decisions:
    """The state of each query. Reads on from where it was, so asking again costs little."""

    def __init__(self, link: Link[ReaderConfig], topic: str) -> None:
        self.link = link
        self._tp = TopicPartition(topic, _PARTITION)
        self._next_offset = -1
        self._queries: dict[str, QueryState] = {}

    def last(self, query: str) -> Decision | None:
        """What was decided last for a query."""
        return self.read(query).last

    def read(self, query: str) -> QueryState:
        """What holds for a query by all that has been written so far, by anybody."""
        start, stop = self.link.run(self._ends)
        start = max(start, self._next_offset)
        if start < stop:
            wanted = OffsetRange(*self._tp, start, stop)
            # A decision that is missed is a batch that is written twice.
            for batch in RangeReader(self.link, LossPolicy(True), wanted).batches():
                batch.check_crc()
                for record in iter_records(batch):
                    if record.offset >= start and record.key is not None:
                        self._apply(bytes(record.key), None if record.value is None else bytes(record.value))
            self._next_offset = stop
        return self._queries.setdefault(query, QueryState())

    def owned_by(self, owner: str) -> str | None:
        """The query whose newest run is somebody's."""
        self.read("")
        return next((query for query, state in self._queries.items() if owner and state.owner == owner), None)

    def _apply(self, key: bytes, value: bytes | None) -> None:
        kind, query = _kind_of(key)
        record = None if value is None else (Run if kind == _RUN else Decision).decode(value)
        self._queries.setdefault(query, QueryState()).apply(key, record)

    async def _ends(self, cluster: Cluster) -> tuple[int, int]:
        await cluster.retry(lambda: _create(cluster, self._tp.topic))
        await cluster.wait_metadata([self._tp.topic])
        start, stop = [
            (await find_existing(cluster, {self._tp: which}, Isolation.READ_UNCOMMITTED))[self._tp].offset
            for which in (EARLIEST, LATEST)
        ]
        return start, stop


def _kind_of(key: bytes) -> tuple[str, str]:
    try:
        kind, query, *_ = json.loads(key)
        return str(kind), str(query)
    except ValueError:
        return _BATCH, key.decode()


# Workers outlive micro-batches, and what they have read. Keyed by process as well, see `link`.
_known: Final[dict[tuple[int, ReaderConfig, str], Decisions]] = {}


def decisions_for(link: Link[ReaderConfig], topic: str) -> Decisions:
    """The decisions that this process knows."""
    key = os.getpid(), link.config, topic
    known = _known.get(key)
    if known is None or known.link is not link:
        known = _known[key] = Decisions(link, topic)
    return known


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


def transactional_id(query: str, task: int, run_number: int, attempt: int) -> str:
    """The id under which an attempt of a task writes.

    No other run and no other attempt of the batch has the same, so a task that goes on though it was given up ends no
    transaction but its own. The plain name is the first run's first attempt's, as in earlier versions.
    """
    plain = f"spark-{query}-{task}"
    return plain if run_number <= 1 and not attempt else f"{plain}-{run_number}.{attempt}"


def run_number_of(transaction_id: str, query: str) -> int | None:
    """The number of the run whose task writes under an id; None if it is none of the query's."""
    match = re.fullmatch(re.escape(f"spark-{query}-") + r"\d+(?:-(?P<run>\d+)\.\d+)?", transaction_id)
    return None if match is None else int(match["run"] or 1)


def committed_attempts(decision: Decision | None, run: str) -> dict[int, int]:
    """By task, the attempt that the run committed last, where it was not the first."""
    if decision is None or decision.run != run:
        return {}
    attempts = dict(decision.attempts)
    for transaction in decision.transactions:
        match = _LATER_ID.fullmatch(transaction.id)
        if match is not None and int(match["attempt"]):
            attempts[int(match["task"])] = int(match["attempt"])
    return attempts


async def write_run(config: WriterConfig, topic: str, query: str, run: Run) -> None:
    """Write that a run has begun; returns when all in-sync replicas have it."""
    key = json.dumps([_RUN, query, run.id, uuid.uuid4().hex]).encode()
    value = json.dumps({"run": run.id, "owner": run.owner}).encode()
    async with Producer(config=config) as producer:
        await producer.send_and_wait(topic, value, key=key, partition=_PARTITION)


async def write_decision(
    config: WriterConfig, topic: str, query: str, decision: Decision, stale_keys: frozenset[bytes] = frozenset()
) -> None:
    """Returns when all in-sync replicas have it. Decisions that do not count any more are deleted with it."""
    key = json.dumps([_BATCH, query, decision.run, uuid.uuid4().hex]).encode() if decision.run else query.encode()
    async with Producer(config=config) as producer:
        for stale in sorted(stale_keys):
            await producer.send(topic, None, key=stale, partition=_PARTITION)
        await producer.send_and_wait(topic, decision.encode(), key=key, partition=_PARTITION)
