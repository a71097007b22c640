"""What a loss of power leaves: all that was synced, and of the rest anything from nothing to all."""

from __future__ import annotations

import random
from pathlib import Path

from minikafka.storage.disk import RealDisk
from minikafka.storage.formats import encode_offsets
from tests.chaos.power import lose_unsynced
from tests.storage.logs import append, open_log


def test_power_loss_keeps_what_is_before_the_recovery_point(tmp_path: Path) -> None:
    ends, point = set(), 40
    for seed in range(40):
        log_dir = tmp_path / str(seed)
        folder = log_dir / "orders-0"
        log = open_log(RealDisk(), str(folder))
        for number in range(100):
            append(log, b"%d" % number)
        (log_dir / "recovery-point-offset-checkpoint").write_bytes(encode_offsets({("orders", 0): point}))
        lost = lose_unsynced(log_dir, random.Random(seed))
        left = open_log(RealDisk(), str(folder))
        assert point <= left.log_end_offset <= 100
        assert (lost == 0) <= (left.log_end_offset == 100)
        ends.add(left.log_end_offset)
    assert {point} < ends, "some lose all, others a part"
