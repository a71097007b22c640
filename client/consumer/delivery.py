"""Handing out what was fetched: which partition is next, who waits, and what the program has in hand.

What was handed out last is *in hand* until the program asks for more: it may be working on it. Auto-commit leaves it
out, so that what a crash interrupts is read again, and a rebalance waits a moment for it.

`left` is the heart of reading record by record: some records of one batch that are still to be handed out. Whoever has
it needs nothing else for most records; all bookkeeping is worked out from how far the iterator is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Final

from minikafka.client.clock import Clock
from minikafka.client.consumer.errors import CorruptBatch, LargeRecord
from minikafka.client.consumer.handed_out import HandedOut
from minikafka.client.consumer.pacing import Pacing
from minikafka.client.consumer.partition import PartitionState, Position
from minikafka.client.consumer.records import ConsumerBatch, ConsumerRecord, TakenRows
from minikafka.client.errors import IllegalState
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import KafkaError

RECORDS_AT_ONCE: Final = 5_000
"""How many records one call makes where the caller sets no limit: some milliseconds of work."""

ROWS_AT_ONCE: Final = 20_000
"""The same for columns, which cost a tenth of it."""


class Delivery:
    """See the module's description."""

    def __init__(self, on_read: Callable[[PartitionState, int], None], clock: Clock) -> None:
        self.left: Iterator[ConsumerRecord] = iter(())
        self.handed_out = HandedOut()
        self.polls = 0
        """Calls so far that did more than take the next record of a batch."""
        self.records_read = 0
        """Records of all batches that were begun."""
        self.on_poll: Callable[[], None] | None = None
        self.on_starving: Callable[[], None] | None = None
        self.starving: Collection[TopicPartition] | None = None
        """The partitions a call waits for while nothing of them is here, empty for any; None if no call waits."""
        self._on_read = on_read
        self._pacing = Pacing(clock)
        # What `left` is a slice of.
        self._rest: Iterator[ConsumerRecord] = iter(())
        self._ready: dict[PartitionState, None] = {}
        self._active: PartitionState | None = None
        self._in_hand: dict[PartitionState, Position] = {}
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._is_waiting = False
        self._is_hurried = False
        self._failure: KafkaError | None = None
        self._notices: list[KafkaError] = []
        self._idle = asyncio.Event()

    # ------------------------------------------------------------------------------------------- from inside

    def wake(self, state: PartitionState | None = None) -> None:
        """There may be something for whoever waits: data or an error of a partition, or another reason to look."""
        if state is not None and state.has_data:
            self._ready.setdefault(state)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def fail(self, error: KafkaError) -> None:
        """End all reading with an error, now and later."""
        self._failure = self._failure or error
        self._idle.set()
        self.release_active()
        self.wake()

    def notify(self, error: KafkaError) -> None:
        """Raise an error once, in the next call; reading can go on after it."""
        self._notices.append(error)
        self.release_active()
        self.wake()

    def release(self, state: PartitionState) -> None:
        """Hand out nothing more of a partition before it is chosen again; it was paused or is taken away."""
        if self._active is state:
            self.release_active()

    def release_active(self) -> None:
        active, self._active = self._active, None
        self.stop_short()
        if active is not None and active.run is not None and (last := active.run.before_last) is not None:
            self._in_hand[active] = last

    def stop_short(self) -> None:
        """Have the program ask for its next record, instead of taking it from `left`."""
        self.left = self._rest = iter(())

    def moved(self, state: PartitionState) -> None:
        """The position of a partition has jumped; what was in hand does not matter any more."""
        self.release(state)
        self._in_hand.pop(state, None)
        self._idle.set()

    def forget(self, state: PartitionState) -> None:
        """A partition is no longer ours."""
        self.moved(state)
        self._ready.pop(state, None)

    @property
    def is_waiting(self) -> bool:
        """Whether the program is inside a call, waiting for more."""
        return self._is_waiting

    @property
    def activity(self) -> tuple[int, int]:
        """Differs from one moment to another if the program took something in between."""
        run = self._active.run if self._active is not None else None
        return self.polls, -1 if run is None else run.position.offset

    def finished(self, state: PartitionState) -> Position:
        """The position before what is in hand."""
        if not self._is_waiting:
            if state in self._in_hand:
                return self._in_hand[state]
            last = state.run.before_last if state is self._active and state.run is not None else None
            if last is not None:
                return last
        return state.position

    def take_as_done(self) -> None:
        """The program is done with what it has in hand, though it will not ask for more."""
        self._in_hand.clear()
        self._idle.set()

    async def wait_nothing_in_hand(self, states: Collection[PartitionState]) -> None:
        """Wait until the program has asked for more after what it was given of these partitions, or never will."""
        self._is_hurried = False
        while not self._is_hurried and self._failure is None and self.has_in_hand(states):
            self._idle.clear()
            await self._idle.wait()

    def has_in_hand(self, states: Collection[PartitionState]) -> bool:
        """Whether the program works on records of some of these partitions."""
        return not self._is_waiting and any(self.finished(state) != state.position for state in states)

    def hurry(self) -> None:
        """Nobody is to wait for the program any longer."""
        self._is_hurried = True
        self._idle.set()

    # ------------------------------------------------------------------------------------------ from outside

    async def next_record(self, only: Collection[TopicPartition], timeout_s: float | None) -> ConsumerRecord | None:
        """The next record, None if none comes in time."""
        found: list[ConsumerRecord] = []
        # The batch is read to its end, whatever there is to do in between.
        unfinished = None if only else self._active

        def take() -> bool:
            for record in self._next_records(only, unfinished):
                found.append(record)
                return True
            return False

        await self._poll(take, only, timeout_s)
        return found[0] if found else None

    async def many_records(
        self, only: Collection[TopicPartition], timeout_s: float | None, limit: int | None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """What is there, of all partitions, as soon as there is something; nothing if the time is over."""
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        await self._poll(lambda: self._take_many(taken, only, limit), only, timeout_s)
        return taken

    async def batch(
        self, only: Collection[TopicPartition], timeout_s: float | None, limit: int | None
    ) -> ConsumerBatch | None:
        """What is there of one partition, as columns; None if the time is over."""
        found: list[ConsumerBatch] = []

        def take() -> bool:
            batch = self._take_batch(only, limit)
            if batch is not None:
                found.append(batch)
            return batch is not None

        await self._poll(take, only, timeout_s)
        return found[0] if found else None

    async def wait_change(self) -> None:
        """Wait for the next `wake`; for calls that wait for something else than records.

        Raises what has ended all reading: there will be no further `wake`."""
        if self._failure is not None:
            raise _copy_of(self._failure)
        await self._wait()

    # ------------------------------------------------------------------------------------------------ inside

    async def _poll(self, take: Callable[[], bool], only: Collection[TopicPartition], timeout_s: float | None) -> None:
        """Try until something was taken or the time is over. Nothing is taken before the last wait, so that a call
        that is cancelled loses nothing."""
        if self._is_waiting:
            raise IllegalState("another call of this consumer is waiting for records")
        self._begin()
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        timer = None
        try:
            loop_ran = self._pacing.is_due and await self._pacing.let_loop_run()
            while not self._checked(take):
                if deadline is not None and loop.time() >= deadline:
                    if loop_ran:
                        return
                    # Or calls that do not wait would keep what they look for from coming.
                    loop_ran = await self._pacing.let_loop_run()
                    continue
                if deadline is not None and timer is None:
                    timer = loop.call_at(deadline, self.wake)
                self._starve(only)
                await self._wait()
        finally:
            self._is_waiting = False
            self.starving = None
            if timer is not None:
                timer.cancel()

    def _begin(self) -> None:
        self.polls += 1
        self._is_waiting = True
        self._active = None
        self.stop_short()
        self._in_hand.clear()
        self.handed_out.ask()
        self._idle.set()
        if self.on_poll is not None:
            self.on_poll()

    def more(self) -> Iterator[ConsumerRecord]:
        """The next slice of the batch; nothing at its end, or if it is time for the loop to run."""
        self.left = self._pacing.cut(self._rest)
        return self.left

    def _starve(self, only: Collection[TopicPartition]) -> None:
        if self.starving is None:
            self.starving = only
            if self.on_starving is not None:
                self.on_starving()

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)
            self._pacing.loop_ran()

    def _checked(self, take: Callable[[], bool]) -> bool:
        if self._failure is not None:
            raise _copy_of(self._failure)
        if self._notices:
            raise self._notices.pop(0)
        return take()

    def _pick(self, only: Collection[TopicPartition]) -> PartitionState | None:
        """The partition whose turn it is; it goes to the end of the row."""
        for state in self._ready:
            if state.can_be_read and (not only or state.tp in only):
                break
        else:
            return None
        del self._ready[state]
        if not state.has_batches and state.error is not None:
            raise self._error_of(state)
        self._ready[state] = None
        return state

    def _error_of(self, state: PartitionState) -> KafkaError:
        error = state.error
        assert error is not None
        if isinstance(error, CorruptBatch):
            state.error = None
        else:
            self._ready[state] = None
        self._on_read(state, 0)
        return _copy_of(error)

    def _next_records(
        self, only: Collection[TopicPartition], unfinished: PartitionState | None
    ) -> Iterator[ConsumerRecord]:
        """The rest of a batch, which becomes the active one."""
        state = unfinished if unfinished is not None and self._is_unfinished(unfinished) else self._pick(only)
        while state is not None:
            records = self._records_of(state)
            if records is not None:
                self._active = state
                self.handed_out.open(state)
                # Only what may be handed out whoever asks can be had without asking.
                if not only:
                    self._rest = records
                    self.left = self._pacing.cut(records, is_first=True)
                return records
            state = self._pick(only)
        return iter(())

    def _is_unfinished(self, state: PartitionState) -> bool:
        """Whether a batch was begun, record by record, and is still to be read."""
        run = state.run
        return (
            state in self._ready and state.can_be_read and run is not None and run.left is not None and not run.is_over
        )

    def _records_of(self, state: PartitionState) -> Iterator[ConsumerRecord] | None:
        """What is left of the partition's next batch; None if there is none."""
        before = state.buffered_bytes
        records = None
        try:
            run = state.next_run()
            if run is not None:
                is_new = run.left is None
                records = state.records_of(run)
                self.records_read += len(run.records) if is_new else 0
        finally:
            if not state.has_data:
                self._ready.pop(state, None)
            self._on_read(state, before - state.buffered_bytes)
        return None if run is None or run.is_over else records

    def _take_many(
        self, taken: dict[TopicPartition, list[ConsumerRecord]], only: Collection[TopicPartition], limit: int | None
    ) -> bool:
        count = 0
        while (limit is None and count < RECORDS_AT_ONCE) or (limit is not None and count < limit):
            try:
                state = self._pick(only)
                if state is None:
                    break
                start = state.position
                records = self._records_of(state)
            except KafkaError:
                # What was taken is handed out first. The reason is still there, so the next call has the error.
                if taken:
                    break
                raise
            if records is not None:
                self._in_hand.setdefault(state, start)
                self.handed_out.open(state)
                part = [*records] if limit is None else [*islice(records, limit - count)]
                taken.setdefault(state.tp, []).extend(part)
                count += len(part)
        return bool(taken)

    def _take_batch(self, only: Collection[TopicPartition], limit: int | None) -> ConsumerBatch | None:
        while (state := self._pick(only)) is not None:
            start = state.position
            parts, before = TakenRows(ROWS_AT_ONCE if limit is None else limit, limit), state.buffered_bytes
            try:
                while not parts.is_full and (run := state.next_run()) is not None:
                    run.skip_to(parts.add(state.rows_of(run)))
            except (CorruptBatch, LargeRecord):
                if not parts.rows:
                    raise
            finally:
                if not state.has_data:
                    self._ready.pop(state, None)
                self._on_read(state, before - state.buffered_bytes)
            if parts.count:
                self._in_hand[state] = start
                self.handed_out.open(state)
                self.records_read += parts.count
                return ConsumerBatch(state.tp, parts.rows, state.position.offset)
        return None


def _copy_of(error: KafkaError) -> KafkaError:
    """Each raise adds to the traceback of an exception, so one that is raised many times must not be shared."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
