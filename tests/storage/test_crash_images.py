"""Power cuts and failing disks: what was flushed is there, nothing bad is ever read, and the log goes on.

`CRASH_LIVES=250 pytest tests/storage/test_crash_images.py --timeout=0` rebuilds so many times ten disks.
"""

from __future__ import annotations

import os
from contextlib import suppress
from random import Random

import pytest

from tests.sim.memory_disk import MemoryDisk, PowerCut
from tests.storage.crashing import Life, check_bytes, check_goes_on
from tests.storage.logs import flush

LIVES = int(os.environ.get("CRASH_LIVES", "30"))
IMAGES_PER_LIFE = 10
STEPS = 60


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
