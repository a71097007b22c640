"""The life of a log up to the moment when the power goes or the disk fails, and what must be left of it then."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import ControlType, build_marker
from minikafka.storage.log import Log
from minikafka.storage.producers import Origin
from minikafka.storage.trimming import end_after_cut, truncate_fully, truncate_to
from tests.sim.memory_disk import MemoryDisk
from tests.storage.log_model import LogModel, Stored, stored
from tests.storage.logs import NOW_MS, SMALL, batch_of, batches_from, drop_below, open_log, record_at

DIRECTORY = "orders-0"
PRODUCERS = (7, 8)


class Life:
    """Random steps on a log; `model` is what it must hold, `versions` what it may hold after a crash."""

    def __init__(self, disk: MemoryDisk, rng: Random) -> None:
        self.disk = disk
        self.rng = rng
        self.model = LogModel()
        self.versions: list[list[Stored]] = [self.model.batches]
        """While batches are being written or cut off, with and without them."""
        self.log_starts = [0]
        self.promised = 0
        """What is below this offset must be there."""
        self.epoch = 0
        self.value = 0
        disk.mkdir(DIRECTORY)
        disk.settle()
        self.log = self.opened(disk)

    def opened(self, disk: MemoryDisk, *, is_clean: bool = False) -> Log:
        log = open_log(
            disk,
            DIRECTORY,
            SMALL,
            is_clean=is_clean,
            recovery_point=self.model.recovery_point,
            log_start_offset=self.model.log_start_offset,
        )
        log.update_high_watermark(self.model.high_watermark)
        return log

    def run(self, steps: int) -> None:
        kinds: list[tuple[Callable[[], None], int]] = [
            (self.append, 30),
            (self.append_in_txn, 12),
            (self.end_txn, 6),
            (self.follow, 6),
            (self.flush, 12),
            (self.truncate, 4),
            (self.start_over, 1),
            (self.advance, 4),
            (self.roll, 4),
            (self.start_epoch, 4),
            (self.restart, 2),
        ]
        for step in self.rng.choices([step for step, _ in kinds], [weight for _, weight in kinds], k=steps):
            step()
            self.promised = self.model.recovery_point
            self.versions = [self.model.batches]
            self.log_starts = [self.model.log_start_offset]

    # ---------------------------------------------------------------------------------- steps

    def write(self, batches: list[BatchView], write: Callable[[], object]) -> None:
        """Call `write`, which has to put the batches at the end of the log."""
        end, made = self.model.log_end_offset, []
        for batch in batches:
            batch.patch(end, self.epoch)
            made.append(stored(bytes(batch.data)))
            end = batch.next_offset
        self.versions = [self.model.batches, self.model.batches + made]
        write()
        for each in made:
            self.model.append(each)

    def append_as_leader(self, batch: BatchView, origin: Origin = Origin.CLIENT) -> None:
        def write() -> None:
            sent = BatchView(bytearray(batch.data))
            sent.patch(0, -1)
            verification = None
            if batch.is_transactional and origin is Origin.CLIENT:
                verification = self.log.producers.begin_verification(
                    batch.producer_id, batch.producer_epoch, batch.base_sequence, NOW_MS
                )
            self.log.append_as_leader(sent, self.epoch, NOW_MS, origin, verification)

        self.write([batch], write)

    def values(self) -> list[bytes]:
        made = []
        for _ in range(self.rng.randint(1, 3)):
            self.value += 1
            made.append(b"%d" % self.value + bytes(self.rng.choice((0, 10, 200, 480))))
        return made if sum(map(len, made)) < 1000 else made[:1]

    def stamp(self) -> int:
        return NOW_MS + self.rng.randint(-50, 50)

    def append(self) -> None:
        self.append_as_leader(batch_of(*self.values(), timestamp_ms=self.stamp()))

    def append_in_txn(self) -> None:
        producer_id = self.rng.choice(PRODUCERS)
        known = self.model.batches_of(producer_id)
        sequence = known[-1].base_sequence + len(known[-1].timestamps) if known else 0
        state = self.log.producers.get(producer_id)
        # What was cut off at either end is forgotten, or not.
        expected = sequence if state is None else state.last_sequence + 1
        batch = batch_of(
            *self.values(),
            timestamp_ms=NOW_MS,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=expected,
            is_transactional=True,
        )
        self.append_as_leader(batch)

    def end_txn(self) -> None:
        marker = build_marker(
            self.rng.choice((ControlType.ABORT, ControlType.COMMIT)),
            producer_id=self.rng.choice(PRODUCERS),
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=NOW_MS,
        )
        self.append_as_leader(BatchView(marker), Origin.COORDINATOR)

    def follow(self) -> None:
        batches = [batch_of(b"%d" % number, timestamp_ms=self.stamp()) for number in range(self.rng.randint(1, 8))]
        self.write(
            batches,
            lambda: self.log.append_as_follower(bytearray().join(bytes(batch.data) for batch in batches), NOW_MS),
        )

    def flush(self) -> None:
        plan = self.log.prepare_flush()
        if plan is not None:
            if self.rng.random() < 0.3:
                self.append()
            plan.run()
            self.log.complete_flush(plan)
            self.model.recovery_point = self.promised = self.log.recovery_point

    def truncate(self) -> None:
        start = max(self.model.log_start_offset, self.log.segments.first.base_offset)
        offset = self.rng.randint(start, self.model.log_end_offset)
        # As whoever keeps the recovery point must do.
        self.model.recovery_point = min(self.model.recovery_point, end_after_cut(self.log, offset))
        self.promised = self.model.recovery_point
        before = self.model.batches
        self.model.truncate(offset)
        self.versions = [before, self.model.batches]
        truncate_to(self.log, offset, NOW_MS)
        assert self.log.log_end_offset == self.model.log_end_offset
        if self.model.batches:
            self.epoch = self.rng.choice((self.epoch + 1, self.model.batches[-1].leader_epoch))

    def start_over(self) -> None:
        offset = self.model.log_end_offset + self.rng.randint(0, 9)
        before = self.model.batches
        self.log_starts.append(offset)
        self.model.start_over(offset)
        self.versions = [before, []]
        self.promised = 0
        truncate_fully(self.log, offset)

    def advance(self) -> None:
        self.replicate()
        offset = self.rng.randint(self.model.log_start_offset, self.log.last_stable_offset)
        self.log_starts.append(offset)
        self.model.advance(offset)
        drop_below(self.log, offset)

    def replicate(self) -> None:
        self.model.high_watermark = self.rng.randint(self.model.high_watermark, self.model.log_end_offset)
        self.log.update_high_watermark(self.model.high_watermark)

    def roll(self) -> None:
        self.log.roll()

    def start_epoch(self) -> None:
        self.epoch += 1
        self.log.start_epoch(self.epoch)
        self.log.write_epochs()

    def restart(self) -> None:
        is_clean = self.rng.random() < 0.5
        if is_clean:
            self.log.close()
            self.model.recovery_point = self.model.log_end_offset
        self.disk.process_died()
        self.log = self.opened(self.disk, is_clean=is_clean)

    # ---------------------------------------------------------------------------------- looking at what is left

    def check(self, log: Log) -> None:
        """Whether a log is one that this life may have left behind."""
        found = [stored(bytes(batch.data)) for batch in batches_from(log, log.log_start_offset)]
        assert log.log_end_offset >= self.promised
        start = max(*self.log_starts, log.log_start_offset)
        kept = [batch for batch in found if batch.last_offset >= start]
        possible = [[batch for batch in version if batch.last_offset >= start] for version in self.versions]
        assert any(version[: len(kept)] == kept for version in possible), "batches of different times"
        end = max([start, *(batch.last_offset + 1 for batch in kept)])
        assert log.log_end_offset == end or log.log_end_offset <= start
        if not log.is_failed:
            self.check_derived(log, kept)

    def check_nothing_is_lost(self, log: Log) -> None:
        """A disk that failed has what was written to it: all of it, but for what was being written or cut off."""
        start = max(*self.log_starts, log.log_start_offset)
        found = [batch for batch in batches_from(log, log.log_start_offset) if batch.last_offset >= start]
        shortest = min(self.versions, key=len)
        assert len(found) >= len([batch for batch in shortest if batch.last_offset >= start])

    def check_derived(self, log: Log, batches: list[Stored]) -> None:
        """Whatever can be told from the batches is told so."""
        for batch in batches:
            assert log.epochs.epoch_for_offset(max(batch.base_offset, log.log_start_offset)) == batch.leader_epoch
        model = LogModel(batches, log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset)
        for timestamp in (NOW_MS - 50, NOW_MS, NOW_MS + 20, NOW_MS + 50):
            if batches and batches[0].base_offset <= max(log.log_start_offset, *self.log_starts):
                found = record_at(log, timestamp)
                expected = model.at_time(timestamp)
                assert found == expected or (found is not None and found.offset < max(self.log_starts))


def check_bytes(log: Log) -> None:
    """All batches that a reader gets are whole and follow one another."""
    next_offset = None
    for batch in batches_from(log, log.log_start_offset):
        try:
            batch.check_crc()
        except CorruptRecord as error:
            raise AssertionError(str(error)) from error
        assert next_offset in (None, batch.base_offset)
        next_offset = batch.next_offset


def check_goes_on(log: Log) -> None:
    """It takes batches, and has them."""
    end = log.log_end_offset
    latest = log.epochs.latest_epoch or 0
    for number in range(12):
        appended = log.append_as_leader(batch_of(b"after %d" % number), latest + 1, NOW_MS)
        assert appended.base_offset == end + number
    assert [batch.base_offset for batch in batches_from(log, end)] == [*range(end, end + 12)]
