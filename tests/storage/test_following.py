"""A follower writes what its leader sends, as it is, and nothing that does not follow."""

from pathlib import Path

import pytest

from minikafka.protocol.errors import CorruptRecord
from minikafka.storage.disk import RealDisk
from minikafka.storage.trimming import advance_log_start, earlier_start, truncate_fully
from tests.sim.memory_disk import MemoryDisk
from tests.storage.logs import NOW_MS, append, contents, filled, open_log, read


def test_a_follower_has_the_same_bytes(folder: str, tmp_path: Path) -> None:
    leader = filled(folder)
    follower = open_log(RealDisk(), str(tmp_path / "copy-0"))
    while follower.log_end_offset < leader.log_end_offset:
        follower.append_as_follower(read(leader, follower.log_end_offset, 700), NOW_MS)
    assert contents(follower) == contents(leader)
    assert follower.epochs.entries() == leader.epochs.entries()
    joined = [b"".join(Path(s.path(".log")).read_bytes() for s in log.segments) for log in (leader, follower)]
    assert joined[0] == joined[1]


def test_a_follower_begins_with_the_batch_in_which_its_leader_starts() -> None:
    disk = MemoryDisk()
    leader, follower = open_log(disk, "t-0"), open_log(disk, "t-1")
    append(leader, *(b"%d" % number for number in range(10)))
    append(leader, b"10")
    advance_log_start(leader, 4)
    truncate_fully(follower, 4)
    records = bytearray(read(leader, 4))
    with pytest.raises(CorruptRecord, match="is next"):
        follower.append_as_follower(records, NOW_MS)
    assert earlier_start(follower, records) == 0
    truncate_fully(follower, 0)
    follower.append_as_follower(records, NOW_MS)
    advance_log_start(follower, 4)
    assert (follower.log_start_offset, follower.log_end_offset, follower.high_watermark) == (4, 11, 4)
    assert follower.segments.first.base_offset == 0
    assert contents(follower) == contents(leader)
    # Only the first time, and only if the batch holds the start.
    assert earlier_start(follower, records) is None
    truncate_fully(follower, 20)
    assert earlier_start(follower, records) is None
    truncate_fully(follower, 10)
    assert earlier_start(follower, bytearray(read(leader, 10))) is None


def test_a_follower_refuses_what_does_not_follow(folder: str, tmp_path: Path) -> None:
    leader = filled(folder)
    follower = open_log(RealDisk(), str(tmp_path / "copy-0"))
    records = bytearray(read(leader, 0, 700))
    follower.append_as_follower(records, NOW_MS)
    with pytest.raises(CorruptRecord, match="is next"):
        follower.append_as_follower(records, NOW_MS)
    later = bytearray(read(leader, follower.log_end_offset, 300))
    later[65] ^= 1
    end = follower.log_end_offset
    with pytest.raises(CorruptRecord, match="CRC"):
        follower.append_as_follower(later, NOW_MS)
    assert follower.log_end_offset == end
    assert follower.append_as_follower(b"", NOW_MS) is None


def test_epochs_survive_a_crash(folder: str) -> None:
    log = open_log(RealDisk(), folder)
    log.start_epoch(3)
    append(log, b"a", epoch=3)
    append(log, b"b", epoch=7)
    again = open_log(RealDisk(), folder)
    assert again.epochs.entries() == [(3, 0), (7, 1)]
    assert again.end_offset_for_epoch(3) == (3, 1)
    assert again.end_offset_for_epoch(5) == (3, 1)
    assert again.end_offset_for_epoch(7) == (7, 2)
