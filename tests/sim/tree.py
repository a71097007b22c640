"""The names on a simulated disk: finding what a path leads to, and changing names so that the change can be lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from tests.sim.nodes import DirNode, FileNode, NameChange, Node


class Tree:
    """Directories in directories from a root, and the changes to them that are not known to be on disk."""

    def __init__(self, root: DirNode) -> None:
        self.root = root
        self.changes: list[NameChange] = []

    def find(self, path: str) -> Node | None:
        node: Node = self.root
        for part in parts(path):
            if not isinstance(node, DirNode) or part not in node.entries:
                return None
            node = node.entries[part]
        return node

    def node(self, path: str) -> Node:
        node = self.find(path)
        if node is None:
            raise error(errno.ENOENT, path)
        return node

    def directory(self, path: str) -> DirNode:
        node = self.node(path)
        if not isinstance(node, DirNode):
            raise error(errno.ENOTDIR, path)
        return node

    def file(self, path: str) -> FileNode:
        node = self.node(path)
        if not isinstance(node, FileNode):
            raise error(errno.EISDIR, path)
        return node

    def above(self, path: str) -> tuple[DirNode, str]:
        """The directory that a path is in, and its name there."""
        *above, name = parts(path)
        return self.directory("/".join(above)), name

    def change(self, at: int, *effects: tuple[DirNode, str, Node | None]) -> None:
        for directory, name, node in effects:
            if node is None:
                del directory.entries[name]
            else:
                directory.entries[name] = node
        self.changes.append(NameChange(at, effects))

    def put(self, at: int, path: str, node: Node | None) -> None:
        """Let a path lead to a node, or to nothing."""
        self.change(at, (*self.above(path), node))

    def sync(self, directory: DirNode) -> None:
        """Bring the names in a directory to disk."""
        directories, covered = [directory], []
        # A rename between two directories is one step of the journal, and takes along what came before it in both.
        for change in reversed(self.changes):
            if change.touches(directories):
                covered.append(change)
                directories += [each for each, _, _ in change.effects]
        self.settle(covered[::-1])

    def settle(self, covered: Iterable[NameChange]) -> None:
        done = dict.fromkeys(covered)
        for change in done:
            for directory, name, node in change.effects:
                if node is None:
                    directory.durable.pop(name, None)
                else:
                    directory.durable[name] = node
        self.changes = [change for change in self.changes if change not in done]

    def files(self) -> list[FileNode]:
        """All files, those included that have a name only on disk or in a change that may be lost."""
        found: dict[Node, None] = {}
        rest: list[Node] = [self.root]
        rest += [node for change in self.changes for _, _, node in change.effects if node is not None]
        while rest:
            node = rest.pop()
            if node not in found:
                found[node] = None
                if isinstance(node, DirNode):
                    rest += [*node.entries.values(), *node.durable.values()]
        return [node for node in found if isinstance(node, FileNode)]


def parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
