"""How a broker becomes known: the paths it needs, the cluster's id, its own node, and producer ids to give away.

Pure recipes on a Coord. Each comes to an end whatever the connection does on the way: when an answer is lost, the node
is read, and whose it is decides.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from minikafka.broker.zookeeper.coord import (
    BadVersion,
    Coord,
    CoordError,
    Disconnected,
    NodeExists,
    NoNode,
    Session,
    SessionState,
    Stat,
    Waker,
    insist,
    parents,
)
from minikafka.broker.zookeeper.znodes import (
    BROKER_SEQUENCE,
    CLUSTER_ID,
    PERSISTENT_PATHS,
    PRODUCER_IDS,
    BadNode,
    BrokerNode,
    ProducerIdBlock,
    broker_path,
    decode_cluster_id,
    encode_cluster_id,
)

log: Final = logging.getLogger(__name__)


class DuplicateBroker(CoordError):
    """Another broker has our id."""


async def ensure_path(coord: Coord, path: str, data: bytes = b"") -> None:
    """Make a persistent node and those above it, unless they are there."""
    for above in parents(path):
        await _ensure_node(coord, above, b"")
    await _ensure_node(coord, path, data)


async def _ensure_node(coord: Coord, path: str, data: bytes) -> None:
    try:
        await insist(coord, lambda: coord.create(path, data))
    except NodeExists:
        # Perhaps by us, a moment ago, with the answer lost.
        return


async def ensure_persistent_paths(coord: Coord) -> None:
    """Make what is missing of the paths that all brokers rely on."""

    async def find() -> list[Stat | None]:
        return await asyncio.gather(*map(coord.exists, PERSISTENT_PATHS))

    for path, stat in zip(PERSISTENT_PATHS, await insist(coord, find), strict=True):
        if stat is None:
            await ensure_path(coord, path)


async def ensure_cluster_id(coord: Coord, proposed: str) -> str:
    """The cluster's id: the proposed one if it has none yet."""
    await ensure_path(coord, CLUSTER_ID, encode_cluster_id(proposed))
    data, _ = await insist(coord, lambda: coord.get(CLUSTER_ID))
    return decode_cluster_id(data)


async def allocate_producer_ids(coord: Coord, broker_id: int) -> ProducerIdBlock:
    """A block of producer ids that nobody else has.

    A write of which the answer was lost may have taken a block. It is then left unused: there are 2^63 of them, and to
    claim it by its looks would give it away twice if this broker asks twice at the same time.
    """
    while True:
        try:
            data, stat = await coord.get(PRODUCER_IDS)
            block = ProducerIdBlock.after(data, broker_id)
            await coord.set(PRODUCER_IDS, block.encode(), stat.version)
        except BadVersion:
            continue
        except NoNode:
            await ensure_path(coord, PRODUCER_IDS)
        except Disconnected:
            await coord.connected()
        else:
            return block


async def allocate_broker_id(coord: Coord, reserved_max: int) -> int:
    """An id above those that operators give by hand, and that no broker was given before."""

    async def draw() -> int:
        return (await coord.set(BROKER_SEQUENCE, b"")).version

    return reserved_max + await insist(coord, draw)


class _Connections:
    """Counts how often there was a connection to ZooKeeper again."""

    def __init__(self, coord: Coord) -> None:
        self.count = 0
        self.close = coord.add_listener(self._on_session)

    def _on_session(self, session: Session) -> None:
        self.count += session.state is SessionState.CONNECTED


class Registration:
    """The node of one broker, which has to be made anew in every session."""

    def __init__(self, coord: Coord, broker_id: int, patience_seconds: float) -> None:
        """Be patient for somewhat longer than a session lasts: so long may a node outlive the process that made it."""
        self._coord = coord
        self._broker_id = broker_id
        self._patience_seconds = patience_seconds
        self._path = broker_path(broker_id)
        # Ours, of which one may still be dying.
        self._sessions: set[int] = set()

    async def register(self, node: BrokerNode) -> int:
        """Make the node and return the broker epoch, which is the number of the transaction that made it.

        If there is one already, it may be left over from our last session, and is removed, or from the process before
        us. ZooKeeper will then remove it, which is waited for; else it is DuplicateBroker.
        """
        waker = Waker()
        connections = _Connections(self._coord)
        deadline, seen = 0.0, -1
        try:
            while (epoch := await self._attempt(node, waker)) is None:
                if connections.count != seen:
                    # While nobody reaches ZooKeeper, it ends no sessions either.
                    deadline, seen = asyncio.get_running_loop().time() + self._patience_seconds, connections.count
                try:
                    async with asyncio.timeout_at(deadline):
                        await waker.wait()
                except TimeoutError:
                    await self._give_up(node)
        finally:
            connections.close()
            self._coord.forget(waker)
        log.info("broker %d is registered at %s with epoch %d", self._broker_id, _addresses(node), epoch)
        return epoch

    async def _attempt(self, node: BrokerNode, waker: Waker) -> int | None:
        """The broker epoch, or None if a node of ours is in the way."""
        while True:
            try:
                self._sessions.add((await self._coord.connected()).id)
                return (await self._coord.create(self._path, node.encode(), ephemeral=True)).stat.czxid
            except NodeExists:
                pass
            except NoNode:
                await ensure_persistent_paths(self._coord)
                continue
            except Disconnected:
                # Made or not made: the next attempt tells.
                continue
            try:
                return await self._claim(node, waker)
            except (Disconnected, NoNode, BadVersion):
                continue

    async def _claim(self, node: BrokerNode, waker: Waker) -> int | None:
        data, stat = await self._coord.get(self._path, waker)
        if stat.ephemeral_owner == self._coord.session.id:
            # Made by us, with the answer lost or earlier in this session; what it says may have changed.
            if data != node.encode():
                await self._coord.set(self._path, node.encode())
            return stat.czxid
        if stat.ephemeral_owner in self._sessions:
            # That one is over for us, but servers may hold on to it for as long as it would have lasted.
            await self._coord.delete(self._path, stat.version)
            return await self._attempt(node, waker)
        if not self._is_left_over(node, data, stat):
            raise DuplicateBroker(self._describe(data, stat))
        log.warning("%s; waiting for it to go", self._describe(data, stat))
        return None

    def _is_left_over(self, node: BrokerNode, data: bytes, stat: Stat) -> bool:
        """A node of our address must be: whoever made it cannot be listening there, since we are."""
        if not stat.ephemeral_owner:
            return False
        try:
            there = BrokerNode.decode(self._path, data)
        except BadNode:
            return False
        return there.endpoints == node.endpoints

    async def _give_up(self, node: BrokerNode) -> None:
        """Time is up: whoever made that node keeps it alive. Unless it went just now."""
        try:
            data, stat = await insist(self._coord, lambda: self._coord.get(self._path))
        except NoNode:
            return
        raise DuplicateBroker(self._describe(data, stat))

    def _describe(self, data: bytes, stat: Stat) -> str:
        try:
            there = _addresses(BrokerNode.decode(self._path, data))
        except BadNode:
            there = repr(data[:100])
        if not stat.ephemeral_owner:
            return f"broker id {self._broker_id} is taken: {self._path} ({there}) is not of any session, delete it"
        session = f"session {stat.ephemeral_owner & (1 << 64) - 1:#x}"
        return f"broker id {self._broker_id} is taken by the broker at {there}, {session}"


def _addresses(node: BrokerNode) -> str:
    return ", ".join(map(str, node.endpoints))
