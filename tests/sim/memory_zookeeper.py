"""ZooKeeper's tree, in memory: nodes, versions, transactions, sessions and one-shot watches, without a clock or thread.

A comparison with the real one (`tests/broker/test_coord_model.py`) is what makes this worth anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from minikafka.broker.zookeeper.coord import (
    ANY_VERSION,
    BadVersion,
    Check,
    CoordError,
    Create,
    Delete,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    OpResult,
    SessionExpired,
    Set,
    Stat,
)

Notify = Callable[[str], None]


class Node(NamedTuple):
    """Never changed, only replaced: so a transaction that fails leaves nothing to undo."""

    data: bytes
    version: int
    czxid: int
    mzxid: int
    ctime_ms: int
    owner: int
    children: frozenset[str] = frozenset()
    # How many children there ever were: the number of the next sequence node.
    births: int = 0

    @property
    def stat(self) -> Stat:
        return Stat(self.version, self.czxid, self.mzxid, self.ctime_ms, self.owner, len(self.children))


def split(path: str) -> tuple[str, str]:
    above, _, name = path.rpartition("/")
    return above or "/", name


class Transaction:
    """Operations on top of the tree. All of one transaction have the same zxid."""

    def __init__(self, nodes: dict[str, Node], zxid: int, now_ms: int, session_id: int) -> None:
        self._nodes = nodes
        self._zxid = zxid
        self._now_ms = now_ms
        self._session_id = session_id
        self.staged: dict[str, Node | None] = {}
        # The paths whose data, and those whose children have changed.
        self.changed: dict[str, None] = {}
        self.child_changed: dict[str, None] = {}

    def do(self, op: Op) -> OpResult:
        match op:
            case Check():
                self._node(op.path, op.version)
            case Create():
                return self._create(op)
            case Set():
                return self._set(op)
            case Delete():
                self._delete(op)
        return None

    def _node(self, path: str, version: int = ANY_VERSION) -> Node:
        node = self.staged[path] if path in self.staged else self._nodes.get(path)
        if node is None:
            raise NoNode(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(path)
        return node

    def _create(self, op: Create) -> str:
        above, _ = split(op.path)
        parent = self._node(above)
        path = f"{op.path}{parent.births:010}" if op.sequence else op.path
        _, name = split(path)
        if name in parent.children or path == "/":
            raise NodeExists(path)
        if parent.owner:
            raise NoChildrenForEphemerals(path)
        owner = self._session_id if op.ephemeral else 0
        self.staged[path] = Node(op.data, 0, self._zxid, self._zxid, self._now_ms, owner)
        self.staged[above] = parent._replace(children=parent.children | {name}, births=parent.births + 1)
        self.changed[path] = self.child_changed[above] = None
        return path

    def _set(self, op: Set) -> Stat:
        node = self._node(op.path, op.version)
        node = node._replace(data=op.data, version=node.version + 1, mzxid=self._zxid)
        self.staged[op.path] = node
        self.changed[op.path] = None
        return node.stat

    def _delete(self, op: Delete) -> None:
        node = self._node(op.path, op.version)
        if node.children:
            raise NotEmpty(op.path)
        above, name = split(op.path)
        parent = self._node(above)
        self.staged[op.path] = None
        self.staged[above] = parent._replace(children=parent.children - {name})
        self.changed[op.path] = self.child_changed[op.path] = self.child_changed[above] = None


class MemoryZooKeeper:
    """The ensemble, as one server that never fails: what fails are sessions and connections."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._now_ms = now_ms
        self._zxid = 0
        self.nodes = {"/": Node(b"", 0, 0, 0, 0, 0)}
        # Whom to tell when a session is over.
        self._sessions: dict[int, Callable[[], None]] = {}
        self._last_session_id = 0
        self._watches: dict[tuple[bool, str], dict[int, Notify]] = {}
        self.listeners: list[Callable[[str, Node | None], None]] = []
        """Whoever wants to know of every change, at once: the simulation itself."""

    # Sessions

    def open_session(self, on_expiry: Callable[[], None]) -> int:
        self._last_session_id += 1
        self._sessions[self._last_session_id] = on_expiry
        return self._last_session_id

    def is_alive(self, session_id: int) -> bool:
        return session_id in self._sessions

    def close_session(self, session_id: int) -> None:
        """Remove the session and its nodes, in one transaction."""
        if self._sessions.pop(session_id, None) is not None:
            self.forget_watches(session_id)
            mine = [path for path, node in self.nodes.items() if node.owner == session_id]
            self._commit(session_id, [Delete(path) for path in mine])

    def expire(self, session_id: int) -> None:
        """The same, and whoever has the session finds out."""
        tell = self._sessions[session_id]
        self.close_session(session_id)
        tell()

    # Reading

    def find(self, session_id: int, path: str) -> Node | None:
        self._require(session_id)
        return self.nodes.get(path)

    def watch(self, session_id: int, path: str, notify: Notify, *, of_children: bool) -> None:
        self._watches.setdefault((of_children, path), {})[session_id] = notify

    def forget_watches(self, session_id: int) -> None:
        for watchers in self._watches.values():
            watchers.pop(session_id, None)

    # Writing

    def write(self, session_id: int, op: Op) -> OpResult:
        try:
            (result,) = self.multi(session_id, [op])
        except MultiFailed as failed:
            raise failed.cause from None
        return result

    def multi(self, session_id: int, ops: Sequence[Op]) -> tuple[OpResult, ...]:
        self._require(session_id)
        return self._commit(session_id, ops)

    def _commit(self, session_id: int, ops: Sequence[Op]) -> tuple[OpResult, ...]:
        # Failures are numbered, too.
        self._zxid += 1
        transaction = Transaction(self.nodes, self._zxid, self._now_ms(), session_id)
        results = []
        for index, op in enumerate(ops):
            try:
                results.append(transaction.do(op))
            except CoordError as error:
                raise MultiFailed(index, op, error) from None
        for path, node in transaction.staged.items():
            if node is None:
                self.nodes.pop(path, None)
            else:
                self.nodes[path] = node
            for listener in self.listeners:
                listener(path, node)
        self._notify(transaction)
        return tuple(results)

    def _notify(self, transaction: Transaction) -> None:
        for of_children, paths in ((False, transaction.changed), (True, transaction.child_changed)):
            for path in paths:
                for notify in self._watches.pop((of_children, path), {}).values():
                    notify(path)

    def _require(self, session_id: int) -> None:
        if session_id not in self._sessions:
            raise SessionExpired(f"session {session_id} is over")
