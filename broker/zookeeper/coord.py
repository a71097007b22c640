"""The seam to ZooKeeper: a tree of small nodes, a session, and what may go wrong with both.

    CONNECTED   operations are answered
    SUSPENDED   the connection is gone, the session may live on: operations fail at once with ConnectionLoss
    LOST        the session is over, and with it its ephemeral nodes; CONNECTED with another id comes next

A session is LOST only when ZooKeeper has said so, which takes a connection: whoever is cut off stays SUSPENDED, while
others may have taken over long since. So nothing is safe because of the state alone; writes are, because they are
conditional.

`ConnectionLoss` leaves open whether the operation was done. It is settled by reading, which is safe as soon as the
session is connected again: no operation of a session is carried out after a later one of the same session.

A watch only wakes. Reading with a `Waker` arms it for that path; what woke it, a change or a new connection, is
found out by reading again. It so cannot miss a change, and any number of changes before the next read are one.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

_T = TypeVar("_T")

ANY_VERSION: Final = -1


class CoordError(Exception):
    """ZooKeeper did not do what it was asked to."""


class NoNode(CoordError):
    """The node, or on creation the one above it, is not there."""


class NodeExists(CoordError):
    """The node to create is there already."""


class BadVersion(CoordError):
    """The node has been written since its version was read."""


class NotEmpty(CoordError):
    """A node with children cannot be deleted."""


class NoChildrenForEphemerals(CoordError):
    """An ephemeral node is always a leaf."""


class NoAuth(CoordError):
    """The node's access list forbids it."""


class TooLarge(CoordError):
    """More than ZooKeeper takes at once; it would not say so, but close the connection."""


class Disconnected(CoordError):
    """The session got in the way: ask again when it is connected."""


class ConnectionLoss(Disconnected):
    """No answer: the operation was done, or it was not."""


class SessionExpired(Disconnected):
    """The session is over: the operation was not done."""


class AuthFailed(CoordError):
    """ZooKeeper does not accept who we say we are."""


class Unreachable(CoordError):
    """No server of the ensemble can be talked to."""


class Closed(CoordError):
    """We closed the session ourselves."""


class SessionState(enum.Enum):
    """See the module's description."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class Session(NamedTuple):
    """The state, and the session it is about: the one that was lost if LOST, 0 before the first."""

    state: SessionState
    id: int


NO_SESSION: Final = Session(SessionState.LOST, 0)


class Stat(NamedTuple):
    """What is known of a node beside its data. A zxid is a transaction's number; later ones are larger."""

    version: int
    czxid: int
    mzxid: int
    ctime_ms: int
    # The session whose node this is, 0 if it is persistent.
    ephemeral_owner: int
    child_count: int


class Created(NamedTuple):
    """The path has the number of a sequence node in it."""

    path: str
    stat: Stat


@dataclass(frozen=True, slots=True)
class Check:
    """Nothing is done unless the node has this version."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Create:
    """Make a node; a sequence node's name gets a number that grows, of ten digits."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    """Replace the data of a node."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a node without children."""

    path: str
    version: int = ANY_VERSION


Op: TypeAlias = Check | Create | Set | Delete

OpResult: TypeAlias = str | Stat | None
"""Of a Create its path, of a Set the new stat."""


REQUEST_BYTES_MAX: Final = 1_000_000
"""Somewhat below ZooKeeper's own limit for a request, 1,048,575 bytes unless it is told otherwise."""

# More than ZooKeeper puts around the path and the data of an operation, its access list included.
_OP_BYTES: Final = 128


def check_size(*ops: Op) -> None:
    """Raise TooLarge if ZooKeeper would not take these operations in one request."""
    size = sum(_OP_BYTES + len(op.path) + len(op.data if isinstance(op, Create | Set) else b"") for op in ops)
    if size > REQUEST_BYTES_MAX:
        raise TooLarge(f"{size} bytes in one request, at most {REQUEST_BYTES_MAX} are sent; first: {ops[0].path}")


class MultiFailed(CoordError):
    """One operation of several failed, so none was done."""

    def __init__(self, index: int, op: Op, cause: CoordError) -> None:
        # Exactly the arguments given, so that copies and pickles are made from them.
        super().__init__(index, op, cause)
        self.index = index
        self.op = op
        self.cause = cause

    def __str__(self) -> str:
        return f"{type(self.op).__name__} of {self.op.path}, number {self.index} of several: {self.cause!r}"


class Acl(enum.Enum):
    """Who may do what with a node. The creator is whom the session has authenticated as."""

    OPEN = "everybody may do everything"
    READABLE = "the creator may do everything, everybody may read"
    PRIVATE = "the creator may do everything"


AclPolicy: TypeAlias = Callable[[str], Acl]
"""The access list for a path that is about to be created."""

_OPEN_PATH: Final = "/consumers"
_PRIVATE_PATHS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")


def open_acl(path: str) -> Acl:
    """Everybody may do everything: what Kafka does unless `zookeeper.set.acl` is set."""
    return Acl.OPEN


def secure_acl(path: str) -> Acl:
    """What Kafka does if it is: everybody may read what holds no secrets, and write where old consumers did."""
    if path == _OPEN_PATH:
        return Acl.OPEN
    return Acl.PRIVATE if path.startswith(_PRIVATE_PATHS) else Acl.READABLE


class Waker:
    """Wakes one reader. Wakes that nobody has waited for add up to one, with the paths in the order they came."""

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}
        self._woken = asyncio.Event()

    @property
    def is_woken(self) -> bool:
        return bool(self._paths)

    def wake(self, path: str) -> None:
        self._paths[path] = None
        self._woken.set()

    async def wait(self) -> list[str]:
        """The paths to read again, as soon as there are any."""
        await self._woken.wait()
        self._woken.clear()
        paths, self._paths = self._paths, {}
        return list(paths)


Listener: TypeAlias = Callable[[Session], None]


class Coord(Protocol):
    """One session at a time. All paths are absolute, below the root that `zookeeper.connect` names."""

    @property
    def session(self) -> Session: ...

    async def connected(self) -> Session:
        """Wait for a session that is connected; Closed if there will be none."""

    def add_listener(self, listener: Listener) -> Callable[[], None]:
        """Call a function at every change of the session's state, until the returned one is called."""

    async def get(self, path: str, waker: Waker | None = None) -> tuple[bytes, Stat]:
        """The waker is armed also if this is NoNode: it wakes when the node is made."""

    async def exists(self, path: str, waker: Waker | None = None) -> Stat | None: ...

    async def children(self, path: str, waker: Waker | None = None) -> list[str]:
        """Their names, sorted. The waker is for children that come and go, not for their data."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> Created: ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat: ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    async def multi(self, *ops: Op) -> tuple[OpResult, ...]:
        """Do all of them or, with MultiFailed, none."""

    async def sync(self) -> None:
        """Later reads see at least what anybody's writes had done by now; else they may lag behind."""

    def forget(self, waker: Waker, path: str | None = None) -> None:
        """Do not wake for this path any more, or for none at all."""

    async def close(self) -> None:
        """End the session, and with it its ephemeral nodes."""


class Reconnecting(Protocol):
    """Something with a session that comes back."""

    async def connected(self) -> Session: ...


async def insist(coord: Reconnecting, ask: Callable[[], Awaitable[_T]]) -> _T:
    """Ask again whenever the session is back, until there is an answer: for what may be done twice."""
    while True:
        try:
            return await ask()
        except Disconnected:
            await coord.connected()


def parents(path: str) -> list[str]:
    """The paths above a path, from the top, without the root."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]
