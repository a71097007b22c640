"""A Coord on a real ZooKeeper: its operations in kazoo's words. No type of kazoo's leaves the `zk` modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kazoo.exceptions import RolledBackError, RuntimeInconsistency
from kazoo.hosts import collect_hosts
from kazoo.protocol.states import EventType
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from minikafka.broker.zookeeper.coord import (
    ANY_VERSION,
    Acl,
    AclPolicy,
    Check,
    Create,
    Created,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    OpResult,
    Set,
    Stat,
    Waker,
    check_size,
    open_acl,
    parents,
)
from minikafka.broker.zookeeper.zk_link import IN_FLIGHT_MAX, Send, ZkLink, ZkSecurity, translate

_ACLS: Final[dict[Acl, list[Any]]] = {
    Acl.OPEN: OPEN_ACL_UNSAFE,
    Acl.READABLE: [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE],
    Acl.PRIVATE: CREATOR_ALL_ACL,
}


@dataclass(frozen=True, slots=True)
class _Watch:
    """What kazoo calls. Those for the same path are equal, so that kazoo never has more than one of each."""

    path: str
    fired: Callable[[], None] = field(compare=False)

    def __call__(self, event: Any) -> None:
        # Kazoo also tells that the connection is gone; only the next one is worth reading for.
        if event.type != EventType.NONE:
            self.fired()


class ZkCoord(ZkLink):
    """A Coord."""

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int = 18_000,
        acl: AclPolicy = open_acl,
        security: ZkSecurity | None = None,
        in_flight_max: int = IN_FLIGHT_MAX,
    ) -> None:
        """`connect` is what Kafka calls `zookeeper.connect`: servers, and the node to be the root; else ValueError."""
        hosts, root = collect_hosts(connect)
        super().__init__([f"{host}:{port}" for host, port in hosts], session_timeout_ms, security, in_flight_max)
        self._root = (root or "").rstrip("/")
        self._acl = acl

    async def prove(self) -> None:
        """Make the root, as Kafka does; that takes a session, too."""
        if await self.exists("/") is None:
            for path in [*parents(self._root), self._root]:
                await self._make_persistent(path)

    async def _make_persistent(self, path: str) -> None:
        try:
            await self.ask(path, lambda client: client.create_async(path, None, self._acl_of(path)))
        except NodeExists:
            return

    def _full(self, path: str) -> str:
        return (self._root + path).rstrip("/") or "/"

    def _acl_of(self, path: str) -> list[Any]:
        return _ACLS[self._acl(path)]

    # Reading

    async def get(self, path: str, waker: Waker | None = None) -> tuple[bytes, Stat]:
        data, stat = await self._read_node(path, waker, lambda client: client.get_async)
        return data or b"", _stat(stat)

    async def exists(self, path: str, waker: Waker | None = None) -> Stat | None:
        stat = await self._read(path, waker, lambda client: client.exists_async)
        return None if stat is None else _stat(stat)

    async def children(self, path: str, waker: Waker | None = None) -> list[str]:
        return sorted(await self._read_node(path, waker, lambda client: client.get_children_async))

    async def sync(self) -> None:
        await self.ask("/", lambda client: client.sync_async(self._full("/")))

    async def _read(self, path: str, waker: Waker | None, method: Send) -> Any:
        full = self._full(path)
        if waker is None:
            return await self.ask(path, lambda client: method(client)(full))
        self.arm(path, waker)
        watch = _Watch(full, lambda: self.post(self.fire, path))
        return await self.ask(path, lambda client: method(client)(full, watch))

    async def _read_node(self, path: str, waker: Waker | None, method: Send) -> Any:
        while True:
            try:
                return await self._read(path, waker, method)
            except NoNode:
                # ZooKeeper sets no watch then; asking whether the node exists does. It may have been made just now.
                if waker is None or await self.exists(path, waker) is None:
                    raise

    # Writing

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> Created:
        check_size(Create(path, data))

        def send(client: Any) -> Any:
            # Kafka's nodes without data have none rather than an empty text, which it would try to parse.
            acl, options = self._acl_of(path), {"ephemeral": ephemeral, "sequence": sequence, "include_data": True}
            return client.create_async(self._full(path), data or None, acl, **options)

        created, stat = await self.ask(path, send)
        return Created(created[len(self._root) :], _stat(stat))

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        check_size(Set(path, data))
        return _stat(await self.ask(path, lambda client: client.set_async(self._full(path), data, version)))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.ask(path, lambda client: client.delete_async(self._full(path), version))

    async def multi(self, *ops: Op) -> tuple[OpResult, ...]:
        assert ops
        check_size(*ops)
        results = await self.ask(ops[0].path, lambda client: self._transaction(client, ops).commit_async())
        for index, (op, result) in enumerate(zip(ops, results, strict=True)):
            # Those before the one that failed are rolled back, those after it were not looked at.
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise MultiFailed(index, op, translate(result, op.path))
        return tuple(map(self._result, ops, results))

    def _transaction(self, client: Any, ops: Sequence[Op]) -> Any:
        transaction = client.transaction()
        for op in ops:
            path = self._full(op.path)
            match op:
                case Check():
                    transaction.check(path, op.version)
                case Create():
                    transaction.create(path, op.data, self._acl_of(op.path), op.ephemeral, op.sequence)
                case Set():
                    transaction.set_data(path, op.data, op.version)
                case Delete():
                    transaction.delete(path, op.version)
        return transaction

    def _result(self, op: Op, result: Any) -> OpResult:
        match op:
            case Create():
                return str(result[len(self._root) :])
            case Set():
                return _stat(result)
        return None


def _stat(stat: Any) -> Stat:
    return Stat(stat.version, stat.czxid, stat.mzxid, stat.ctime, stat.ephemeralOwner, stat.numChildren)
