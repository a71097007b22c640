"""A partition's log on a real disk: appending, reading, cutting, and coming back after a stop or a crash."""

from pathlib import Path

import pytest

from minikafka.protocol.errors import OffsetOutOfRangeError
from minikafka.protocol.records.batch import read_whole_batches
from minikafka.protocol.records.control import ControlType
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import RealDisk
from minikafka.storage.errors import CorruptLog
from minikafka.storage.loading import LoadedState, load_log
from minikafka.storage.log import Log
from minikafka.storage.trimming import truncate_fully, truncate_to
from tests.storage.logs import (
    NOW_MS,
    SMALL,
    append,
    append_in_txn,
    batch_of,
    batches_from,
    contents,
    drop_below,
    end_txn,
    flush,
    open_log,
    read,
    record_at,
)


def filled(folder: str, count: int = 60, config: LogConfig = SMALL) -> Log:
    log = open_log(RealDisk(), folder, config)
    for number in range(count):
        append(log, *[b"%d-%d" % (number, each) for each in range(number % 4 + 1)], timestamp_ms=NOW_MS + number)
    return log


def expected(count: int = 60) -> list[tuple[int, bytes]]:
    values = [b"%d-%d" % (number, each) for number in range(count) for each in range(number % 4 + 1)]
    return list(enumerate(values))


def test_offsets_follow_one_another(folder: str) -> None:
    log = open_log(RealDisk(), folder)
    assert append(log, b"a", b"b")[:2] == (0, 1)
    assert append(log, b"c")[:2] == (2, 2)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 3, 0)
    assert contents(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_segments_roll_and_everything_is_read_back(folder: str) -> None:
    log = filled(folder)
    assert len(log.segments) > 3
    assert contents(log) == expected()


def test_reads_from_every_offset_to_every_bound(folder: str) -> None:
    log = filled(folder, 30)
    boundaries = sorted({batch.next_offset for batch in batches_from(log, 0)})
    for offset in range(log.log_end_offset):
        for bound in boundaries:
            batches, _ = read_whole_batches(read(log, offset, 1 << 20, bound))
            if offset >= bound:
                assert not batches
            else:
                assert batches[0].base_offset <= offset <= batches[0].last_offset
                assert batches[-1].last_offset < bound


def test_a_read_returns_one_whole_batch_however_small_the_limit(folder: str) -> None:
    log = open_log(RealDisk(), folder, LogConfig())
    append(log, bytes(100_000))
    append(log, b"small")
    for limit in (0, 1, 61, 5000):
        batches, used = read_whole_batches(read(log, 0, limit))
        assert [batch.base_offset for batch in batches] == [0]
        assert used > 100_000


def test_reads_respect_the_limit(folder: str) -> None:
    log = filled(folder)
    for offset in range(log.log_end_offset):
        assert len(read(log, offset, 300)) <= 300 or len(read_whole_batches(read(log, offset, 300))[0]) == 1


def test_offsets_out_of_range(folder: str) -> None:
    log = filled(folder)
    for offset in (-1, log.log_end_offset + 1):
        with pytest.raises(OffsetOutOfRangeError):
            log.plan_read(offset, 100, log.log_end_offset)
    assert read(log, log.log_end_offset) == b""


# --------------------------------------------------------------------------------------- coming back


def test_a_clean_stop(folder: str) -> None:
    log = filled(folder)
    flush(log)
    end = log.log_end_offset
    log.close()
    again = open_log(RealDisk(), folder, is_clean=True, recovery_point=end)
    assert contents(again) == expected()
    assert again.log_end_offset == end
    append(again, b"after")
    assert contents(again)[-1] == (end, b"after")


def test_a_crash_without_any_flush(folder: str) -> None:
    log = filled(folder)
    end = log.log_end_offset
    again = open_log(RealDisk(), folder)
    assert again.log_end_offset == end
    assert contents(again) == expected()


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"garbage" * 30, b"\x00" * 7 + b"\x50", b"\xff" * 70])
def test_a_bad_tail_is_cut_off(folder: str, tail: bytes) -> None:
    log = filled(folder)
    path = Path(log.segments.active.path(".log"))
    with path.open("ab") as file:
        file.write(tail)
    again = open_log(RealDisk(), folder)
    assert contents(again) == expected()
    assert path.stat().st_size == again.segments.active.size


def test_a_tail_torn_at_every_byte(folder: str) -> None:
    log = filled(folder, 8)
    path = Path(log.segments.active.path(".log"))
    whole = path.read_bytes()
    last = batches_from(log, 0)[-1]
    start = len(whole) - last.size
    for size in range(start, len(whole)):
        path.write_bytes(whole[:size])
        again = open_log(RealDisk(), folder)
        assert again.log_end_offset == last.base_offset
        again.close()
        for snapshot in Path(folder).glob("*.snapshot"):
            snapshot.unlink()


def test_segments_after_a_bad_one_go(folder: str) -> None:
    log = filled(folder)
    victims = list(log.segments)
    path = Path(victims[1].path(".log"))
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    again = open_log(RealDisk(), folder)
    assert again.log_end_offset < victims[2].base_offset
    assert contents(again) == expected()[: again.log_end_offset]
    assert not Path(victims[2].path(".log")).exists()


def test_a_bad_batch_below_the_recovery_point_is_not_cut_off(folder: str) -> None:
    log = filled(folder)
    flush(log)
    path = Path(log.segments.active.path(".log"))
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptLog, match="were on disk already"):
        open_log(RealDisk(), folder, recovery_point=log.recovery_point)
    assert path.read_bytes() == data


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("harm", ["missing", "empty", "torn", "noise", "zeros"])
def test_harmed_indexes_change_nothing(folder: str, suffix: str, harm: str) -> None:
    log = filled(folder)
    flush(log)
    log.close()
    for segment in list(log.segments)[:-1]:
        path = Path(segment.path(suffix))
        size = path.stat().st_size
        if harm == "missing":
            path.unlink()
        else:
            path.write_bytes({"empty": b"", "torn": bytes(5), "noise": b"\xa5" * size, "zeros": bytes(size)}[harm])
    again = open_log(RealDisk(), folder, is_clean=True, recovery_point=log.log_end_offset)
    for offset, value in expected():
        batch = read_whole_batches(read(again, offset, 1))[0][0]
        assert batch.base_offset <= offset <= batch.last_offset, value


# -------------------------------------------------------------------------------------------- cutting


def test_truncating_to_every_batch(folder: str, tmp_path: Path) -> None:
    for number, end in enumerate([0, 1, 3, 40, 75, 100, 149]):
        log = filled(str(tmp_path / f"t-{number}"))
        generation = log.generation
        assert truncate_to(log, end, NOW_MS)
        assert log.generation > generation
        assert log.log_end_offset <= end
        assert contents(log) == expected()[: log.log_end_offset]
        append(log, b"new", epoch=1)
        assert contents(log)[-1] == (log.log_end_offset - 1, b"new")
        recovered = open_log(RealDisk(), str(tmp_path / f"t-{number}"))
        assert contents(recovered) == contents(log)


def test_truncating_past_the_end_does_nothing(folder: str) -> None:
    log = filled(folder)
    assert not truncate_to(log, log.log_end_offset, NOW_MS)
    assert log.generation == 0


def test_a_reader_of_a_cut_segment_can_finish(folder: str) -> None:
    log = filled(folder)
    plan = log.plan_read(0, 10_000, log.log_end_offset)
    before = bytes(plan.run())
    truncate_to(log, 1, NOW_MS)
    assert bytes(plan.run()) == before


def test_starting_over(folder: str) -> None:
    log = filled(folder)
    truncate_fully(log, 1000)
    assert (log.log_start_offset, log.log_end_offset, contents(log)) == (1000, 1000, [])
    append(log, b"x")
    assert contents(log) == [(1000, b"x")]
    assert contents(open_log(RealDisk(), folder, log_start_offset=1000)) == [(1000, b"x")]


def test_moving_the_start(folder: str) -> None:
    log = filled(folder)
    expired = drop_below(log, 80)
    assert expired
    assert contents(log) == expected()[80:]
    with pytest.raises(OffsetOutOfRangeError):
        read(log, 79)
    assert not Path(expired[0].path(".log")).exists()
    for segment in log.retired:
        segment.unlink_deleted()
    assert not list(Path(folder).glob("*.deleted"))


# -------------------------------------------------------------------------------- producers, transactions


def test_a_repeated_batch_is_answered_with_its_first_offset(folder: str) -> None:
    log = open_log(RealDisk(), folder)
    append(log, b"other")

    def send() -> tuple[int, bool]:
        appended = log.append_as_leader(
            batch_of(b"x", b"y", producer_id=9, producer_epoch=0, base_sequence=0), 0, NOW_MS
        )
        return appended.base_offset, appended.is_duplicate

    assert send() == (1, False)
    assert send() == (1, True)
    log = open_log(RealDisk(), folder)
    assert send() == (1, True)
    assert log.log_end_offset == 3


def test_transactions_hold_the_last_stable_offset(folder: str) -> None:
    log = open_log(RealDisk(), folder)
    append(log, b"plain")
    append_in_txn(log, 5, 0, b"t1")
    append(log, b"plain")
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 1
    end_txn(log, 5, ControlType.ABORT)
    assert log.last_stable_offset == 1
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in aborted] == [(5, 1, 3)]


def test_aborted_transactions_survive_a_crash_and_a_lost_index(folder: str) -> None:
    log = open_log(RealDisk(), folder)
    for number in range(40):
        append_in_txn(log, number, 0, b"value %d" % number)
        end_txn(log, number, ControlType.ABORT if number % 3 else ControlType.COMMIT)
    before = log.aborted_transactions(0, log.log_end_offset)
    assert len(before) == 26
    again = open_log(RealDisk(), folder)
    assert again.aborted_transactions(0, again.log_end_offset) == before
    flush(again)
    again.close()
    Path(list(again.segments)[1].path(".txnindex")).write_bytes(b"\x01" * 34)
    third = open_log(RealDisk(), folder, is_clean=True, recovery_point=again.log_end_offset)
    assert third.aborted_transactions(0, third.log_end_offset) == before


def test_producers_are_rebuilt_after_a_cut(folder: str) -> None:
    log = open_log(RealDisk(), folder)
    append_in_txn(log, 5, 0, b"one")
    cut = log.log_end_offset
    append_in_txn(log, 5, 1, b"two")
    end_txn(log, 5, ControlType.COMMIT)
    truncate_to(log, cut, NOW_MS)
    assert log.producers.first_unstable_offset == 0
    assert append_in_txn(log, 5, 1, b"two again").base_offset == cut


# ----------------------------------------------------------------------------------------------- time


def test_records_by_time(folder: str) -> None:
    log = filled(folder)
    for number in (0, 1, 17, 59):
        found = record_at(log, NOW_MS + number)
        assert found is not None and found.timestamp == NOW_MS + number
        assert dict(expected())[found.offset] == b"%d-0" % number
    assert record_at(log, NOW_MS + 60) is None


def test_the_largest_timestamp(folder: str) -> None:
    log = open_log(RealDisk(), folder)
    assert log.plan_largest_timestamp() is None
    for stamp in (5, 90, 7, 90, 3):
        append(log, b"x", timestamp_ms=NOW_MS + stamp)
    plan = log.plan_largest_timestamp()
    assert plan is not None
    found = plan.run()
    assert found is not None
    assert (found.timestamp, found.offset) == (NOW_MS + 90, 1)


# -------------------------------------------------------------------------------------------- rolling by time


@pytest.mark.parametrize(
    ("config", "due_ms"),
    [
        (LogConfig(segment_ms=1000), 1001),
        (LogConfig(segment_ms=1000, max_compaction_lag_ms=10), 1001),
        (LogConfig(segment_ms=1000, max_compaction_lag_ms=10, cleanup_compact=True), 11),
    ],
)
def test_segments_roll_by_time(folder: str, config: LogConfig, due_ms: int) -> None:
    log = open_log(RealDisk(), folder, config)
    for elapsed_ms, count in ((0, 1), (due_ms - 1, 1), (due_ms, 2)):
        append(log, b"x", timestamp_ms=NOW_MS + elapsed_ms)
        assert len(log.segments) == count


def test_a_log_that_was_compacted_once_may_have_gaps(folder: str) -> None:
    log = filled(folder)
    names = [Path(segment.path(".log")) for segment in log.segments]
    names[1].unlink()
    state = LoadedState(was_compacted=True)
    kept = load_log(RealDisk(), folder, SMALL, state, NOW_MS)
    assert kept.log_end_offset == log.log_end_offset


@pytest.mark.parametrize("log_start_offset", [0, 1])
def test_recovery_ends_log_at_emptied_first_segment(folder: str, log_start_offset: int) -> None:
    """A loss of power leaves the names of segments whose bytes never reached the disk: the log ends before them, and
    must not begin behind them, or a replica that has lost everything would claim to be up to date."""
    names = [Path(segment.path(".log")) for segment in filled(folder).segments]
    for name in names:
        name.write_bytes(b"")
    state = LoadedState(log_start_offset=log_start_offset)
    assert load_log(RealDisk(), folder, SMALL, state, NOW_MS).log_end_offset == 0
