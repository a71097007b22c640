"""A log does what a plain list of batches does, whatever happens to it.

`MODEL_RUNS=2000 pytest tests/storage/test_log_model.py --timeout=0` goes through so many sequences of steps.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikafka.protocol.errors import InvalidTxnStateError, OffsetOutOfRangeError, OutOfOrderSequenceNumberError
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.builder import BatchBuilder
from minikafka.protocol.records.control import ControlType, build_marker
from minikafka.storage.flushing import FlushPlan
from minikafka.storage.log import Log
from minikafka.storage.producers import Origin
from minikafka.storage.reading import ReadPlan
from minikafka.storage.trimming import truncate_fully, truncate_to
from tests.sim.memory_disk import MemoryDisk
from tests.storage.log_model import LogModel, Stored, stored
from tests.storage.logs import NOW_MS, SMALL, batches_from, drop_below, open_log, record_at

RUNS = int(os.environ.get("MODEL_RUNS", "70"))
DIRECTORY = "orders-0"
REMEMBERED = 5

# Out of order, equal, missing, far away.
stamps = st.sampled_from([-1, 0, 5, NOW_MS - 10**11, 2**62]) | st.integers(NOW_MS - 20, NOW_MS + 20)
sizes = st.lists(st.sampled_from([0, 3, 40, 300]), min_size=1, max_size=3)
parts = st.floats(0, 1)


class Held(NamedTuple):
    """A read that was planned some time ago, and what it has to return."""

    plan: ReadPlan
    generation: int
    expected: bytes


class LogMachine(RuleBasedStateMachine):
    """Steps on a log and on the list; after each of them the two are compared."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.model = LogModel()
        self.log = self.opened(is_clean=False)
        self.epoch = 0
        self.next_producer_id = 100
        self.producer_ids = [self.new_producer_id() for _ in range(3)]
        self.value = 0
        self.held: Held | None = None
        self.flushing: FlushPlan | None = None

    def opened(self, *, is_clean: bool) -> Log:
        log = open_log(
            self.disk,
            DIRECTORY,
            SMALL,
            is_clean=is_clean,
            recovery_point=self.model.recovery_point,
            log_start_offset=self.model.log_start_offset,
        )
        log.update_high_watermark(self.model.high_watermark)
        return log

    def new_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id

    # ---------------------------------------------------------------------------------- writing

    def build(self, value_sizes: list[int], timestamps: list[int], **fields: int | bool) -> bytearray:
        builder = BatchBuilder()
        for number, size in enumerate(value_sizes):
            self.value += 1
            value = b"%d" % self.value + bytes(size)
            builder.append(timestamps[number % len(timestamps)], b"key", value)
        return builder.build(**fields)  # type: ignore[arg-type]

    def append(self, data: bytearray, origin: Origin = Origin.CLIENT, *, as_follower: bool = False) -> None:
        batch = BatchView(data)
        base = self.model.log_end_offset
        if as_follower:
            batch.patch(base, self.epoch)
            # What does not fit into an answer is cut off in the middle.
            appended = self.log.append_as_follower(bytearray(data) + data[: len(data) // 2], NOW_MS)
            assert appended is not None
        else:
            verification = None
            if batch.is_transactional and origin is Origin.CLIENT:
                verification = self.log.producers.begin_verification(
                    batch.producer_id, batch.producer_epoch, batch.base_sequence, NOW_MS
                )
            appended = self.log.append_as_leader(batch, self.epoch, NOW_MS, origin, verification)
        assert (appended.base_offset, appended.is_duplicate) == (base, False)
        self.model.append(stored(bytes(data)))
        assert appended.last_offset == self.model.log_end_offset - 1

    @initialize(kinds=st.lists(st.integers(0, 6), max_size=30))
    def fill(self, kinds: list[int]) -> None:
        """Most sequences are short: let them begin with something."""
        self.write_many(kinds)

    def write_many(self, kinds: list[int]) -> None:
        for number, kind in enumerate(kinds):
            if kind < 2:
                self.append_plain([kind * 200], [NOW_MS + number * 7 % 11], as_follower=kind == 0)
            elif kind < 5:
                self.append_idempotent(kind - 2, [30, 30], is_transactional=number % 3 > 0, as_follower=False)
            elif kind == 5:
                self.end_transaction(number % 3, ControlType(number % 2), as_follower=False)
            else:
                self.new_epoch(is_announced=number % 2 == 0)

    @rule(kinds=st.lists(st.integers(0, 6), min_size=1, max_size=12))
    def fill_more(self, kinds: list[int]) -> None:
        self.write_many(kinds)

    @rule(value_sizes=sizes, timestamps=st.lists(stamps, min_size=1, max_size=3), as_follower=st.booleans())
    def append_plain(self, value_sizes: list[int], timestamps: list[int], as_follower: bool) -> None:
        self.append(self.build(value_sizes, timestamps), as_follower=as_follower)

    @rule(count=st.integers(2, 12), stamp=stamps)
    def append_many_as_follower(self, count: int, stamp: int) -> None:
        records = bytearray()
        for _ in range(count):
            data = self.build([20], [stamp])
            BatchView(data).patch(self.model.log_end_offset, self.epoch)
            self.model.append(stored(bytes(data)))
            records += data
        self.log.append_as_follower(records, NOW_MS)

    @rule(which=st.integers(0, 2), value_sizes=sizes, is_transactional=st.booleans(), as_follower=st.booleans())
    def append_idempotent(self, which: int, value_sizes: list[int], is_transactional: bool, as_follower: bool) -> None:
        producer_id = self.usable_producer(which)
        known = self.model.batches_of(producer_id)
        is_transactional = is_transactional or self.model.has_open_txn(producer_id)
        data = self.build(
            value_sizes,
            [NOW_MS + self.value % 3],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=known[-1].base_sequence + len(known[-1].timestamps) if known else 0,
            is_transactional=is_transactional,
        )
        self.append(data, as_follower=as_follower)

    def usable_producer(self, which: int) -> int:
        """One of the producers; a new one in its place if the log may have forgotten what it has sent."""
        producer_id = self.producer_ids[which]
        known = self.model.batches_of(producer_id)
        if known and known[-1].base_offset < self.model.log_start_offset and not self.model.has_open_txn(producer_id):
            producer_id = self.producer_ids[which] = self.new_producer_id()
        return producer_id

    @rule(which=st.integers(0, 2), control_type=st.sampled_from(ControlType), as_follower=st.booleans())
    def end_transaction(self, which: int, control_type: ControlType, as_follower: bool) -> None:
        marker = build_marker(
            control_type,
            producer_id=self.producer_ids[which],
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=NOW_MS,
        )
        self.append(marker, Origin.COORDINATOR, as_follower=as_follower)

    @rule(which=st.integers(0, 2), back=st.integers(1, 7))
    def send_again(self, which: int, back: int) -> None:
        """The last five batches are recognised, after a restart maybe only the last; none is written again."""
        known = self.model.batches_of(self.producer_ids[which])
        if len(known) < back or known[-1].base_offset < self.model.log_start_offset:
            return
        again = known[-back]
        batch = BatchView(bytearray(again.data))
        batch.patch(0, -1)
        is_sure = back == 1 or (back <= REMEMBERED and again.base_offset >= self.model.rebuilt_at)
        try:
            appended = self.log.append_as_leader(batch, self.epoch, NOW_MS)
        except (OutOfOrderSequenceNumberError, InvalidTxnStateError):
            assert not is_sure
        else:
            assert appended.is_duplicate
            assert (appended.base_offset, appended.last_offset) == (again.base_offset, again.last_offset)

    @rule(is_announced=st.booleans())
    def new_epoch(self, is_announced: bool) -> None:
        self.epoch += 1
        if is_announced:
            self.log.start_epoch(self.epoch)
            self.model.start_epoch(self.epoch)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    # ---------------------------------------------------------------------------------- cutting

    @rule(part=parts, is_epoch_kept=st.booleans())
    def truncate(self, part: float, is_epoch_kept: bool) -> None:
        start = max(self.model.log_start_offset, self.log.segments.first.base_offset)
        offset = start + round((self.model.log_end_offset - start) * part)
        was_cut = offset < self.model.log_end_offset
        assert truncate_to(self.log, offset, NOW_MS) == was_cut
        self.model.truncate(offset)
        if not is_epoch_kept and self.model.batches:
            # From now on the log is a follower's that gets older batches than it had.
            self.epoch = self.model.batches[-1].leader_epoch
        self.renew_producers()

    def renew_producers(self) -> None:
        """Of those whose batches were cut off, the log may know less than before."""
        for which, producer_id in enumerate(self.producer_ids):
            if not self.model.batches_of(producer_id):
                self.producer_ids[which] = self.new_producer_id()

    @precondition(lambda self: len(self.model.batches) % 5 == 3)
    @rule(ahead=st.integers(0, 50))
    def start_over(self, ahead: int) -> None:
        offset = self.model.log_end_offset + ahead
        truncate_fully(self.log, offset)
        self.model.start_over(offset)
        self.renew_producers()

    @rule(part=parts)
    def advance(self, part: float) -> None:
        start = self.model.log_start_offset
        # Where transactions are open, what comes before them may go.
        offset = start + round((self.model.last_stable_offset() - start) * part)
        expired = drop_below(self.log, offset)
        self.model.advance(offset)
        assert all(segment not in list(self.log.segments) for segment in expired)

    @rule(part=parts)
    def replicate(self, part: float) -> None:
        model = self.model
        model.high_watermark += round((model.log_end_offset - model.high_watermark) * part)
        self.log.update_high_watermark(model.high_watermark)

    @rule()
    def unlink_retired(self) -> None:
        self.held = None
        self.flushing = None
        for segment in self.log.retired:
            segment.unlink_deleted()
        self.log.retired = []
        assert not [name for name in self.disk.list(DIRECTORY) if name.endswith(".deleted")]

    # ---------------------------------------------------------------------------------- flushing, stopping

    @rule()
    def flush(self) -> None:
        self.begin_flush()
        self.complete_flush()

    @precondition(lambda self: self.flushing is None)
    @rule()
    def begin_flush(self) -> None:
        if self.flushing is None:
            self.flushing = self.log.prepare_flush()

    @precondition(lambda self: self.flushing is not None)
    @rule()
    def complete_flush(self) -> None:
        plan, self.flushing = self.flushing, None
        if plan is not None:
            plan.run()
            self.log.complete_flush(plan)
            self.model.recovery_point = self.log.recovery_point
            assert plan.generation != self.log.generation or self.log.recovery_point == plan.offset

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        if is_clean:
            self.log.close()
        self.disk.process_died()
        self.held = self.flushing = None
        self.log = self.opened(is_clean=is_clean)
        self.model.restart()
        if self.model.log_start_offset == self.model.log_end_offset:
            # All are gone but the name of the latest, if that is still in a file or in a batch.
            self.model.epochs = self.log.epochs.entries()
            assert [start for _, start in self.model.epochs] in ([], [self.model.log_end_offset])

    # ---------------------------------------------------------------------------------- reading

    @rule(at=parts, to=parts, max_bytes=st.sampled_from([0, 1, 61, 100, 250, 700, 5000]), is_nowait=st.booleans())
    def read(self, at: float, to: float, max_bytes: int, is_nowait: bool) -> None:
        start, end = self.model.log_start_offset, self.model.log_end_offset
        offset, bound = start + round((end - start) * at), start + round((end - start + 1) * to)
        plan = self.log.plan_read(offset, max_bytes, bound)
        self.check_read(plan, bytes(plan.run_nowait() if is_nowait else plan.run()), self.model.readable(offset, bound))

    def check_read(self, plan: ReadPlan, found: bytes, expected: bytes) -> None:
        assert expected.startswith(found)
        first = BatchView(expected).size if expected else 0
        assert bool(found) == bool(expected)
        assert not found or first <= len(found) <= max(first, plan.max_bytes, 61)

    @rule(at=parts)
    def plan_read(self, at: float) -> None:
        start, end = self.model.log_start_offset, self.model.log_end_offset
        offset = start + round((end - start) * at)
        plan = self.log.plan_read(offset, 300, end)
        self.held = Held(plan, self.log.generation, self.model.readable(offset, end))

    @precondition(lambda self: self.held is not None)
    @rule()
    def run_planned_read(self) -> None:
        held, self.held = self.held, None
        if held is not None and held.generation == self.log.generation:
            self.check_read(held.plan, bytes(held.plan.run()), held.expected)

    @rule(timestamp=stamps.filter(lambda stamp: stamp >= 0))
    def find_by_time(self, timestamp: int) -> None:
        assert record_at(self.log, timestamp) == self.model.at_time(timestamp)

    @rule()
    def find_largest_time(self) -> None:
        plan = self.log.plan_largest_timestamp()
        assert (None if plan is None else plan.run()) == self.model.largest()

    @rule(beyond=st.integers(1, 3))
    def read_out_of_range(self, beyond: int) -> None:
        for offset in (self.model.log_start_offset - beyond, self.model.log_end_offset + beyond):
            try:
                self.log.plan_read(offset, 100, self.model.log_end_offset)
            except OffsetOutOfRangeError:
                continue
            raise AssertionError(f"offset {offset} can be read")

    # ---------------------------------------------------------------------------------- what always holds

    @invariant()
    def has_the_same_offsets_and_epochs(self) -> None:
        log, model = self.log, self.model
        assert (log.log_start_offset, log.log_end_offset) == (model.log_start_offset, model.log_end_offset)
        assert log.high_watermark == model.high_watermark
        # Files do not tell of markers that are not replicated.
        latest = model.last_stable_offset(sure_from=model.rebuilt_at)
        assert model.last_stable_offset() <= log.last_stable_offset <= latest
        assert log.epochs.entries() == model.epochs
        assert log.segments.active.size == self.disk.size(log.segments.active.path(".log"))

    @invariant()
    def has_the_same_batches(self) -> None:
        start = self.model.log_start_offset
        found: list[Stored] = [stored(bytes(batch.data)) for batch in batches_from(self.log, start)]
        assert found == [batch for batch in self.model.batches if batch.last_offset >= start]

    @invariant()
    def has_the_same_aborted_transactions(self) -> None:
        """As a consumer sees it: from the first offset on, the producer's records are skipped up to the marker."""
        start, end = self.model.log_start_offset, self.model.last_stable_offset()
        skipped: dict[int, set[int]] = {}
        for txn in self.log.aborted_transactions(start, end):
            offsets = range(max(start, txn.first_offset), min(end, txn.last_offset))
            skipped.setdefault(txn.producer_id, set()).update(offsets)
        aborted = self.model.aborted_offsets()
        for batch in self.model.batches:
            offsets = range(max(start, batch.base_offset), min(end, batch.last_offset + 1))
            if batch.producer_id >= 0 and batch.marker is None:
                expected = aborted.get(batch.producer_id, set()).intersection(offsets)
                assert skipped.get(batch.producer_id, set()).intersection(offsets) == expected


LogMachine.TestCase.settings = settings(
    max_examples=RUNS,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # To reuse and to explain failures takes longer than the test may.
    phases=[Phase.generate, Phase.shrink],
    print_blob=True,
)
TestLog = LogMachine.TestCase
# A sequence that fails is made short first, and that takes a while.
TestLog.pytestmark = pytest.mark.timeout(600)  # type: ignore[attr-defined]
