"""What may be left on a disk when the power goes: as little as POSIX promises, and anything between that and all.

- A completed sync of a file covers its bytes and its size, a completed sync of a directory its names.
- Of later changes to a file every sector (512 bytes) or page (4096), by itself, may be in any state that it had since
  the sync; and the size may be any of those that the file had. A sector that was never written reads as zeros: no file
  system shows one user what another has deleted.
- Later changes of names may have happened or not, each wholly, in any order; except that a change of a name does not
  overtake an earlier one of the same name.

An image is drawn in one of four moods. `SYNCED` and `ALL` are the two ends, `ORDERED` is a kind file system that keeps
everything up to some moment (ext4 with data=ordered comes close), `MEAN` is all of the above.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from random import Random

from tests.sim.nodes import Change, DirNode, FileNode, NameChange, Node, Resize, Write, apply

_UNITS_BYTES = (512, 4096)


class Mood(Enum):
    """How much of what was not synced survives."""

    SYNCED = auto()
    ALL = auto()
    ORDERED = auto()
    MEAN = auto()


class Survivors:
    """One draw of what survives."""

    def __init__(self, rng: Random, mood: Mood, moments: list[int]) -> None:
        self._rng = rng
        self._mood = mood
        # ORDERED: nothing after this moment is left.
        self._last = rng.choice(moments) if moments else 0
        # MEAN: some cuts lose nearly everything, some nearly nothing.
        self._chance = rng.random()

    def names(self, changes: Iterable[NameChange]) -> list[NameChange]:
        """The changes of names that happened, in order."""
        happened: list[NameChange] = []
        lost: list[NameChange] = []
        for change in changes:
            is_possible = not any(change.depends_on(earlier) for earlier in lost)
            (happened if is_possible and self._is_kept(change.at) else lost).append(change)
        return happened

    def _is_kept(self, at: int) -> bool:
        if self._mood is Mood.MEAN:
            return self._rng.random() < self._chance
        return self._mood is Mood.ALL or (self._mood is Mood.ORDERED and at <= self._last)

    def contents(self, node: FileNode) -> bytes:
        if self._mood is Mood.ALL:
            return node.contents()
        if self._mood is Mood.MEAN:
            return self._mean_contents(node)
        contents = bytearray(node.durable)
        for change in node.pending:
            if self._is_kept(change.at):
                # Of what happened at that very moment, maybe only the beginning.
                apply(self._torn(change) if change.at == self._last else change, contents)
        return bytes(contents)

    def _torn(self, change: Change) -> Change:
        if isinstance(change, Resize) or self._rng.random() < 0.5:
            return change
        return Write(change.at, change.position, change.data[: self._rng.randrange(len(change.data) + 1)])

    def _mean_contents(self, node: FileNode) -> bytes:
        sizes = [len(node.durable), *(each.size for each in node.pending if isinstance(each, Resize))]
        contents = bytearray(node.durable) + bytes(max(sizes) - len(node.durable))
        unit_bytes = self._rng.choice(_UNITS_BYTES)
        # How many of the changes each unit has seen.
        seen: dict[int, int] = {}
        for number, (start, data) in enumerate(_as_writes(node)):
            for unit in range(start // unit_bytes, -(-(start + len(data)) // unit_bytes)):
                if number < seen.setdefault(unit, self._moment(len(node.pending))):
                    low, high = max(start, unit * unit_bytes), min(start + len(data), (unit + 1) * unit_bytes)
                    contents[low:high] = data[low - start : high - start]
        return bytes(contents[: self._rng.choice(sizes)])

    def _moment(self, count: int) -> int:
        """After how many of the changes a unit was last written out."""
        return self._rng.choice((count, self._rng.randrange(count + 1))) if self._rng.random() < self._chance else 0


def _as_writes(node: FileNode) -> Iterator[tuple[int, bytes]]:
    """The changes of a file as bytes at a position; to be shortened is to have zeros there."""
    size = len(node.durable)
    for change in node.pending:
        if isinstance(change, Write):
            yield change.position, change.data
        else:
            yield change.size, bytes(max(0, size - change.size))
            size = change.size


def image(root: DirNode, changes: list[NameChange], survivors: Survivors) -> DirNode:
    """A tree of what survives; a file with two names stays one file."""
    names: dict[DirNode, dict[str, Node]] = {}
    for change in survivors.names(changes):
        for directory, name, node in change.effects:
            entries = names.setdefault(directory, dict(directory.durable))
            if node is None:
                entries.pop(name, None)
            else:
                entries[name] = node
    copies: dict[Node, Node] = {}

    def copied(node: Node) -> Node:
        if node not in copies:
            if isinstance(node, FileNode):
                copies[node] = file = FileNode(survivors.contents(node))
                file.mtime_ms = node.mtime_ms
            else:
                copies[node] = copied_dir(node)
        return copies[node]

    def copied_dir(node: DirNode) -> DirNode:
        entries = {name: copied(each) for name, each in names.get(node, node.durable).items()}
        return DirNode(entries, dict(entries))

    return copied_dir(root)
