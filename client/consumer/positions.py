"""Finding out where to read: committed offsets, resets, and whether a log still has what was read.

A task of its own, which looks whenever a partition needs something (see `partition`), asks for all of them at once, and
tries again after a while what did not work. What cannot work is handed to the program where it reads the partition.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from minikafka.client.cluster import Cluster
from minikafka.client.consumer.config import ConsumerConfig
from minikafka.client.consumer.errors import LogTruncated, NoOffsetForPartition, OffsetOutOfRange
from minikafka.client.consumer.offsets import TOPIC_WAIT_MS, ask_epoch_ends, ask_offsets
from minikafka.client.consumer.partition import EARLIEST, LATEST, NO_OFFSET, Needs, PartitionState, Position
from minikafka.client.structs import OffsetAndMetadata, TopicPartition
from minikafka.protocol.errors import KafkaError, UnknownTopicOrPartitionError

log: Final = logging.getLogger(__name__)

RESETS: Final[dict[str, int | None]] = {"earliest": EARLIEST, "latest": LATEST, "none": None}

FetchCommitted = Callable[[Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, OffsetAndMetadata]]]


class Positions:
    """See the module's description."""

    def __init__(
        self, cluster: Cluster, config: ConsumerConfig, changed: Callable[[PartitionState, int], None]
    ) -> None:
        self._cluster = cluster
        self._config = config
        # Called with a partition whose position or error is new, and with what was fetched of it in vain.
        self._changed = changed
        self._reset_to = RESETS[config.auto_offset_reset]
        self._states: dict[PartitionState, None] = {}
        self._unknown_since_ms: dict[PartitionState, int] = {}
        self._woken = asyncio.Event()

    def add(self, states: Collection[PartitionState]) -> None:
        self._states.update(dict.fromkeys(states))
        self.wake()

    def remove(self, states: Collection[PartitionState]) -> None:
        for state in states:
            self._states.pop(state, None)
            self._unknown_since_ms.pop(state, None)

    def wake(self) -> None:
        self._woken.set()

    async def run(self, fetch_committed: FetchCommitted | None) -> None:
        """Find out what is needed, until cancelled. Without a group nothing is committed."""
        failures = 0
        while True:
            self._woken.clear()
            try:
                done = await self._look(fetch_committed)
            except KafkaError as error:
                if not error.retriable:
                    self._fail_all(error)
                log.debug("looking for positions: %s", error)
                done = False
            if done:
                failures = 0
                await self._woken.wait()
            else:
                failures += 1
                await self._pause(failures)

    async def _pause(self, failures: int) -> None:
        """Before trying again, unless there is news: where partitions are led, or what else is to be found out."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._cluster.backoff.delay_s(failures)):
                await self._woken.wait()

    async def _look(self, fetch_committed: FetchCommitted | None) -> bool:
        """Ask for what is needed; False if something is left to be tried again."""
        if committed := self._in_need(Needs.COMMITTED):
            if fetch_committed is None:
                for state in committed:
                    self._begin_reset(state)
            else:
                await self._find_committed(committed, fetch_committed)
        return await self._find_resets() & await self._validate()

    def _in_need(self, needs: Needs) -> list[PartitionState]:
        return [state for state in self._states if state.needs is needs and state.error is None]

    def _fail_all(self, error: KafkaError) -> None:
        for state in self._in_need(Needs.COMMITTED):
            state.fail(error)
            self._changed(state, 0)

    # -------------------------------------------------------------------------------------------- committed

    async def _find_committed(self, states: list[PartitionState], fetch_committed: FetchCommitted) -> None:
        versions = {state: state.version for state in states}
        found = await fetch_committed([state.tp for state in states])
        for state, version in versions.items():
            if state.version != version or state not in self._states:
                continue
            offset = found.get(state.tp)
            if offset is None or offset.offset <= state.former_offset:
                self._begin_reset(state)
            else:
                self._go_to(state, Position(offset.offset, offset.leader_epoch))

    def _begin_reset(self, state: PartitionState) -> None:
        if self._reset_to is not None:
            state.needs, state.reset_to = Needs.RESET, self._reset_to
            return
        text = f"{state.tp.topic}-{state.tp.partition} has no committed offset, and auto_offset_reset is none"
        state.fail(NoOffsetForPartition(text, state.tp, NO_OFFSET))
        self._changed(state, 0)

    def _go_to(self, state: PartitionState, position: Position) -> None:
        freed = state.seek(position)
        # What was committed may have been lost since, if the leader is of a later epoch.
        state.leader_epoch = position.epoch
        state.lead_by(self._cluster.leader_epoch(*state.tp))
        self._changed(state, freed)

    # ---------------------------------------------------------------------------------------------- resets

    async def _find_resets(self) -> bool:
        states = {state.tp: (state, state.version) for state in self._in_need(Needs.RESET)}
        if not states:
            return True
        asked = {tp: state.reset_to for tp, (state, _) in states.items()}
        done = True
        for tp, answer in (await ask_offsets(self._cluster, asked, self._config.isolation)).items():
            state, version = states[tp]
            if state.version != version or state not in self._states:
                continue
            if isinstance(answer, KafkaError):
                done = self._take_error(state, answer) and done
                continue
            self._unknown_since_ms.pop(state, None)
            if answer.offset == NO_OFFSET:
                # Nothing is that late: go on with what comes.
                state.reset_to, done = LATEST, False
            else:
                log.debug("%s goes on at offset %d", tp, answer.offset)
                self._go_to(state, Position(answer.offset, answer.leader_epoch))
        return done

    def _take_error(self, state: PartitionState, error: KafkaError) -> bool:
        """Whether there is nothing left to try."""
        if error.refresh_metadata:
            self._cluster.refresh_soon()
        if error.retriable and not self._is_unknown_for_long(state, error):
            return False
        state.fail(error)
        self._changed(state, 0)
        return True

    def _is_unknown_for_long(self, state: PartitionState, error: KafkaError) -> bool:
        if not isinstance(error, UnknownTopicOrPartitionError):
            self._unknown_since_ms.pop(state, None)
            return False
        now_ms = self._cluster.clock.monotonic_ms()
        return now_ms - self._unknown_since_ms.setdefault(state, now_ms) >= TOPIC_WAIT_MS

    def out_of_range(self, state: PartitionState) -> None:
        """The log does not have the position of a partition."""
        where = f"offset {state.position.offset} of {state.tp.topic}-{state.tp.partition}"
        if self._reset_to is None:
            text = f"{where} is not in the log, and auto_offset_reset is none"
            state.fail(OffsetOutOfRange(text, state.tp, state.position.offset))
            self._changed(state, 0)
            return
        log.warning("%s is not in the log: going on with the %s", where, self._config.auto_offset_reset)
        self._changed(state, state.need(Needs.RESET, self._reset_to))
        self.wake()

    # ------------------------------------------------------------------------------------------- validation

    async def _validate(self) -> bool:
        states = {state.tp: (state, state.version, state.fetch_position) for state in self._in_need(Needs.VALIDATION)}
        if not states:
            return True
        asked = {tp: position.epoch for tp, (_, _, position) in states.items()}
        done = True
        for tp, answer in (await ask_epoch_ends(self._cluster, asked)).items():
            state, version, position = states[tp]
            if state.version != version or state.needs is not Needs.VALIDATION or state not in self._states:
                continue
            if isinstance(answer, KafkaError):
                done = self._take_error(state, answer) and done
                continue
            self._unknown_since_ms.pop(state, None)
            if state.fetch_position != position:
                # A fetch from the former leader was answered meanwhile. The end of an epoch is compared with the
                # position in that epoch only, so this one is asked about next.
                self.wake()
            elif answer.end_offset == NO_OFFSET or answer.end_offset >= position.offset:
                # A leader that knows nothing of the epoch can say nothing against it.
                state.needs = Needs.NOTHING
                self._changed(state, 0)
            else:
                self.diverged(state, answer.epoch, answer.end_offset)
        return done

    def diverged(self, state: PartitionState, epoch: int, end_offset: int) -> None:
        """The leader's log is another one from an offset on, which is less than what was fetched."""
        state.needs = Needs.NOTHING
        offset, own_epoch = state.position
        if end_offset >= offset:
            # Only what nobody has seen is gone.
            self._changed(state, state.seek(Position(offset, min(own_epoch, epoch))))
            return
        text = f"{state.tp.topic}-{state.tp.partition} was truncated to {end_offset}, and was read up to {offset}"
        if self._reset_to is None:
            state.fail(LogTruncated(text, state.tp, end_offset))
            self._changed(state, 0)
            return
        log.warning("%s: going on from there", text)
        self._changed(state, state.seek(Position(end_offset, epoch)))
