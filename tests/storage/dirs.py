"""Log directories for tests, on any disk."""

from __future__ import annotations

from minikafka.storage.checkpoints import Partition
from minikafka.storage.config import LogConfig
from minikafka.storage.dir_identity import Identity
from minikafka.storage.disk import Disk, join
from minikafka.storage.formats import CLEAN_SHUTDOWN_FILE
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from tests.sim.memory_disk import MemoryDisk
from tests.storage.logs import NOW_MS, SMALL

ROOT = "/data"
IDENTITY = Identity(0, "sH7gnb5IQTqIGQveoWctog")
TOPIC_ID = bytes(range(16))


def start(disk: Disk, path: str = ROOT, config: LogConfig = SMALL, identity: Identity = IDENTITY) -> LogDir:
    """A log directory, opened and loaded."""
    log_dir = LogDir(disk, path)
    log_dir.open(identity, NOW_MS)
    log_dir.load_all(lambda topic: config, NOW_MS)
    return log_dir


def created(log_dir: LogDir, partition: Partition, topic_id: bytes = TOPIC_ID, config: LogConfig = SMALL) -> Log:
    log_dir.do(log_dir.create(partition, topic_id, config, NOW_MS))
    return log_dir.logs[partition]


def restart(disk: MemoryDisk) -> LogDir:
    """After kill -9."""
    disk.heal()
    disk.process_died()
    return start(disk)


def checkpoint(log_dir: LogDir) -> None:
    job = log_dir.checkpoint()
    if job is not None:
        log_dir.do(job)


def discard(log_dir: LogDir, now_ms: int) -> int:
    """Let go of what is due; returns how many there were."""
    jobs = log_dir.discards(now_ms)
    for job in jobs:
        job.run()
        log_dir.finish(job)
    return len(jobs)


def is_marked_clean(disk: Disk, root: str = ROOT) -> bool:
    return disk.exists(join(root, CLEAN_SHUTDOWN_FILE))


def write_file(disk: Disk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.append([data])
    file.close()


def read_file(disk: Disk, path: str) -> bytes:
    file = disk.open(path, read_only=True)
    data = bytes(file.read(0, file.size()))
    file.close()
    return data


def all_files(disk: Disk, root: str = ROOT, below: str = "") -> dict[str, bytes]:
    """Every file by its path below the root."""
    found: dict[str, bytes] = {}
    for name in disk.list(join(root, below) if below else root):
        path = join(below, name) if below else name
        if disk.is_dir(join(root, path)):
            found |= all_files(disk, root, path)
        else:
            found[path] = read_file(disk, join(root, path))
    return found
