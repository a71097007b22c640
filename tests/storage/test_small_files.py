"""Small files: read whole, and replaced so that no moment of a crash shows anything between old and new."""

import errno
from random import Random

import pytest

from minikafka.storage.formats import BadFile
from minikafka.storage.small_files import read_small, replace_file
from tests.sim.memory_disk import MemoryDisk, PowerCut

OLD, NEW = b"old" * 500, b"new" * 2000


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.mkdir("d")
    replace_file(disk, "d/f", OLD)
    disk.settle()
    return disk


def test_read(disk: MemoryDisk) -> None:
    assert read_small(disk, "d/f", 1500) == OLD
    assert read_small(disk, "d/g", 1500) is None
    with pytest.raises(BadFile):
        read_small(disk, "d/f", 1499)


def test_replace(disk: MemoryDisk) -> None:
    replace_file(disk, "d/f", NEW)
    assert read_small(disk, "d/f", 10_000) == NEW
    assert disk.list("d") == ["f"]
    for image in disk.power_cut_images(Random(1), 50):
        assert read_small(image, "d/f", 10_000) == NEW


def test_leftovers_of_an_earlier_attempt(disk: MemoryDisk) -> None:
    file = disk.open("d/f.tmp", create=True)
    file.append([b"left over" * 1000])
    replace_file(disk, "d/f", NEW)
    assert read_small(disk, "d/f", 10_000) == NEW


def test_old_or_new_whatever_fails(disk: MemoryDisk) -> None:
    before = disk.op_count
    replace_file(disk, "d/f", OLD)
    steps = disk.op_count - before
    for number in range(1, steps + 1):
        disk.fail(number, errno.ENOSPC, written=100)
        with pytest.raises(OSError):
            replace_file(disk, "d/f", NEW)
        assert read_small(disk, "d/f", 10_000) == (OLD if number < steps else NEW)


def test_old_or_new_whenever_the_power_goes(disk: MemoryDisk) -> None:
    seen = set()
    for number in range(1, 7):
        disk.cut_power(number)
        with pytest.raises(PowerCut):
            replace_file(disk, "d/f", NEW)
        disk.heal()
        for image in disk.power_cut_images(Random(number), 50):
            seen.add(read_small(image, "d/f", 10_000))
        disk.process_died()
        replace_file(disk, "d/f", OLD)
    assert seen == {OLD, NEW}
