"""Any file of a log directory may be harmed in any way: starting goes on, and nothing but that partition suffers."""

from contextlib import suppress
from random import Random

import pytest

from minikafka.storage.config import LogConfig
from minikafka.storage.disk import join
from minikafka.storage.errors import CorruptLog
from minikafka.storage.formats import CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_CHECKPOINT
from minikafka.storage.log import Log
from tests.sim.memory_disk import MemoryDisk
from tests.storage.dirs import ROOT, read_file, start, write_file
from tests.storage.logs import append, contents, read
from tests.storage.recorded import lay_out, recorded_files

CONFIG = LogConfig(segment_index_bytes=40_000, index_interval_bytes=512)
OTHER = ("codec-lz4", 0)


def harmed(rng: Random, data: bytes) -> bytes | None:
    """Other bytes in the place of a file's, None for no file."""
    kind = rng.randrange(6)
    if kind == 0:
        return None
    if kind == 1:
        return b""
    if kind == 2:
        return data[: rng.randrange(len(data) + 1)]
    if kind == 3:
        return data + bytes(rng.randrange(1, 300))
    if kind == 4:
        return data + rng.randbytes(rng.randrange(1, 200))
    flipped = bytearray(data or b"x")
    for _ in range(rng.randrange(1, 5)):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def harmed_directory(rng: Random) -> tuple[MemoryDisk, str]:
    """Two partitions of a real Kafka, one file harmed; the name of that file."""
    files = dict(recorded_files())
    if rng.random() < 0.5:
        del files[CLEAN_SHUTDOWN_FILE]
    if rng.random() < 0.3:
        del files[RECOVERY_POINT_CHECKPOINT]
    partition = rng.choice([name.partition("/")[0] for name in files if "/" in name and "lz4" not in name])
    kept = ("", partition, "codec-lz4-0")
    files = {name: data for name, data in files.items() if name.rpartition("/")[0] in kept}
    name = rng.choice([name for name in files if name != "meta.properties" and "lz4" not in name])
    data = harmed(rng, files.pop(name))
    if data is not None:
        files[name] = data
    disk = MemoryDisk()
    lay_out(disk, ROOT, files)
    return disk, name


def use(log: Log) -> None:
    """Read it all and write to it; a batch that is harmed is recognised when it is read, but for its base offset."""
    for offset in range(log.log_start_offset, log.log_end_offset, 50):
        with suppress(CorruptLog):
            read(log, offset, 5000)
    log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    append(log, b"more", epoch=9)


@pytest.mark.parametrize("part", range(6))
def test_any_file_may_be_harmed(part: int) -> None:
    for seed in range(part * 40, part * 40 + 40):
        disk, name = harmed_directory(Random(seed))
        log_dir = start(disk, config=CONFIG)
        assert len(log_dir.logs) + len(log_dir.corrupt) == 2, name
        # Only the log start offset is nowhere else to be had, and so believed.
        if name != "log-start-offset-checkpoint":
            assert len(contents(log_dir.logs[OTHER])) == 600, name
        for log in log_dir.logs.values():
            use(log)
        is_whole = not log_dir.corrupt
        log_dir.close()
        again = start(disk, config=CONFIG)
        assert again.was_clean == is_whole, name
        assert len(again.logs) + len(again.corrupt) == 2, name


def test_an_index_that_is_ahead_of_its_log() -> None:
    """Its last entry is about offset 900 of a log that ends at 600; the next batches have offsets in between."""
    disk = MemoryDisk()
    lay_out(disk, ROOT)
    path = join(ROOT, "codec-none-0", "00000000000000000520.index")
    data = bytearray(read_file(disk, path))
    data[-8:-4] = (380).to_bytes(4, "big")
    write_file(disk, path, bytes(data))
    log = start(disk, config=CONFIG).logs["codec-none", 0]
    for _ in range(30):
        append(log, b"more", epoch=9)
    assert [value for offset, value in contents(log) if offset >= 600] == [b"more"] * 30
