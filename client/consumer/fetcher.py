"""Fetching ahead of the reader: what is fetched from where, and what the answers mean.

One task for each broker that leads partitions of ours (`broker_fetch`), started when it is first needed. A partition is
fetched while its position is known and not in doubt, it is not paused, and less than a request's worth of it waits
to be read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from minikafka.client.cluster import Cluster
from minikafka.client.consumer.broker_fetch import BrokerFetch
from minikafka.client.consumer.config import ConsumerConfig, Isolation
from minikafka.client.consumer.delivery import Delivery
from minikafka.client.consumer.errors import BatchTooLarge, CorruptBatch
from minikafka.client.consumer.fetched import read_fetched
from minikafka.client.consumer.memory import Memory
from minikafka.client.consumer.partition import Needs, PartitionState
from minikafka.client.consumer.positions import Positions
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import ErrorCode, error_for
from minikafka.protocol.messages.fetch import FetchablePartitionResponse

log: Final = logging.getLogger(__name__)


class Fetcher:
    """See the module's description."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        delivery: Delivery,
        positions: Positions,
        spawn: Callable[[BrokerFetch], object],
    ) -> None:
        self.memory = Memory(config.max_buffered_bytes, config.max_partition_fetch_bytes, self._wake_all)
        self.bytes_fetched = 0
        self._cluster = cluster
        self._config = config
        self._delivery = delivery
        self._positions = positions
        self._spawn = spawn
        self._brokers: dict[int, BrokerFetch] = {}
        self._states: dict[PartitionState, None] = {}
        self._at: dict[PartitionState, int] = {}
        delivery.on_starving = self._starve

    @property
    def requests(self) -> int:
        return sum(broker.requests for broker in self._brokers.values())

    async def end_sessions(self) -> None:
        """After the tasks have ended."""
        await asyncio.gather(*(broker.end_session() for broker in self._brokers.values()))

    # ---------------------------------------------------------------------------------- what is to be fetched

    def add(self, states: Collection[PartitionState]) -> None:
        self._states.update(dict.fromkeys(states))
        for state in states:
            self.touch(state, hurry=True)

    def remove(self, states: Collection[PartitionState]) -> None:
        """Fetch these no longer, and free what waits of them."""
        for state in states:
            self._states.pop(state, None)
            self.freed(state.drop())
            self.touch(state)

    def touch(self, state: PartitionState, hurry: bool = False) -> None:
        """Look at a partition again: its position, its leader, or the room for it has changed."""
        node_id = self.node_of(state)
        before = self._at.get(state)
        if node_id is not None:
            self._at[state] = node_id
            self._broker(node_id).touch(state, hurry)
        if before is not None and before != node_id:
            if node_id is None:
                del self._at[state]
            self._brokers[before].touch(state)

    def touch_all(self) -> None:
        """The cluster has changed."""
        for state in self._states:
            state.lead_by(self._cluster.leader_epoch(*state.tp))
            self.touch(state)
        self._positions.wake()

    def freed(self, read_bytes: int) -> None:
        """So many bytes do not wait any longer."""
        if read_bytes:
            self.memory.free(read_bytes)

    def _wake_all(self) -> None:
        for broker in self._brokers.values():
            broker.wake()

    def _starve(self) -> None:
        if not self.memory.has_room:
            for broker in self._brokers.values():
                broker.starve()

    def was_read(self, state: PartitionState, read_bytes: int) -> None:
        self.freed(read_bytes)
        self.touch(state)

    def _broker(self, node_id: int) -> BrokerFetch:
        broker = self._brokers.get(node_id)
        if broker is None:
            broker = BrokerFetch(node_id, self._cluster, self._config, self.memory, self)
            self._brokers[node_id] = broker
            self._spawn(broker)
        return broker

    # ------------------------------------------------------------------------------- rules (see `FetchRules`)

    @property
    def sharers(self) -> int:
        return len({*self._at.values()})

    @property
    def starving(self) -> Collection[TopicPartition] | None:
        return self._delivery.starving

    def still_wants(self, state: PartitionState) -> bool:
        return state in self._states

    def node_of(self, state: PartitionState) -> int | None:
        if not self._is_wanted(state) or state.buffered_bytes >= self._config.max_partition_fetch_bytes:
            return None
        return self._source(state)

    def is_held_back(self, state: PartitionState, node_id: int) -> bool:
        return (
            state.buffered_bytes >= self._config.max_partition_fetch_bytes
            and self._is_wanted(state)
            and self._source(state) == node_id
        )

    def _is_wanted(self, state: PartitionState) -> bool:
        return (
            state.needs is Needs.NOTHING
            and state.error is None
            and not state.is_paused
            and not state.is_held
            and state in self._states
            and (not state.retry_at_ms or state.retry_at_ms <= self._cluster.clock.monotonic_ms())
        )

    def _source(self, state: PartitionState) -> int | None:
        """The replica that the leader has named, or the leader."""
        if state.preferred_replica is not None:
            brokers = self._cluster.metadata.brokers
            if state.preferred_replica in brokers and self._cluster.clock.monotonic_ms() < state.preferred_until_ms:
                return state.preferred_replica
            state.preferred_replica = None
        return self._cluster.leader(*state.tp)

    # ---------------------------------------------------------------------------------------------- answers

    def take_in(self, state: PartitionState, answer: FetchablePartitionResponse, node_id: int) -> None:
        if state.error is not None:
            # Whatever comes lies behind what could not be read.
            return
        if answer.error_code:
            self._take_error(state, answer, node_id)
            return
        if answer.diverging_epoch is not None and answer.diverging_epoch.end_offset >= 0:
            self._positions.diverged(state, answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
            return
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        state.log_start_offset = answer.log_start_offset
        state.last_fetch_ms = self._cluster.clock.wall_ms()
        if answer.preferred_read_replica >= 0:
            self._go_elsewhere(state, answer.preferred_read_replica)
        if answer.records:
            self._take_records(state, answer)

    def _go_elsewhere(self, state: PartitionState, node_id: int) -> None:
        """The leader has named another replica to read from, and will give nothing itself."""
        if node_id in self._cluster.metadata.brokers:
            state.preferred_replica = node_id
            state.preferred_until_ms = self._cluster.clock.monotonic_ms() + self._config.metadata_max_age_ms
        else:
            # It has just come back, perhaps.
            self._cluster.refresh_soon()
            self._retry_later(state)

    def _take_records(self, state: PartitionState, answer: FetchablePartitionResponse) -> None:
        is_committed = self._config.isolation is Isolation.READ_COMMITTED
        fetched = read_fetched(answer, state.fetch_position, is_committed, check_crcs=self._config.check_crcs)
        offset = fetched.skipped.offset
        where = f"{state.tp.topic}-{state.tp.partition} at offset {offset}"
        if fetched.flaw is not None and not fetched.chunks:
            text = f"the batch of {where} is damaged: {fetched.flaw}"
            state.fail(CorruptBatch(text, state.tp, offset))
        elif fetched.is_too_large:
            text = f"the batch of {where} is larger than max_partition_fetch_bytes"
            state.fail(BatchTooLarge(text, state.tp, offset))
        before = state.buffered_bytes
        state.add(fetched.skipped, fetched.chunks)
        self.memory.take(state.buffered_bytes - before)
        self.bytes_fetched += state.buffered_bytes - before
        if state.has_data:
            self._delivery.wake(state)

    def _take_error(self, state: PartitionState, answer: FetchablePartitionResponse, node_id: int) -> None:
        error = error_for(answer.error_code, f"{state.tp.topic}-{state.tp.partition}")
        if state.preferred_replica == node_id:
            # What a replica does not have or know, the leader may.
            state.preferred_replica = None
            self._retry_later(state)
        elif answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # What was fetched before is still good; the end of it is early enough to ask what comes then.
            if state.has_batches:
                self._retry_later(state)
            else:
                self._positions.out_of_range(state)
        elif error.retriable:
            log.debug("fetching %s: %s", state.tp, error)
            if error.refresh_metadata:
                self._cluster.refresh_soon()
            self._retry_later(state)
        else:
            state.fail(error)
            self._delivery.wake(state)

    def _retry_later(self, state: PartitionState) -> None:
        delay_ms = self._cluster.backoff.delay_ms(1)
        state.retry_at_ms = self._cluster.clock.monotonic_ms() + int(delay_ms)
        asyncio.get_running_loop().call_later((delay_ms + 1) / 1000, self._retry, state)

    def _retry(self, state: PartitionState) -> None:
        state.retry_at_ms = 0
        if state in self._states:
            self.touch(state)
