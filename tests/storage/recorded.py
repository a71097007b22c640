"""The log directory that Apache Kafka 3.9.1 left behind, file by file."""

import tarfile
from functools import cache

from minikafka.storage.disk import Disk, join, parent
from tests.tree import ROOT

ARCHIVE = ROOT / "tests" / "data" / "kafka-3.9.1-log-dir.tar.xz"


@cache
def recorded_files() -> dict[str, bytes]:
    """All its files by their paths, as in `txn-0/00000000000000000000.log`."""
    found = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                found[member.name.removeprefix("./")] = file.read()
    return found


def lay_out(disk: Disk, root: str, files: dict[str, bytes] | None = None) -> None:
    """Write files, else all of them, below a directory."""
    for name, data in (recorded_files() if files is None else files).items():
        path = join(root, name)
        disk.mkdir(parent(path))
        file = disk.open(path, create=True)
        file.append([data])
        file.close()
