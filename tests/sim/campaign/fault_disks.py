"""Faults of disks and of clocks."""

from __future__ import annotations

import errno
from random import Random

from minikafka.storage.errors import StorageError
from tests.sim.campaign.fault_network import NetworkFaults
from tests.sim.campaign.faults import Hit
from tests.sim.memory_disk import MemoryDisk, Op

_HOUR_MS = 3_600_000
_BASE_OFFSET_AND_LENGTH_BYTES = 12
_FIRST_CHECKED_BYTE = 21
"""Of a batch the CRC covers what comes after itself."""


class DiskFaults(NetworkFaults):
    """See the module's description."""

    def _take_for_good(self, broker_id: int) -> bool:
        """Of a host whose process will be killed in the end."""
        if not self.may_stop(broker_id) or not self._take(broker_id):
            return False
        self.losses.doom(broker_id)
        return True

    def _slow_disk(self, hit: Hit, rng: Random) -> bool:
        node = self.cluster.nodes[hit.broker]
        node.slowness_seconds = rng.choice((0.01, 0.1, 0.5))
        self._loop.call_later(hit.seconds, setattr, node, "slowness_seconds", 0.0)
        return True

    def _full_disk(self, hit: Hit, rng: Random) -> bool:
        if not self._take_for_good(hit.broker):
            return False
        disk = self.cluster.nodes[hit.broker].disk
        capacity_bytes = disk.capacity_bytes
        disk.capacity_bytes = disk.used_bytes() + rng.choice((0, 100, 2_000))

        def heal() -> None:
            disk.capacity_bytes = capacity_bytes
            self.replace_process(hit.broker)

        return self._later(hit, heal)

    def _disk_error(self, hit: Hit, rng: Random) -> bool:
        """EIO, once: an append that may have written some of it, or a read."""
        if not self._take_for_good(hit.broker):
            return False
        kind = rng.choice(("append", "read"))

        def is_due(op: Op) -> bool:
            return op.kind == kind and op.path.endswith(".log")

        disk = self.cluster.nodes[hit.broker].disk
        disk.fail(is_due, errno.EIO, written=rng.choice((0, 10)) if kind == "append" else 0)

        def heal() -> None:
            disk.heal()
            self.replace_process(hit.broker)

        return self._later(hit, heal)

    def _sync_error(self, hit: Hit, rng: Random) -> bool:
        """EIO at an fsync, after which nobody knows what is on the disk; in the end the host gets another one."""
        if not self._take_disk(hit.broker):
            return False
        kind, is_lasting = rng.choice(("sync", "fsync_dir")), rng.random() < 0.5

        def is_due(op: Op) -> bool:
            return op.kind == kind

        self.cluster.nodes[hit.broker].disk.fail(is_due, errno.EIO, is_lasting=is_lasting)
        return self._later(hit, lambda: self._replace_disk(hit.broker))

    def _failed_dir(self, hit: Hit, rng: Random) -> bool:
        node = self.cluster.nodes[hit.broker]
        context = node.broker.context if node.is_running else None
        names = [] if context is None else sorted(context.partitions.all)
        if context is None or not names or not self._take_for_good(hit.broker):
            return False
        partition = context.partitions.all[rng.choice(names)]
        node.process.run(partition.disk_failure, StorageError("the disk is gone"))
        return self._later(hit, lambda: self.replace_process(hit.broker))

    def _bit_flip(self, hit: Hit, rng: Random) -> bool:
        """A bit of one replica's records goes bad; in the end the host gets another disk."""
        disk = self.cluster.nodes[hit.broker].disk
        paths = [path for path in disk.paths() if path.endswith(".log") and disk.peek(path)]
        if not paths or not self._take_disk(hit.broker):
            return False
        path = rng.choice(paths)
        disk.flip_bit(path, _checked_byte(disk.peek(path), rng), rng.randrange(8))
        return self._later(hit, lambda: self._replace_disk(hit.broker))

    def _take_disk(self, broker_id: int) -> bool:
        """Of a host that will lose all it has.

        Not with `fsync`: there a broker is relied on that stops once more before a controller has seen it with its
        empty disk.
        """
        is_relied_on = self.plan.durability == "fsync"
        if is_relied_on or not self.may_stop(broker_id, loses=True, is_damage=True) or not self._take(broker_id):
            return False
        self.losses.doom(broker_id, loses=True)
        return True

    def _replace_disk(self, broker_id: int) -> None:
        self.kill(broker_id)
        self.losses.stopped(broker_id, loses=True, is_damage=True)
        self.cluster.nodes[broker_id].disk = MemoryDisk()
        self.boot(broker_id)

    def _clock_hours(self, hit: Hit, rng: Random) -> bool:
        self.cluster.nodes[hit.broker].clock.jump(rng.choice((-1, 1)) * _HOUR_MS)
        return True

    def _clock_days(self, hit: Hit, rng: Random) -> bool:
        self.cluster.nodes[hit.broker].clock.jump(rng.choice((-3, -1, 1, 3)) * 24 * _HOUR_MS)
        return True


def _checked_byte(data: bytes, rng: Random) -> int:
    """A position that the CRC of some batch covers."""
    batches, position = [], 0
    while position + _FIRST_CHECKED_BYTE < len(data):
        end = position + _BASE_OFFSET_AND_LENGTH_BYTES + int.from_bytes(data[position + 8 : position + 12], "big")
        batches.append((position + _FIRST_CHECKED_BYTE, min(end, len(data))))
        position = end
    return rng.randrange(*rng.choice(batches))
