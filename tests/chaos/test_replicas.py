"""Replicas whose files are as they should be, and some that differ in one thing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from minikafka.protocol.errors import CorruptRecord
from tests.chaos.replicas import compare_all
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
