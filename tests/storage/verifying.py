"""Log directories to verify: Kafka's recorded one and one of ours, on a simulated disk, and ways to break them."""

from collections.abc import Callable

import pytest

from minikafka.protocol.compression import Compression
from minikafka.protocol.records.control import ControlType
from minikafka.storage.errors import CorruptLog
from minikafka.storage.finding import find
from minikafka.storage.verify import Summary, verify_partition
from tests.sim.memory_disk import MemoryDisk
from tests.storage.logs import NOW_MS, append, append_in_txn, batch_of, end_txn, open_log
from tests.storage.recorded import lay_out, recorded_files

FIRST = "00000000000000000000"


def kafka_disk(*directories: str) -> MemoryDisk:
    disk = MemoryDisk()
    files = {n: data for n, data in recorded_files().items() if not directories or n.partition("/")[0] in directories}
    lay_out(disk, "data", files)
    return disk


def verify(disk: MemoryDisk, path: str, *, records: bool = True) -> Summary:
    (partition,) = find(disk, path, whole_segments=True).partitions
    return verify_partition(disk, partition, records=records)


def edit(disk: MemoryDisk, path: str, change: Callable[[bytearray], object]) -> None:
    """Change the bytes of a file."""
    file = disk.open(path, create=True)
    data = bytearray(file.read(0, file.size()))
    change(data)
    file.truncate(0)
    file.append([data])
    file.close()


def put(data: bytes | bytearray) -> Callable[[bytearray], None]:
    def change(contents: bytearray) -> None:
        contents[:] = data

    return change


def flip(position: int) -> Callable[[bytearray], None]:
    def change(contents: bytearray) -> None:
        contents[position] ^= 1

    return change


def flaw(disk: MemoryDisk, path: str) -> tuple[str, int]:
    """The file and the byte that are found to be bad."""
    with pytest.raises(CorruptLog) as caught:
        verify(disk, path)
    assert str(caught.value) == f"{caught.value.path} at byte {caught.value.position}: {caught.value.reason}"
    return caught.value.path.rpartition("/")[2], caught.value.position


def our_log(disk: MemoryDisk) -> None:
    """A log of several segments, all that is in them, in the state a running broker would leave it in."""
    disk.mkdir("data/ours-0")
    log = open_log(disk, "data/ours-0")
    for number in range(12):
        append(log, *[b"value %d" % number] * (1 + number % 3), timestamp_ms=NOW_MS + number % 5)
        append_in_txn(log, 7, 2 * number, b"a", b"b")
        end_txn(log, 7, ControlType.ABORT if number % 3 else ControlType.COMMIT)
        log.append_as_leader(batch_of(b"x" * 100, compression=Compression.LZ4), 0, NOW_MS)
