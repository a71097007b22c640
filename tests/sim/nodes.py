"""Files and directories of a simulated disk: what a process sees of them, and what of that is known to be on disk.

A file has its present contents, the contents that a completed sync covered, and between them the changes since, in
order. Changes made through a mapping are found by comparing with a copy, at the moments when it matters; only a
flush of the mapping covers them, since POSIX does not promise that a sync of the file does.

A sync that fails leaves its changes where they are for good: they are still read back, and no later sync covers them.
That is what Linux does, and why a failed sync must not be tried again.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from typing import TypeAlias

SECTOR_BYTES = 512
# From here on the kernel gives memory that costs nothing until it is written: indexes are mostly holes.
_SPARSE_BYTES_MIN = 1 << 20


@dataclass(eq=False)
class Write:
    """Bytes put somewhere into a file."""

    at: int  # when, counted in operations of the disk
    position: int
    data: bytes
    is_mapped: bool = False
    is_doomed: bool = False


@dataclass(eq=False)
class Resize:
    """A file made longer or shorter; what was cut off reads as zeros when it is made longer again."""

    at: int
    size: int
    is_doomed: bool = False


Change: TypeAlias = Write | Resize


class FileNode:
    """A file, by whatever names it is known."""

    def __init__(self, contents: bytes = b"") -> None:
        self.buffer = _allocate(max(len(contents), SECTOR_BYTES))
        self.buffer[: len(contents)] = contents
        self.size = len(contents)
        # What it takes on the disk: a hole takes nothing.
        self.used_bytes = len(contents)
        self.mtime_ms = 0
        self.durable = bytearray(contents)
        self.pending: list[Change] = []
        # The contents as of the last look, and how many mappings write to them.
        self._known: bytearray | None = None
        self._writable_maps = 0
        self._maps = 0

    def contents(self) -> bytes:
        return self.read(0, self.size)

    def read(self, position: int, size: int) -> bytes:
        return bytes(memoryview(self.buffer)[position : max(position, min(position + size, self.size))])

    def write(self, at: int, position: int, data: bytes) -> None:
        stop = position + len(data)
        if stop > self.size:
            self.resize(at, stop)
        self.buffer[position:stop] = data
        if self._known is not None:
            self._known[position:stop] = data
        self.pending.append(Write(at, position, data))
        self.used_bytes += len(data)

    def flip_bit(self, position: int, bit: int) -> None:
        for contents in (self.buffer, self.durable, self._known):
            if contents is not None and position < len(contents):
                contents[position] ^= 1 << bit
        for change in self.pending:
            if isinstance(change, Write) and change.position <= position < change.position + len(change.data):
                data = bytearray(change.data)
                data[position - change.position] ^= 1 << bit
                change.data = bytes(data)

    def resize(self, at: int, size: int) -> None:
        if size > len(self.buffer):
            self._move(max(size, 2 * len(self.buffer)))
        elif size < self.size:
            self.capture(at)
            self.buffer[size : self.size] = bytes(self.size - size)
        self.size = size
        self.used_bytes = min(self.used_bytes, size)
        if self._known is not None:
            _resize(self._known, size)
        self.pending.append(Resize(at, size))

    def _move(self, capacity: int) -> None:
        assert not self._maps, "the simulated disk cannot extend a mapped file as far as that"
        buffer = _allocate(capacity)
        buffer[: self.size] = self.contents()
        self.buffer = buffer

    def map(self, size: int, *, writable: bool) -> memoryview:
        if writable and not self._maps:
            # Its memory cannot move from now on, and the file may grow beyond the mapping.
            self._move(2 * max(size, _SPARSE_BYTES_MIN))
        self._maps += 1
        view = memoryview(self.buffer)[:size]
        if not writable:
            return view.toreadonly()
        self._writable_maps += 1
        if self._known is None:
            self._known = bytearray(self.contents())
        return view

    def unmap(self, at: int, *, writable: bool) -> None:
        self._maps -= 1
        if writable:
            self.capture(at)
            self._writable_maps -= 1
            if not self._writable_maps:
                self._known = None

    def forget_maps(self, at: int) -> None:
        """The process that had them is gone."""
        self.capture(at)
        self._known, self._maps, self._writable_maps = None, 0, 0

    def capture(self, at: int) -> None:
        """Note what was written through mappings."""
        if self._known is None or self._known == memoryview(self.buffer)[: self.size]:
            return
        for start in range(0, self.size, SECTOR_BYTES):
            now = bytes(self.buffer[start : min(start + SECTOR_BYTES, self.size)])
            if now != self._known[start : start + SECTOR_BYTES]:
                self._known[start : start + len(now)] = now
                self.pending.append(Write(at, start, now, is_mapped=True))

    def sync(self, at: int) -> None:
        self.capture(at)
        self._settle([change for change in self.pending if isinstance(change, Resize) or not change.is_mapped])

    def flush(self, at: int) -> None:
        self.capture(at)
        self._settle([change for change in self.pending if isinstance(change, Resize) or change.is_mapped])

    def settle(self, at: int) -> None:
        """Have all of it on disk, whatever happened to it."""
        self.capture(at)
        self.durable = bytearray(self.contents())
        self.pending.clear()

    def doom(self, at: int) -> None:
        """A sync failed: from now on nothing tells whether these changes are on disk."""
        self.capture(at)
        for change in self.pending:
            change.is_doomed = True

    def _settle(self, changes: list[Change]) -> None:
        covered = {change: None for change in changes if not change.is_doomed}
        for change in covered:
            apply(change, self.durable)
        self.pending = [change for change in self.pending if change not in covered]


@dataclass(eq=False)
class DirNode:
    """A directory: its names, and those of them that are known to be on disk."""

    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)


Node: TypeAlias = FileNode | DirNode


@dataclass(eq=False)
class NameChange:
    """Names that change together or not at all; None stands for a name that is gone."""

    at: int
    effects: tuple[tuple[DirNode, str, Node | None], ...]

    def depends_on(self, earlier: NameChange) -> bool:
        """Whether it makes no sense without an earlier one, which gave or took one of its names."""
        return any(a is c and b == d for a, b, _ in self.effects for c, d, _ in earlier.effects)

    def touches(self, directories: list[DirNode]) -> bool:
        return any(directory is each for directory, _, _ in self.effects for each in directories)


def apply(change: Change, contents: bytearray) -> None:
    if isinstance(change, Resize):
        _resize(contents, change.size)
        return
    inside = change.data[: max(0, len(contents) - change.position)]
    contents[change.position : change.position + len(inside)] = inside


def _resize(contents: bytearray, size: int) -> None:
    if size < len(contents):
        del contents[size:]
    else:
        contents += bytes(size - len(contents))


def _allocate(size: int) -> bytearray | mmap.mmap:
    return bytearray(size) if size < _SPARSE_BYTES_MIN else mmap.mmap(-1, size)
