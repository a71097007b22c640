"""A follower's log is cut: what takes long is done by threads."""

from __future__ import annotations

import threading

import pytest

from minikafka.broker.replication.following import Following
from minikafka.broker.work import LoopWork
from minikafka.protocol.messages.fetch import EpochEndOffset
from minikafka.protocol.varint import Buffer
from tests.broker.replicas.test_reading import Desk
from tests.sim.memory_disk import MemoryFile
from tests.storage.logs import NOW_MS, batch_of


async def test_follower_reads_and_copies_in_threads(work: LoopWork, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(work, {})
    partition = await desk.lead()
    for number in range(200):
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
        partition.log.append_as_leader(batch_of(bytes(1000), **fields), 1, NOW_MS)  # type: ignore[arg-type]
    partition.resign()
    partition.leader_epoch = 2
    loop_thread, on_loop = threading.get_ident(), 0
    read = MemoryFile.read

    def counted(file: MemoryFile, position: int, size: int) -> Buffer:
        nonlocal on_loop
        on_loop += size if threading.get_ident() == loop_thread else 0
        return read(file, position, size)

    monkeypatch.setattr(MemoryFile, "read", counted)
    worker = desk.partitions.workers[desk.log_dir]
    follower = Following(partition, worker, desk.clock)
    await follower.cut_at(EpochEndOffset(epoch=1, end_offset=199))
    assert partition.log.log_end_offset == 199
    assert 0 < on_loop < 60_000
