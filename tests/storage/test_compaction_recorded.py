"""What compaction leaves, compared with what the log cleaner of Apache Kafka 3.9.1 left of the same log."""

from __future__ import annotations

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

from minikafka.protocol.records.batch import read_batches
from minikafka.protocol.records.reader import iter_records
from minikafka.storage.formats import AbortedTxn, parse_aborted_txns
from tests.sim.memory_disk import MemoryDisk
from tests.storage.compacting import COMPACTED, compact
from tests.storage.logs import open_log
from tests.storage.recorded import lay_out

DIRECTORY = "t-0"
RECORDED = Path(__file__).parent / "data" / "kafka-3.9.1-cleaner.tar.xz"


@cache
def recorded() -> dict[str, bytes]:
    with tarfile.open(RECORDED) as archive:
        files = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in files.items() if file is not None}


def described(files: dict[str, bytes]) -> tuple[list[Any], list[AbortedTxn]]:
    """All batches and index entries; how records are encoded and segments cut may differ."""
    found, txns = [], []
    for name, data in sorted(files.items()):
        if name.endswith(".txnindex"):
            txns += parse_aborted_txns(data)
        elif data:
            for batch in read_batches(data):
                batch.check_crc()
                fields = (batch.base_offset, batch.last_offset, batch.leader_epoch, batch.attributes)
                producer = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
                times = (batch.max_timestamp, batch.delete_horizon_ms)
                found.append((fields, producer, times, [*iter_records(batch)]))
    return found, txns


def files_of(disk: MemoryDisk, suffixes: tuple[str, ...]) -> dict[str, bytes]:
    found = {}
    for name in disk.list(DIRECTORY):
        if name.endswith(suffixes):
            file = disk.open(f"{DIRECTORY}/{name}")
            found[name] = bytes(file.read(0, file.size()))
    return found


def test_the_same_as_kafka() -> None:
    """Five rounds over a log with tombstones, codecs and transactions, compared with what Kafka's cleaner wrote."""
    about = json.loads(recorded()["about.json"])
    given = {name.partition("/")[2]: data for name, data in recorded().items() if name.startswith("input/")}
    disk = MemoryDisk()
    lay_out(disk, DIRECTORY, given)
    sizes = {key: about[key] for key in ("segment_bytes", "segment_index_bytes", "index_interval_bytes")}
    config = COMPACTED._replace(delete_retention_ms=about["delete_retention_ms"], **sizes)
    log = open_log(disk, DIRECTORY, config, is_clean=True, recovery_point=about["log_end_offset"])
    log.update_high_watermark(about["high_watermark"])
    seen = []
    for number, each in enumerate(about["rounds"], 1):
        assert compact(log, each["first_dirty_offset"], each["now_ms"]) == each["next_dirty_offset"]
        theirs = {name: data for name, data in recorded().items() if name.startswith(f"round-{number}/")}
        ours = files_of(disk, (".log", ".txnindex"))
        assert described(ours) == described(theirs)
        seen.append(len(described(ours)[0]))
    assert seen == [38, 38, 33, 21, 19]
