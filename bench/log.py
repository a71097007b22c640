"""`make bench-log`: a partition's log against the bare system calls on the same disk, and against itself.

Everything is in the page cache: what is compared is what the log adds to a write or a read. Batches are checked as
those of a client are, CRC included, and bare calls do nothing but move bytes.
"""

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle

from crc32c import crc32c

from bench.timing import Row, race
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.builder import BatchBuilder
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import RealDisk, join
from minikafka.storage.loading import LoadedState, load_log
from minikafka.storage.log import Log
from minikafka.storage.trimming import truncate_fully

NOW_MS = 1_750_000_000_000
DISK = RealDisk()
# Written files are cut at this size, so that the kernel never gets to the point of making writers wait.
FILE_BYTES_MAX = 256 << 20
SIZES = {"1 KB": 1 << 10, "16 KB": 16 << 10, "1 MB": 1 << 20}
CONFIG = LogConfig(max_message_bytes=2 << 20)


def batch_of_size(size: int) -> bytearray:
    """One record that fills a batch of about so many bytes."""
    builder = BatchBuilder()
    builder.append(NOW_MS, None, bytes(size - 80))
    return builder.build()


def opened(directory: str, config: LogConfig = CONFIG, *, is_clean: bool = False) -> Log:
    return load_log(DISK, directory, config, LoadedState(is_clean), NOW_MS)


def closed(log: Log) -> None:
    """Let go of the files, and leave them as they are."""
    for segment in (*log.segments, *log.retired):
        segment.close()


def append_to(log: Log, data: bytearray) -> Callable[[], None]:
    batch = BatchView(data)

    def append() -> None:
        # As a client sends it.
        batch.base_offset = 0
        log.append_as_leader(batch, 0, NOW_MS)
        if log.segments.active.size > FILE_BYTES_MAX:
            empty(log)

    return append


def empty(log: Log) -> None:
    truncate_fully(log, log.log_end_offset)
    for segment in log.retired:
        segment.unlink_deleted()
    log.retired = []


def write_to(fd: int, data: bytearray) -> Callable[[], None]:
    written = 0

    def write() -> None:
        nonlocal written
        written += os.write(fd, data)
        if written > FILE_BYTES_MAX:
            os.ftruncate(fd, 0)
            written = 0

    return write


def append_rows(folder: str) -> Iterator[tuple[Row, int]]:
    for name, size in SIZES.items():
        data = batch_of_size(size)
        with bare_file(join(folder, f"bare-{size}")) as fd:
            log = opened(join(folder, f"append-{size}"))
            rivals = {"minikafka": append_to(log, data), "bare": write_to(fd, data)}
            yield race(f"append {name}", rivals), len(data)
            closed(log)


@contextmanager
def bare_file(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        yield fd
    finally:
        os.close(fd)


def read_rows(folder: str) -> Iterator[tuple[Row, int]]:
    """The newest batches, whose places are known, and old ones in other segments, which are looked up.

    One batch at a time is the worst case; consumers ask for as much as there is, up to 1 MB.
    """
    for name, size in SIZES.items():
        log = opened(join(folder, f"read-{size}"), CONFIG._replace(segment_bytes=64 << 20))
        batch = BatchView(batch_of_size(size))
        count = (160 << 20) // size
        fill(log, batch, count * batch.size)
        with bare_file(log.segments.first.log_path) as fd:
            for much in {batch.size, (1 << 20) // batch.size * batch.size or batch.size}:
                steps = max(1, much // batch.size)
                around = {"newest": range(count - 20 * steps, count, steps), "old": range(0, 20 * steps, steps)}
                for kind, offsets in around.items():
                    rivals = {"minikafka": read_from(log, much, offsets), "bare": read_file(fd, much)}
                    yield race(f"read {_size(much)} in batches of {name}, {kind}", rivals), much
        closed(log)


def _size(size: int) -> str:
    return f"{round(size / 1024)} KB" if size < 1 << 19 else "1 MB"


def fill(log: Log, batch: BatchView, size: int) -> None:
    while log.size_bytes < size:
        batch.base_offset = 0
        log.append_as_leader(batch, 0, NOW_MS)


def read_from(log: Log, size: int, offsets: range) -> Callable[[], None]:
    around = cycle(offsets)

    def read() -> None:
        data = log.plan_read(next(around), size, log.log_end_offset).run_nowait()
        assert len(data) == size

    return read


def read_file(fd: int, size: int) -> Callable[[], None]:
    around = cycle(range(0, 20 * size, size))

    def read() -> None:
        assert len(os.pread(fd, size, next(around))) == size

    return read


def growth_rows(folder: str) -> list[Row]:
    """The same small append to logs that already hold more and more."""
    rivals: dict[str, Callable[[], object]] = {}
    logs = []
    for name, records in {"1 k": 1_000, "100 k": 100_000, "10 M": 10_000_000}.items():
        log = opened(join(folder, f"growth-{records}"))
        builder = BatchBuilder()
        builder.append_many(NOW_MS, [b""] * min(records, 20_000))
        batch = BatchView(builder.build())
        fill(log, batch, records // batch.record_count * batch.size)
        logs.append(log)
        rivals[name] = append_to(log, batch_of_size(200))
    row = race("append after ...", rivals)
    for log in logs:
        closed(log)
    return [Row(f"append 200 bytes after {name} records", {"minikafka": us}) for name, us in row.micros.items()]


def opening_rows(folder: str) -> Iterator[Row]:
    """A clean start, per hundred segments; the sealed ones are made as long as if they were full."""
    for count in (100, 400):
        directory = join(folder, f"open-{count}")
        log = opened(directory)
        batch = BatchView(batch_of_size(200))
        for number in range(1, count + 1):
            fill(log, batch, number * 20_000)
            if number < count:
                log.roll()
        log.close()
        for segment in [*log.segments][:-1]:
            os.truncate(segment.log_path, 100 << 20)
        best = min(timed(reopen, directory, is_clean=True) for _ in range(9))
        yield Row(f"open {count} segments, {count // 10} GB, per 100", {"minikafka": best * 1e6 / (count / 100)})


def reopen(directory: str, *, is_clean: bool = False) -> None:
    closed(opened(directory, is_clean=is_clean))


def timed(call: Callable[..., object], *args: object, **more: object) -> float:
    start = time.perf_counter()
    call(*args, **more)
    return time.perf_counter() - start


def recovery_rows(folder: str) -> Iterator[tuple[Row, int]]:
    """A start after a crash, against reading the file and computing one CRC over it."""
    for name, size in SIZES.items():
        directory = join(folder, f"recovery-{size}")
        log = opened(directory)
        fill(log, BatchView(batch_of_size(size)), 128 << 20)
        closed(log)
        ours, bare = [], []
        for _ in range(5):
            ours.append(timed(reopen, directory))
            bare.append(timed(checksum, log.segments.first.log_path))
        micros: dict[str, float | None] = {"minikafka": min(ours) * 1e6, "bare": min(bare) * 1e6}
        yield Row(f"recover 128 MB in batches of {name}", micros), log.size_bytes


def checksum(path: str) -> int:
    crc = 0
    with bare_file(path) as fd:
        position = 0
        while data := os.pread(fd, 1 << 20, position):
            crc = crc32c(data, crc)
            position += len(data)
    return crc


def print_row(row: Row, size: int | None = None) -> None:
    ours, bare = row.micros["minikafka"], row.micros.get("bare")
    line = f"{row.name:<42}{ours or 0:>14,.2f}"
    if size is not None and ours and bare:
        line += f"{size / ours:>12,.0f}{size / bare:>12,.0f}{bare / ours:>10.2f}"
    print(line, flush=True)


def main() -> None:
    folder = tempfile.mkdtemp(prefix="bench-log-", dir=".")
    print(f"Python {platform.python_version()}; best of alternating rounds; share: of the speed of the bare calls\n")
    print(f"{'':<42}{'us each':>14}{'MB/s':>12}{'bare MB/s':>12}{'share':>10}")
    try:
        for part in (append_rows, read_rows, recovery_rows):
            for row, size in part(folder):
                print_row(row, size)
        for row in (*growth_rows(folder), *opening_rows(folder)):
            print_row(row)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
