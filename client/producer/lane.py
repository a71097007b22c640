"""The way to one broker: a task that connects when there is something to send, and sends what may be in flight."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Final, Protocol, TypeAlias

from minikafka.client.cluster import Cluster
from minikafka.client.connection import Connection
from minikafka.client.errors import ConnectionFailed
from minikafka.client.producer.batch import Answer, Batch
from minikafka.client.producer.config import ProducerConfig
from minikafka.client.producer.queues import PartitionQueue
from minikafka.client.producer.sequences import is_refusal
from minikafka.client.producer.watch import unforeseen, watched
from minikafka.protocol.compression import Compression
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

log: Final = logging.getLogger(__name__)

_MAGIC_2_SINCE: Final = 3
_ZSTD_SINCE: Final = 7

Taken: TypeAlias = list[tuple[PartitionQueue, Batch]]


class Judge(Protocol):
    """Who decides what goes out, and what becomes of it."""

    @property
    def produce_version_max(self) -> int | None: ...

    def take(self, lane: Lane) -> Taken: ...

    def settle(self, queue: PartitionQueue, batch: Batch, outcome: Outcome) -> None: ...

    def unreachable(self, lane: Lane, error: KafkaError) -> None: ...

    def fail_for_good(self, error: KafkaError) -> None: ...


class Outcome:
    """What came of sending one batch: an answer with a code, or an error instead of an answer."""

    __slots__ = ("answer", "code", "error", "message", "was_sent")

    def __init__(
        self,
        code: int = ErrorCode.NONE,
        message: str | None = None,
        answer: Answer | None = None,
        error: KafkaError | None = None,
        was_sent: bool = True,
    ) -> None:
        self.code = code
        self.message = message
        self.answer = answer
        self.error = error
        self.was_sent = was_sent

    @property
    def is_uncertain(self) -> bool:
        """Whether the batch may have been written, or may yet be, though no success was answered."""
        return self.was_sent and (self.error is not None or not is_refusal(self.code))


class Lane:
    """See the module's description."""

    def __init__(self, node_id: int, cluster: Cluster, config: ProducerConfig, judge: Judge) -> None:
        self.node_id = node_id
        self.ready: dict[PartitionQueue, None] = {}  # in the order of their turns
        self.in_flight = 0
        self._in_flight_max = config.max_in_flight_requests_per_connection
        self._cluster = cluster
        self._config = config
        self._judge = judge
        self._acks = config.acks_wanted
        self._min_version = _ZSTD_SINCE if config.compression is Compression.ZSTD else _MAGIC_2_SINCE
        self._work = asyncio.Event()
        self._task = watched(self._run(), f"send to broker {node_id}", judge.fail_for_good)

    def wake(self, queue: PartitionQueue) -> None:
        """A queue has something to send to this broker."""
        self.ready[queue] = None
        self._work.set()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            if not self.ready:
                self._work.clear()  # what was here has moved to another broker
                continue
            try:
                connection = self._cluster.connection_nowait(self.node_id)
                if connection is None:
                    connection = await self._cluster.connection(self.node_id)
                self._work.clear()
                await self._send_all(connection)
            except KafkaError as error:
                # The queues wait here, or move when another broker leads them, unless waiting will not help.
                log.debug("broker %d: %s", self.node_id, error)
                self._judge.unreachable(self, error)
                self._work.set()
                await asyncio.sleep(self._cluster.backoff.delay_s(1))

    async def _send_all(self, connection: Connection) -> None:
        while self.in_flight < self._in_flight_max:
            taken = self._judge.take(self)
            if not taken:
                return
            self._send(connection, taken)
            if not connection.can_write:
                await connection.wait_writable()

    def _send(self, connection: Connection, taken: Taken) -> None:
        request, max_version = self._request(taken), self._judge.produce_version_max
        try:
            if self._acks == 0:
                connection.send_unanswered(request, min_version=self._min_version, max_version=max_version)
                self._settle(taken, repeat(Outcome()))
                return
            answer = connection.send_nowait(request, min_version=self._min_version, max_version=max_version)
        except KafkaError as error:
            self._settle(taken, repeat(Outcome(error=error, was_sent=False)))
            return
        self.in_flight += 1
        answer.add_done_callback(self._on_answer(taken))

    def _request(self, taken: Taken) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for _, batch in taken:
            assert batch.wire is not None
            topic, partition = batch.topic_partition
            data = PartitionProduceData(index=partition, records=memoryview(batch.wire))
            topics.setdefault(topic, []).append(data)
        return ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )

    def _on_answer(self, taken: Taken) -> Callable[[asyncio.Future[ProduceResponse]], None]:
        def settle(answer: asyncio.Future[ProduceResponse]) -> None:
            self.in_flight -= 1
            if self.ready:
                self._work.set()
            error = answer.exception()
            if error is not None:
                assert isinstance(error, KafkaError)
                self._settle(taken, repeat(Outcome(error=error)))
                return
            topics = answer.result().responses
            found = {(topic.name, each.index): each for topic in topics for each in topic.partition_responses}
            self._settle(taken, [_outcome(found.get(batch.topic_partition)) for _, batch in taken])

        return settle

    def _settle(self, taken: Taken, outcomes: Iterable[Outcome]) -> None:
        failures: list[KafkaError] = []
        for (queue, batch), outcome in zip(taken, outcomes, strict=False):
            try:
                self._judge.settle(queue, batch, outcome)
            except Exception as error:
                failures.append(unforeseen(f"settling a batch of {batch.topic_partition}", error))
        # The others have what they were answered. The books of that partition are wrong, and nobody would notice.
        for failure in failures:
            self._judge.fail_for_good(failure)


def _outcome(found: PartitionProduceResponse | None) -> Outcome:
    if found is None:
        return Outcome(error=ConnectionFailed("the broker's answer left the partition out"))
    message = found.error_message
    if found.record_errors:
        reasons = [each.batch_index_error_message for each in found.record_errors if each.batch_index_error_message]
        message = "; ".join(dict.fromkeys([*([message] if message else []), *reasons]))
    answer = Answer(found.base_offset, found.log_append_time_ms, found.log_start_offset)
    return Outcome(found.error_code, message, answer)
