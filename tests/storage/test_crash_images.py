"""Power cuts and failing disks: what was flushed is there, nothing bad is ever read, and the log goes on.

`CRASH_LIVES=250 pytest tests/storage/test_crash_images.py --timeout=0` rebuilds so many times ten disks, and fails
every single operation of some of these lives.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import NamedTuple

import pytest

from minikafka.storage.errors import StorageError
from tests.sim.memory_disk import MemoryDisk, PowerCut
from tests.storage.crashing import Life, check_bytes, check_goes_on
from tests.storage.logs import flush

LIVES = int(os.environ.get("CRASH_LIVES", "30"))
IMAGES_PER_LIFE = 10
STEPS = 60

IS_LONG_RUN = LIVES > 100
FAULT_LIVES = LIVES // 40 if IS_LONG_RUN else 6
FAULT_STEPS = 50
FAULT_STRIDE = 1 if IS_LONG_RUN else 15


def cut_short(seed: int) -> Life:
    """A life that ends in the middle of something."""
    rng = Random(seed)
    disk = MemoryDisk()
    life = Life(disk, rng)
    disk.cut_power(rng.randint(1, 900))
    with suppress(PowerCut):
        life.run(STEPS)
    disk.heal()
    return life


@pytest.mark.parametrize("seed", range(LIVES))
def test_power_cuts(seed: int) -> None:
    life = cut_short(seed)
    for image in life.disk.power_cut_images(life.rng, IMAGES_PER_LIFE):
        log = life.opened(image)
        check_bytes(log)
        life.check(log)
        check_goes_on(log)
        flush(log)
        image.process_died()
        again = life.opened(image)
        check_bytes(again)
        assert again.log_end_offset == log.log_end_offset


class Fault(NamedTuple):
    """The nth operation fails, and how."""

    seed: int
    number: int
    nth: int
    written: int
    is_lasting: bool


def faults() -> Iterator[Fault]:
    """Each operation of a life in turn; in a short run some of them."""
    rng = Random(5)
    for seed in range(FAULT_LIVES):
        healthy = Life(MemoryDisk(), Random(seed))
        at = healthy.disk.op_count
        healthy.run(FAULT_STEPS)
        for nth in range(1 + rng.randrange(FAULT_STRIDE), healthy.disk.op_count - at + 1, FAULT_STRIDE):
            # A write that does not fit may get through in part.
            written = rng.choice((0, 0, rng.randint(1, 100)))
            number = errno.ENOSPC if written else rng.choice((errno.EIO, errno.ENOSPC))
            yield Fault(seed, number, nth, written, is_lasting=nth % 4 == 0)


def failed(fault: Fault) -> Life:
    """A life that goes on until the disk fails, or to its end if that can be borne."""
    disk = MemoryDisk()
    life = Life(disk, Random(fault.seed))
    disk.fail(fault.nth, fault.number, written=fault.written, is_lasting=fault.is_lasting)
    with suppress(StorageError):
        life.run(FAULT_STEPS)
    disk.heal()
    return life


def test_failing_operations() -> None:
    """Each is a StorageError or no harm at all; whatever was written before is there, then and after a restart."""
    count = 0
    for fault in faults():
        life = failed(fault)
        # Whoever cannot be told what is there is told so.
        with suppress(StorageError):
            check_bytes(life.log)
            life.check(life.log)
        life.disk.process_died()
        again = life.opened(life.disk)
        check_bytes(again)
        life.check(again)
        life.check_nothing_is_lost(again)
        check_goes_on(again)
        count += 1
    assert count > 100
