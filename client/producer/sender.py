"""What is sent when and where, and what becomes of it: the heart of the producer.

A queue that has something to send is handed to the lane of the broker that leads its partition. The lane asks for
batches (`take`) whenever it may have another request in flight, and tells what came of each (`settle`). Everything
between is here: numbering, retries, splitting, giving up in time. The rules of numbering are in `sequences`.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

from minikafka.client.cluster import Cluster
from minikafka.client.errors import ClientClosed, DeliveryTimeout, ProducerFailed, SerializationFailed
from minikafka.client.metadata import Metadata
from minikafka.client.producer.accumulator import Accumulator
from minikafka.client.producer.batch import Batch
from minikafka.client.producer.config import ProducerConfig
from minikafka.client.producer.identity import Identities
from minikafka.client.producer.lane import Lane, Outcome, Taken
from minikafka.client.producer.metrics import ProducerMetrics
from minikafka.client.producer.queues import PartitionQueue
from minikafka.client.producer.sequences import Mode, Verdict, judge, judge_error
from minikafka.client.producer.transactions import Transactions
from minikafka.client.producer.watch import watched
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.produce import ProduceRequest

log: Final = logging.getLogger(__name__)

_SWEEP_MS_MAX: Final = 1_000
"""How late a record that waits in vain is noticed at most."""


class Sender:
    """See the module's description."""

    def __init__(self, cluster: Cluster, config: ProducerConfig, identities: Identities) -> None:
        self.metrics = ProducerMetrics()
        self.fatal: KafkaError | None = None
        self.accumulator = Accumulator(config, cluster.clock, self.ready)
        self.transactions: Transactions | None = None
        self._cluster = cluster
        self._clock = cluster.clock
        self._config = config
        self._identities = identities
        self._mode = config.mode
        # Without numbers two batches in flight may change places when the first one fails.
        self._in_flight_max = 1 if self._mode is Mode.PLAIN else config.max_in_flight_requests_per_connection
        self._lanes: dict[int, Lane] = {}
        self._leaderless: dict[PartitionQueue, None] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._forget_listener = cluster.on_metadata(self._on_metadata)

    # ------------------------------------------------------------------------------------------ its life

    def start(self) -> None:
        self._sweeper = watched(self._sweep(), "give up what takes too long", self.fail_for_good)

    async def stop(self) -> None:
        """Stop sending; what is not delivered fails with ClientClosed."""
        self.accumulator.close()
        self._forget_listener()
        tasks = [lane.stop() for lane in self._lanes.values()]
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        await asyncio.gather(*tasks)
        self.fail_all(ClientClosed("the producer was closed before the record was delivered"))

    def fail_all(self, error: KafkaError) -> None:
        """Give up everything that is not delivered."""
        for batch, queue in [*self.accumulator.incomplete.items()]:
            if queue.timer is not None:
                queue.timer.cancel()
                queue.timer = None
            queue.open = None
            for batches in (queue.waiting, queue.in_flight, queue.failed):
                batches.clear()
            self._fail(queue, batch, error, is_logged=False)

    def drop_unsent(self, error: KafkaError) -> None:
        """Give up everything but what is in flight."""
        for queue in dict.fromkeys(self.accumulator.incomplete.values()):
            self._drop_unsent_of(queue, error)

    def _drop_unsent_of(self, queue: PartitionQueue, error: KafkaError, is_logged: bool = False) -> None:
        unsent = [batch for batch in queue if batch not in queue.in_flight]
        queue.open = None
        queue.waiting.clear()
        queue.failed.clear()
        for batch in unsent:
            self._fail(queue, batch, self._with_outcome(batch, error), is_logged)
        self._regroup(queue)

    def snapshot(self) -> ProducerMetrics:
        """The metrics as they are now."""
        return replace(
            self.metrics,
            requests_in_flight=sum(lane.in_flight for lane in self._lanes.values()),
            buffered_bytes=self.accumulator.bytes,
            buffered_batches=len(self.accumulator.incomplete),
        )

    def flush(self) -> list[Batch]:
        """Let nothing linger; all batches that have no answer yet."""
        incomplete = [*self.accumulator.incomplete.items()]
        for batch, queue in incomplete:
            if batch is queue.open and batch.ready_ms:
                batch.ready_ms = 0
                self.ready(queue)
        return [batch for batch, _ in incomplete]

    # ------------------------------------------------------------------------------------------- whose turn

    def ready(self, queue: PartitionQueue) -> None:
        """Look whether a queue has something to send, now or later, and by which lane."""
        at_ms = queue.ready_at_ms()
        if at_ms is None:
            return
        wait_ms = at_ms - self._clock.monotonic_ms()
        if wait_ms > 0:
            self._look_again(queue, wait_ms)
            return
        leader = self._cluster.leader(*queue.topic_partition)
        if leader is None:
            self._leaderless[queue] = None
            self._cluster.refresh_soon()
            return
        lane = self._lanes.get(leader)
        if lane is None:
            lane = self._lanes[leader] = Lane(leader, self._cluster, self._config, self)
        lane.wake(queue)

    def _look_again(self, queue: PartitionQueue, wait_ms: float) -> None:
        def look() -> None:
            queue.timer = None
            self.ready(queue)

        if queue.timer is not None:
            queue.timer.cancel()
        queue.timer = asyncio.get_running_loop().call_later(wait_ms / 1000, look)

    def wake_all(self) -> None:
        """Look at everything that waits: something that held all of it back is over."""
        for queue in dict.fromkeys(self.accumulator.incomplete.values()):
            self.ready(queue)

    def _on_metadata(self, _: Metadata) -> None:
        """Leaders may have changed: whatever waits for a turn may have to wait elsewhere."""
        leaderless, self._leaderless = self._leaderless, {}
        moved = [
            queue
            for lane in self._lanes.values()
            for queue in lane.ready
            if self._cluster.leader(*queue.topic_partition) != lane.node_id
        ]
        for lane in self._lanes.values():
            for queue in moved:
                lane.ready.pop(queue, None)
        for queue in [*leaderless, *moved]:
            self.ready(queue)

    @property
    def produce_version_max(self) -> int | None:
        return None if self.transactions is None else self.transactions.max_version(ProduceRequest)

    def take(self, lane: Lane) -> Taken:
        """The batches of the next request: one of each partition whose turn it is, as many as fit."""
        taken: Taken = []
        size = 0
        if self.fatal is not None or self._identities.current is None:
            return taken
        now_ms = self._clock.monotonic_ms()
        for queue in [*lane.ready]:
            if not self._may_take(lane, queue, now_ms):
                continue
            next_size = queue.next_size
            if taken and size + next_size > self._config.max_request_size:
                break
            batch = self._prepare(queue, lane.node_id)
            del lane.ready[queue]
            if batch is None:
                self._regroup(queue)
                self.ready(queue)
                continue
            size += next_size
            taken.append((queue, batch))
            if queue.ready_at_ms() is not None:
                # More of it has its next turn behind the others.
                lane.ready[queue] = None
        if taken:
            self.metrics.requests += 1
            self.metrics.record_bytes_sent += size
        return taken

    def _may_take(self, lane: Lane, queue: PartitionQueue, now_ms: float) -> bool:
        if self._cluster.leader(*queue.topic_partition) != lane.node_id:
            del lane.ready[queue]
            self.ready(queue)
            return False
        if not queue.is_sendable(now_ms, lane.node_id, self._in_flight_max):
            del lane.ready[queue]
            ready_ms = queue.ready_at_ms()
            # With something in flight or failed, the next answer looks again.
            if ready_ms is not None and ready_ms > now_ms:
                self._look_again(queue, ready_ms - now_ms)
            return False
        if self.transactions is not None and not self.transactions.admits(queue):
            del lane.ready[queue]
            return False
        return True

    def _prepare(self, queue: PartitionQueue, node_id: int) -> Batch | None:
        """Take the next batch, numbered and as bytes; None if no bytes can be made of it, which fails it alone."""
        is_first = not queue.in_flight
        batch = queue.take(node_id)
        is_new = batch.sequence < 0 and self._mode is not Mode.PLAIN
        if is_new:
            if is_first:
                assert self._identities.current is not None
                queue.numbering.adopt(self._identities.current)
            batch.identity = queue.numbering.identity
            batch.sequence = queue.numbering.take(len(batch))
        wire = batch.wire
        if wire is None:
            is_transactional = self._mode is Mode.TRANSACTIONAL
            try:
                wire = batch.build(self._config.compression, self._config.compression_level, is_transactional)
            except Exception as error:
                if is_new:
                    # No broker has seen its numbers: whatever is next has them.
                    queue.numbering.next_sequence, batch.sequence = batch.sequence, -1
                queue.in_flight.pop()
                self._fail(queue, batch, SerializationFailed(f"the batch cannot be written: {error!r}"))
                return None
        self.metrics.bytes_sent += len(wire)
        return batch

    def unreachable(self, lane: Lane, error: KafkaError) -> None:
        """The broker of a lane cannot be sent to. What waits for it goes on waiting, if that may help."""
        for queue in [*lane.ready]:
            queue.last_error = error
            if not error.retriable:
                del lane.ready[queue]
                self._drop_unsent_of(queue, error, is_logged=True)

    # -------------------------------------------------------------------------------------- what came of it

    def settle(self, queue: PartitionQueue, batch: Batch, outcome: Outcome) -> None:
        """Act on what came of sending a batch."""
        if batch not in self.accumulator.incomplete:
            return  # given up with everything else in the meantime
        is_oldest = queue.is_oldest(batch)
        queue.in_flight.remove(batch)
        error = outcome.error
        if error is None and outcome.code:
            error = error_for(outcome.code, outcome.message)
        if outcome.error is not None:
            verdict = judge_error(outcome.error, self._mode)
        else:
            verdict = judge(outcome.code, self._mode, is_oldest=is_oldest, records=len(batch))
        if verdict is Verdict.DELIVERED:
            self._deliver(queue, batch, outcome)
        else:
            assert error is not None
            batch.is_uncertain |= outcome.is_uncertain
            self._not_delivered(queue, batch, verdict, error)
        if queue.failed or queue.leaves_epoch:
            self._regroup(queue)
        self.ready(queue)

    def _deliver(self, queue: PartitionQueue, batch: Batch, outcome: Outcome) -> None:
        queue.failures = 0
        queue.last_error = None
        queue.known_id = batch.identity.producer_id
        if not batch.is_done:
            self.metrics.batches_delivered += 1
            self.metrics.records_delivered += len(batch)
        batch.finish(outcome.answer)
        self.accumulator.finished(batch)

    def _not_delivered(self, queue: PartitionQueue, batch: Batch, verdict: Verdict, error: KafkaError) -> None:
        if error.refresh_metadata:
            self._cluster.refresh_soon()
        is_aborting = self.transactions is not None and self.transactions.is_aborting
        is_final = verdict in (Verdict.FAIL, Verdict.ABORT, Verdict.FATAL)
        if is_final or is_aborting or (verdict is Verdict.SPLIT and batch.is_done):
            self._fail(queue, batch, self._with_outcome(batch, error))
            if verdict is Verdict.FATAL:
                self.fail_for_good(error)
        elif verdict is Verdict.SPLIT:
            self.metrics.batches_split += 1
            self.accumulator.split(batch, queue.replace_by_halves(batch))
        else:
            queue.last_error = error
            queue.leaves_epoch |= verdict is Verdict.LEAVE_EPOCH
            self._retry(queue, batch)

    def _retry(self, queue: PartitionQueue, batch: Batch) -> None:
        self.metrics.batches_retried += 1
        if not queue.failed:
            # What is in flight fails together: one delay for all of it.
            queue.failures += 1
            delay_ms = self._cluster.backoff.delay_ms(queue.failures)
            queue.paused_until_ms = self._clock.monotonic_ms() + delay_ms
        queue.failed.append(batch)

    def _regroup(self, queue: PartitionQueue) -> None:
        """After failures: what is sent again, what no longer is, and in which epoch."""
        queue.requeue_failed()
        for batch in queue.to_drop():
            assert batch.error is not None
            queue.drop(batch)
            self._fail(queue, batch, batch.error)
        if queue.leave_epoch():
            why = queue.last_error or "a batch was given up"
            log.info("%s-%d: goes on in the next epoch: %s", *queue.topic_partition, why)
            if queue.numbering.identity == self._identities.current:
                self.metrics.epoch_bumps += 1
                self._identities.bump()

    def _fail(self, queue: PartitionQueue, batch: Batch, error: KafkaError, is_logged: bool = True) -> None:
        """A batch that is in no place of its queue any more is over."""
        self._give_up(queue, batch, error, is_logged)
        self.accumulator.finished(batch)

    def _give_up(self, queue: PartitionQueue, batch: Batch, error: KafkaError, is_logged: bool = True) -> None:
        """Everybody who waits for a batch gets the error. The batch itself may keep its place: see `sequences`."""
        if batch.is_done:
            return
        self.metrics.records_failed += len(batch)
        if is_logged:
            log.warning("%s-%d: %d records were not delivered: %s", *queue.topic_partition, len(batch), error)
        queue.leaves_epoch |= self._mode is Mode.IDEMPOTENT and batch.sequence >= 0
        batch.finish(error=error)
        if self.transactions is not None:
            self.transactions.fail(error, loses_numbers=batch.sequence >= 0)

    def fail_for_good(self, error: KafkaError) -> None:
        """The producer cannot go on."""
        if self.fatal is None:
            self.fatal = ProducerFailed(f"the producer cannot go on: {error}")
            if self.transactions is not None:
                self.transactions.fail_for_good(error)
            self.fail_all(self.fatal)

    # -------------------------------------------------------------------------------------- delivery timeouts

    async def _sweep(self) -> None:
        """Fail in time what is not delivered by its deadline."""
        step_s = min(_SWEEP_MS_MAX, self._config.delivery_timeout_ms / 4) / 1000
        while True:
            await asyncio.sleep(step_s)
            self.give_up_late()

    def give_up_late(self) -> None:
        """Fail what has reached its deadline."""
        now_ms = self._clock.monotonic_ms()
        late = [item for item in self.accumulator.incomplete.items() if item[0].deadline_ms <= now_ms]
        for batch, queue in late:
            self._give_up(queue, batch, self._too_late(queue, batch))
        for queue in dict.fromkeys(queue for _, queue in late):
            self._regroup(queue)
            self.ready(queue)

    def _too_late(self, queue: PartitionQueue, batch: Batch) -> KafkaError:
        topic, partition = batch.topic_partition
        limit_ms = self._config.delivery_timeout_ms
        why = self._why_late(queue)
        error = DeliveryTimeout(f"{topic}-{partition}: not acknowledged within {limit_ms} ms: {why}")
        return self._with_outcome(batch, error, is_in_flight=batch in queue.in_flight)

    def _why_late(self, queue: PartitionQueue) -> KafkaError | str:
        if queue.last_error is not None:
            return queue.last_error
        if self._cluster.leader(*queue.topic_partition) is None:
            return "the partition has no leader"
        return "no answer has come" if queue.in_flight else "its turn has not come"

    def _with_outcome(self, batch: Batch, error: KafkaError, is_in_flight: bool = False) -> KafkaError:
        """The error of a batch, which says so if it may have been written all the same, and may be read."""
        if self._mode is Mode.TRANSACTIONAL or not (batch.is_uncertain or is_in_flight):
            return error
        unknown = type(error)(f"{error.message} (the outcome is unknown: it may have been written)")
        unknown.wire_code = error.wire_code
        return unknown
