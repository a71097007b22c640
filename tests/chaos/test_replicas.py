"""Replicas whose files are as they should be, and some that differ in one thing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from minikafka.protocol.errors import CorruptRecord
from tests.chaos.checker import Anomaly, Verdict
from tests.chaos.replicas import compare_all, written_as
from tests.chaos.run import explained
from tests.storage.batches import make_batch

TOPIC = "load"


def batch(offset: int, epoch: int = 0, value: bytes = b"value", count: int = 2) -> bytes:
    return bytes(make_batch([(None, value)] * count, base_offset=offset, leader_epoch=epoch))


WHOLE = [[batch(0), batch(2)], [batch(4), batch(6)]]


def write(log_dir: Path, segments: Sequence[Sequence[bytes]], partition: int = 0) -> Path:
    folder = log_dir / f"{TOPIC}-{partition}"
    folder.mkdir(parents=True)
    for segment in segments:
        base = int.from_bytes(segment[0][:8])
        (folder / f"{base:020d}.log").write_bytes(b"".join(segment))
    return log_dir


def test_equal_replicas_are_equal_however_they_are_cut_into_segments(tmp_path: Path) -> None:
    one = write(tmp_path / "1", WHOLE)
    other = write(tmp_path / "2", [[batch(0)], [batch(2), batch(4), batch(6)]])
    assert compare_all([one, other], TOPIC) == (8, [])


def test_only_what_replicas_have_in_common_is_compared(tmp_path: Path) -> None:
    one = write(tmp_path / "1", WHOLE)
    late = write(tmp_path / "2", [[batch(4)]])
    assert compare_all([one, late], TOPIC) == (2, [])


@pytest.mark.parametrize(
    "segments",
    [
        pytest.param([[batch(0), batch(2, value=b"other")], WHOLE[1]], id="another record"),
        pytest.param([[batch(0), batch(2, epoch=1)], WHOLE[1]], id="another epoch"),
        pytest.param([[batch(0)], WHOLE[1]], id="a batch is missing"),
        pytest.param([[batch(0, count=4)], WHOLE[1]], id="other boundaries"),
    ],
)
def test_a_difference_is_found(tmp_path: Path, segments: list[list[bytes]]) -> None:
    one = write(tmp_path / "1", WHOLE)
    equal = write(tmp_path / "2", WHOLE)
    other = write(tmp_path / "3", segments)
    _, differences = compare_all([one, equal, other], TOPIC)
    assert len(differences) == 1
    assert str(other) in differences[0]


def test_every_partition_is_compared(tmp_path: Path) -> None:
    one = write(write(tmp_path / "1", WHOLE), WHOLE, partition=1)
    other = write(write(tmp_path / "2", WHOLE), [[batch(0, epoch=3)], [batch(4)]], partition=1)
    offsets, differences = compare_all([one, other], TOPIC)
    assert (offsets, len(differences)) == (14, 1)


def test_a_batch_that_is_not_as_it_was_written_is_no_batch(tmp_path: Path) -> None:
    bad = bytearray(batch(0))
    bad[-1] ^= 1
    with pytest.raises(CorruptRecord):
        compare_all([write(tmp_path / "1", [[bytes(bad)]])], TOPIC)


def test_of_a_record_it_is_told_under_which_numbers_it_was_written(tmp_path: Path) -> None:
    numbered = [
        bytes(make_batch([(None, b"value")] * 2, base_offset=at, producer_id=5, producer_epoch=at, base_sequence=10))
        for at in (0, 2)
    ]
    folder = write(tmp_path / "1", [[numbered[0]], [numbered[1]]]) / f"{TOPIC}-0"
    assert written_as(folder, 1) == "1: producer 5, epoch 0, sequence 11"
    assert written_as(folder, 2) == "2: producer 5, epoch 2, sequence 10"
    assert written_as(folder, 4) == "4: not there"


def test_duplicates_are_told_with_the_numbers_of_their_copies(tmp_path: Path) -> None:
    folder = write(tmp_path / "1", WHOLE) / f"{TOPIC}-0"
    twice = [Anomaly("duplicate", f"{TOPIC}-0", "7 is at [1, 4]", (1, 4)), Anomaly("lost", f"{TOPIC}-0", "8 is gone")]
    told = explained(Verdict(2, 2, 0, 0, 2, 0, twice, []), {f"{TOPIC}-0": folder})
    assert told.duplicated == 1
    assert told.anomalies[0].text.startswith("7 is at [1, 4]; 1: producer -1, epoch")
    assert told.anomalies[1] == twice[1]
