"""A disk in memory: it counts and records what is asked of it, fails where it is told to, and loses power.

    disk = MemoryDisk()
    disk.fail(17)                                        the 17th operation from here fails with EIO
    disk.fail(lambda op: op.kind == "append", ENOSPC, written=100)
    disk.cut_power(42)                                   the 42nd and all later ones raise PowerCut
    for image in disk.power_cut_images(Random(1), 20):   disks as they may be found afterwards

`process_died` is kill -9: what was written stays, open files and locks are gone.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple, TypeAlias

from minikafka.protocol.varint import Buffer
from minikafka.storage.disk import File, Lock, Mapping
from tests.sim.nodes import DirNode, FileNode
from tests.sim.power_cut import Mood, Survivors, image
from tests.sim.tree import Tree, error, parts

Names: TypeAlias = list[str]
_PLENTY_BYTES = 1 << 40


class Op(NamedTuple):
    """One thing that was asked of the disk."""

    kind: str
    path: str
    position: int = 0
    size: int = 0


class PowerCut(BaseException):
    """There is no power: nothing that runs catches this."""


class Fault(NamedTuple):
    """What is to go wrong, and how far an append gets before it does."""

    is_due: Callable[[Op], bool]
    number: int
    written: int
    is_lasting: bool


class MemoryDisk:
    """A Disk."""

    def __init__(self, capacity_bytes: int = _PLENTY_BYTES, root: DirNode | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        # What `mtime_ms` says of a file that is written now.
        self.now_ms = 0
        # Whether `read_nowait` finds nothing in memory.
        self.is_cold = False
        self.ops: list[Op] = []
        self.op_count = 0
        self.generation = 0
        self._tree = Tree(DirNode() if root is None else root)
        self._faults: list[Fault] = []
        self._locked: set[FileNode] = set()
        self._open_files: Counter[tuple[str, FileNode]] = Counter()
        self._power_cut_at: int | None = None

    # Trouble

    def fail(
        self, when: int | Callable[[Op], bool], number: int = errno.EIO, *, written: int = 0, is_lasting: bool = False
    ) -> None:
        """Fail the nth operation from now, counting from 1, or the first one of a kind; if lasting, all from then on.

        Of an append `written` bytes get through first. Any other operation that fails has not happened, save that a
        failed sync loses track of what it should have covered.
        """
        first = self.op_count + when if isinstance(when, int) else 0

        def is_due(op: Op) -> bool:
            at = self.op_count
            return (at == first or (is_lasting and at > first)) if isinstance(when, int) else when(op)

        self._faults.append(Fault(is_due, number, written, is_lasting))

    def heal(self) -> None:
        self._faults.clear()
        self._power_cut_at = None

    def cut_power(self, nth: int) -> None:
        """Let the nth operation from now, counting from 1, and all later ones raise PowerCut."""
        self._power_cut_at = self.op_count + nth

    def process_died(self) -> None:
        """Close all files and mappings and give back all locks; what was written stays."""
        for node in self._tree.files():
            node.forget_maps(self.op_count)
        self.generation += 1
        self._locked.clear()
        self._open_files.clear()

    def settle(self) -> None:
        """Bring everything to disk, as if all had been idle for a while."""
        for node in self._tree.files():
            node.settle(self.op_count)
        self._tree.settle(self._tree.changes)

    def power_cut_images(self, rng: Random, count: int) -> Iterator[MemoryDisk]:
        """Disks as they may be found after the power went now; the first two are the least and the most of it."""
        files = self._tree.files()
        for node in files:
            node.capture(self.op_count)
        changes = [change for node in files for change in node.pending]
        moments = sorted({change.at for change in [*changes, *self._tree.changes]})
        for number in range(count):
            mood = (Mood.SYNCED, Mood.ALL)[number] if number < 2 else rng.choice((Mood.ORDERED, Mood.MEAN))
            root = image(self._tree.root, self._tree.changes, Survivors(rng, mood, moments))
            disk = MemoryDisk(self.capacity_bytes, root)
            disk.now_ms = self.now_ms
            yield disk

    def paths(self) -> list[str]:
        """All files, sorted."""
        found: list[str] = []
        rest: list[tuple[str, DirNode]] = [("", self._tree.root)]
        while rest:
            above, directory = rest.pop()
            for name, node in directory.entries.items():
                if isinstance(node, DirNode):
                    rest.append((f"{above}/{name}", node))
                else:
                    found.append(f"{above}/{name}")
        return sorted(found)

    def on_close(self, path: str, node: FileNode) -> None:
        self._open_files[path, node] -= 1

    def open_paths(self) -> list[str]:
        """The files that the process has opened and not closed, save those that have been renamed since.

        Segments that have left their log are renamed, and stay open until they are deleted after a while.
        """
        still = [key for key, count in self._open_files.items() if count > 0]
        return sorted(path for path, node in still if self._tree.find(path) is node)

    def peek(self, path: str) -> bytes:
        """What a file contains; no process reads it."""
        return self._tree.file(path).contents()

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """A bit goes bad where it is stored, and where it is held in memory."""
        self._tree.file(path).flip_bit(position, bit)

    def record(self, kind: str, path: str, position: int = 0, size: int = 0) -> Fault | None:
        """Note an operation; raises if it is to fail at once, returns a fault that comes in the middle of an append."""
        op = Op(kind, path, position, size)
        self.ops.append(op)
        self.op_count += 1
        if self._power_cut_at is not None and self.op_count >= self._power_cut_at:
            raise PowerCut
        for fault in self._faults:
            if fault.is_due(op):
                if not fault.is_lasting:
                    self._faults.remove(fault)
                if kind == "append" and fault.written:
                    return fault
                raise error(fault.number, path)
        return None

    # The Disk

    def resolve(self, path: str) -> str:
        return "/" + "/".join(parts(path))

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        self.record("open", path)
        node = self._open(path, create)
        self._open_files[path, node] += 1
        return MemoryFile(self, path, node, read_only)

    def _open(self, path: str, create: bool) -> FileNode:
        if create and self._tree.find(path) is None:
            node = FileNode()
            node.mtime_ms = self.now_ms
            self._tree.put(self.op_count, path, node)
        return self._tree.file(path)

    def list(self, path: str) -> Names:
        self.record("list", path)
        return sorted(self._tree.directory(path).entries)

    def exists(self, path: str) -> bool:
        self.record("exists", path)
        return self._tree.find(path) is not None

    def is_dir(self, path: str) -> bool:
        self.record("is_dir", path)
        return isinstance(self._tree.find(path), DirNode)

    def mkdir(self, path: str) -> None:
        self.record("mkdir", path)
        names = parts(path)
        for depth in range(1, len(names) + 1):
            part = "/".join(names[:depth])
            node = self._tree.find(part)
            if node is None:
                self._tree.put(self.op_count, part, DirNode())
            elif not isinstance(node, DirNode):
                raise error(errno.EEXIST if depth == len(names) else errno.ENOTDIR, path)

    def rename(self, old: str, new: str) -> None:
        self.record("rename", old)
        node, target = self._tree.node(old), self._tree.find(new)
        from_there, to_there = self._tree.above(old), self._tree.above(new)
        if target is node:
            return
        if isinstance(target, DirNode):
            if isinstance(node, FileNode):
                raise error(errno.EISDIR, new)
            if target.entries:
                raise error(errno.ENOTEMPTY, new)
        elif target is not None and isinstance(node, DirNode):
            raise error(errno.ENOTDIR, new)
        self._tree.change(self.op_count, (*from_there, None), (*to_there, node))

    def unlink(self, path: str) -> None:
        self.record("unlink", path)
        self._tree.file(path)
        self._tree.put(self.op_count, path, None)

    def rmdir(self, path: str) -> None:
        self.record("rmdir", path)
        if self._tree.directory(path).entries:
            raise error(errno.ENOTEMPTY, path)
        self._tree.put(self.op_count, path, None)

    def size(self, path: str) -> int:
        self.record("size", path)
        return self._tree.file(path).size

    def mtime_ms(self, path: str) -> int:
        self.record("mtime_ms", path)
        return self._tree.file(path).mtime_ms

    def fsync_dir(self, path: str) -> None:
        self.record("fsync_dir", path)
        self._tree.sync(self._tree.directory(path))

    def free_bytes(self, path: str) -> int:
        self.record("free_bytes", path)
        return self.room_for(self.capacity_bytes)

    def total_bytes(self, path: str) -> int:
        self.record("total_bytes", path)
        return self.capacity_bytes

    def lock(self, path: str) -> Lock:
        self.record("lock", path)
        node = self._open(path, create=True)
        if node in self._locked:
            raise BlockingIOError(errno.EAGAIN, "locked by another process", path)
        self._locked.add(node)
        return MemoryLock(self._locked, node)

    def used_bytes(self) -> int:
        return sum(node.used_bytes for node in self._tree.files())

    def room_for(self, size: int) -> int:
        """How many of so many bytes still fit."""
        if self.capacity_bytes == _PLENTY_BYTES:
            return size
        return min(size, max(0, self.capacity_bytes - self.used_bytes()))


class MemoryFile:
    """A File."""

    def __init__(self, disk: MemoryDisk, path: str, node: FileNode, is_read_only: bool) -> None:
        self._disk = disk
        self._path = path
        self._node = node
        self._is_read_only = is_read_only
        self._generation: int | None = disk.generation
        self._holders = 0
        self._is_closing = False

    def _record(self, kind: str, position: int = 0, size: int = 0, *, writes: bool = False) -> Fault | None:
        if self._generation != self._disk.generation or (writes and self._is_read_only):
            raise error(errno.EBADF, self._path)
        return self._disk.record(kind, self._path, position, size)

    def append(self, parts: Sequence[Buffer]) -> None:
        data = b"".join(parts)
        fault = self._record("append", self._node.size, len(data), writes=True)
        written = self._disk.room_for(len(data)) if fault is None else min(fault.written, len(data))
        if written:
            self._node.write(self._disk.op_count, self._node.size, data[:written])
            self._node.mtime_ms = self._disk.now_ms
        if fault is not None or written < len(data):
            raise error(errno.ENOSPC if fault is None else fault.number, self._path)

    def read(self, position: int, size: int) -> Buffer:
        self._record("read", position, size)
        return self._node.read(position, size)

    def read_nowait(self, position: int, size: int) -> Buffer | None:
        data = self.read(position, size)
        return None if self._disk.is_cold else data

    def map(self, size: int, *, writable: bool) -> Mapping:
        self._record("map", 0, size, writes=writable)
        if size > self._node.size:
            if not writable:
                raise error(errno.EINVAL, self._path)
            self._node.resize(self._disk.op_count, size)
        return MemoryMapping(self._disk, self._path, self._node, size, writable)

    def reserve(self, position: int, size: int) -> None:
        self._record("reserve", position, size, writes=True)
        more = max(0, position + size - self._node.used_bytes)
        if self._disk.room_for(more) < more:
            raise error(errno.ENOSPC, self._path)
        if position + size > self._node.size:
            self._node.resize(self._disk.op_count, position + size)
        self._node.used_bytes += more

    def truncate(self, size: int) -> None:
        self._record("truncate", size, writes=True)
        self._node.resize(self._disk.op_count, size)
        self._node.mtime_ms = self._disk.now_ms

    def sync(self) -> None:
        try:
            self._record("sync")
        except OSError:
            self._node.doom(self._disk.op_count)
            raise
        self._node.sync(self._disk.op_count)

    def size(self) -> int:
        self._record("file_size")
        return self._node.size

    def hold(self) -> None:
        if self._generation is None or self._is_closing:
            raise error(errno.EBADF, self._path)
        self._holders += 1

    def release(self) -> None:
        self._holders -= 1
        self._close_unless_held()

    def close(self) -> None:
        self._is_closing = True
        self._close_unless_held()

    def _close_unless_held(self) -> None:
        if self._is_closing and not self._holders and self._generation is not None:
            if self._generation == self._disk.generation:
                self._disk.on_close(self._path, self._node)
            self._generation = None


class MemoryMapping:
    """A Mapping."""

    def __init__(self, disk: MemoryDisk, path: str, node: FileNode, size: int, is_writable: bool) -> None:
        self._disk = disk
        self._path = path
        self._node = node
        self._is_writable = is_writable
        self._generation: int | None = disk.generation
        self.view = node.map(size, writable=is_writable)

    def flush(self) -> None:
        try:
            self._disk.record("flush", self._path)
        except OSError:
            self._node.doom(self._disk.op_count)
            raise
        self._node.flush(self._disk.op_count)

    def close(self) -> None:
        self.view.release()
        if self._generation == self._disk.generation:
            self._node.unmap(self._disk.op_count, writable=self._is_writable)
        self._generation = None


class MemoryLock:
    """A Lock."""

    def __init__(self, locked: set[FileNode], node: FileNode) -> None:
        self._locked = locked
        self._node = node

    def release(self) -> None:
        self._locked.discard(self._node)
