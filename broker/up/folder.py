"""The folder of a cluster that `minikafka up` runs.

    .minikafka-up          says that the folder is of this kind and with how many nodes of ZooKeeper it was made; locked
                           while the cluster runs
    zookeeper/             the nodes' data, see `zookeeper.embedded`
    broker-1/              a broker's log directory
    broker-1.properties    its settings, with which `minikafka broker --config` starts it again
    cluster.json           the processes, while all are there

Nothing else in it is ever touched, and nothing at all if something lies there that was not made here.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from minikafka.broker.up.plan import UpError

_MARKER: Final = ".minikafka-up"
_CLUSTER: Final = "cluster.json"
_ZOOKEEPER: Final = "zookeeper"
_OURS: Final = re.compile(r"broker-[0-9]+(?:\.properties)?|zookeeper|cluster\.json(?:\.new)?")


def default_folder(environ: Mapping[str, str], port: int) -> Path:
    """One for each port, so that clusters on different ports do not meet."""
    base = environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "minikafka" / f"port-{port}"


class Folder:
    """See the module's description."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        if "," in str(self.path):
            raise UpError(f"{self.path} has a comma in it, at which Kafka's setting log.dirs would be split", 2)
        self._lock: int | None = None

    @property
    def zookeeper(self) -> Path:
        return self.path / _ZOOKEEPER

    def log_dir(self, broker_id: int) -> Path:
        return self.path / f"broker-{broker_id}"

    def properties(self, broker_id: int) -> Path:
        return self.path / f"broker-{broker_id}.properties"

    def last_ports(self) -> list[int]:
        """Where the brokers listened the last time."""
        ports: list[int] = []
        while (path := self.properties(len(ports) + 1)).exists():
            found = re.search(r"^listeners=.*:([0-9]+)$", path.read_text(errors="replace"), re.MULTILINE)
            if found is None:
                break
            ports.append(int(found[1]))
        return ports

    @property
    def cluster(self) -> Path:
        return self.path / _CLUSTER

    @contextlib.contextmanager
    def held(self, zookeeper_nodes: int, *, fresh: bool) -> Iterator[None]:
        """Have it for ourselves, empty if it is to be fresh. UpError if that cannot be."""
        try:
            self._acquire()
            try:
                if fresh:
                    self._wipe()
                self._check_nodes(zookeeper_nodes)
                self._remove_cluster()
                yield
            finally:
                self._remove_cluster()
                self._release()
        except OSError as error:
            raise UpError(f"{error.filename or self.path}: {error.strerror or error}") from error

    # The marker, and its lock

    def _acquire(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.path / _MARKER).exists():
            foreign = sorted(entry.name for entry in self.path.iterdir() if _OURS.fullmatch(entry.name))
            if foreign:
                raise UpError(
                    f"{self.path / foreign[0]} is there and was not made by minikafka up: choose another --data"
                )
        lock = os.open(self.path / _MARKER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise UpError(f"{self.path} is in use by another minikafka up") from None
        self._lock = lock

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _check_nodes(self, wanted: int) -> None:
        """Another number of nodes could elect one of those that know nothing, and all topics would be forgotten."""
        assert self._lock is not None
        made = self._read_marker().get("zookeeper_nodes", 0)
        if wanted and made not in (0, wanted):
            raise UpError(f"{self.path} was made with --zookeeper-nodes {made}: use that, or --fresh to begin anew", 2)
        if wanted and not made:
            os.pwrite(self._lock, json.dumps({"zookeeper_nodes": wanted}).encode() + b"\n", 0)

    def _read_marker(self) -> dict[str, Any]:
        assert self._lock is not None
        try:
            found = json.loads(os.pread(self._lock, 4096, 0) or b"{}")
        except ValueError:
            found = {}
        return found if isinstance(found, dict) else {}

    def _wipe(self) -> None:
        assert self._lock is not None
        for entry in self.path.iterdir():
            if not _OURS.fullmatch(entry.name):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        os.ftruncate(self._lock, 0)

    # cluster.json

    def write_cluster(self, content: Mapping[str, Any]) -> None:
        """All at once: whoever waits for the file to be there reads it at once."""
        beside = self.path / f"{_CLUSTER}.new"
        beside.write_text(json.dumps(content, indent=2) + "\n")
        beside.replace(self.cluster)

    def _remove_cluster(self) -> None:
        self.cluster.unlink(missing_ok=True)
