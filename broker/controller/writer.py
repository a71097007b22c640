"""What the controller reads and writes in ZooKeeper: fenced by its epoch, many nodes at a time.

While the connection is gone, everything here waits: a controller that cannot be sure of itself decides nothing. When it
is back in the same session, whatever was under way is settled by reading; in another session we are not the controller
any more, whether or not there is a new one yet.

The nodes of partition states have one writer, the controller. If one is not as it was left, what stands there is taken
over and decided on anew, never overwritten.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias, TypeVar

from minikafka.broker.controller.state import Partition, Topic
from minikafka.broker.zookeeper.coord import (
    Coord,
    Create,
    Delete,
    Disconnected,
    MultiFailed,
    NoNode,
    Op,
    Set,
    Stat,
)
from minikafka.broker.zookeeper.election import ControllerFenced, Controllership, write_fenced
from minikafka.broker.zookeeper.topic_nodes import (
    Assignment,
    StateNode,
    TopicNode,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)
from minikafka.broker.zookeeper.znodes import BadNode

log: Final = logging.getLogger(__name__)

_T = TypeVar("_T")
_R = TypeVar("_R")

Changes: TypeAlias = Sequence[tuple[Partition, StateNode]]

WRITE_PARTITIONS_MAX: Final = 50
"""In one transaction. More are hardly faster, and hold up the other requests of the session."""

WRITES_IN_FLIGHT_MAX: Final = 8
READS_IN_FLIGHT_MAX: Final = 500


class Move(NamedTuple):
    """Other replicas of a partition, and the state that goes with them."""

    partition: Partition
    assignment: Assignment
    state: StateNode


class FoundState(NamedTuple):
    """The state of a partition as it was read; without one if there is none, or if it makes no sense."""

    state: StateNode | None
    version: int
    zxid: int


class Writer:
    """ZooKeeper, for as long as we are the controller."""

    def __init__(self, coord: Coord, held: Controllership) -> None:
        self.coord = coord
        self.held = held
        self._session_id = coord.session.id

    # ------------------------------------------------------------------------------------------------- reading

    async def read(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Ask something that may be asked twice."""
        while True:
            try:
                return await ask()
            except Disconnected:
                await self.reconnected()

    async def read_all(self, items: Iterable[_T], ask: Callable[[_T], Awaitable[_R]]) -> list[_R]:
        """Ask the same of many, many at a time."""
        answers: list[_R] = []
        for some in chunks(list(items), READS_IN_FLIGHT_MAX):
            answers += await asyncio.gather(*(self.read(partial(ask, item)) for item in some))
        return answers

    async def reconnected(self) -> None:
        """Wait for the connection; ControllerFenced if it is of another session."""
        if (await self.coord.connected()).id != self._session_id:
            raise ControllerFenced(f"the session in which epoch {self.held.epoch} was won is over")

    async def adopt_states(self, partitions: Iterable[Partition]) -> None:
        """Take over what stands there, None where nothing does."""
        for partition, found in await self.read_states(partitions):
            partition.state, partition.version, partition.zxid = found

    async def read_states(self, partitions: Iterable[Partition]) -> list[tuple[Partition, FoundState]]:
        """What stands there, without taking it over."""
        listed = list(partitions)
        return list(zip(listed, await self.read_all(listed, self._read_state), strict=True))

    async def _read_state(self, partition: Partition) -> FoundState:
        path = state_path(*partition.name)
        try:
            data, stat = await self.coord.get(path)
        except NoNode:
            return FoundState(None, -1, partition.zxid)
        try:
            return FoundState(StateNode.decode(path, data), stat.version, stat.mzxid)
        except BadNode as error:
            # With a version and without a state: nothing is decided about it until an operator has fixed it.
            log.error("%s", error)
            return FoundState(None, stat.version, stat.mzxid)

    # ------------------------------------------------------------------------------------------------- writing

    async def write(self, *ops: Op) -> bool:
        """Write something else than states; whether it was done, or has to be looked at again."""
        try:
            await write_fenced(self.coord, self.held, *ops)
        except Disconnected:
            await self.reconnected()
            return False
        except MultiFailed as failed:
            log.info("looking again: %s", failed)
            return False
        return True

    async def write_states(self, changes: Changes) -> list[Partition]:
        """Write new states of partitions; those of which the node was not as it was left, and now is known again."""
        surprises: list[Partition] = []
        for some in chunks(changes, WRITE_PARTITIONS_MAX * WRITES_IN_FLIGHT_MAX):
            written = await asyncio.gather(*map(self._write_some, chunks(some, WRITE_PARTITIONS_MAX)))
            surprises += [each for missed in written for each in missed]
        return surprises

    async def _write_some(self, changes: Changes) -> list[Partition]:
        if await self._set_states(changes):
            return []
        await self.adopt_states(partition for partition, _ in changes)
        return [partition for partition, state in changes if partition.state != state]

    async def write_moves(self, topic: Topic, moves: Sequence[Move]) -> bool:
        """Write other replicas of partitions together with the states that go with them: all or nothing.

        No broker must hear of the replicas of one version under the epoch of another: to it the epoch is what tells
        whether there is news. So both are one transaction in ZooKeeper, and are taken over here without an await in
        between, since a channel may look at any time. False if the nodes were not as expected; what they hold now is
        known then. NoNode if the topic is gone.
        """
        plans = {each.partition.index: each.assignment for each in moves}
        node = TopicNode(topic.topic_id, {**topic.node.partitions, **plans})
        changes = [(each.partition, each.state) for each in moves]
        if await self._set_states(changes, Set(topic_path(topic.name), node.encode(), topic.version)):
            topic.version += 1
            for partition, assignment, _ in moves:
                partition.assignment = assignment
            return True
        path = topic_path(topic.name)
        data, stat = await self.read(lambda: self.coord.get(path))
        there = TopicNode.decode(path, data)
        states = await self.read_states(partition for partition, _ in changes)
        if there.topic_id != topic.topic_id:
            raise NoNode(path)
        topic.adopt(there, stat.version)
        for partition, found in states:
            partition.state, partition.version, partition.zxid = found
            partition.assignment = there.partitions.get(partition.index, partition.assignment)
        return all((each.partition.assignment, each.partition.state) == each[1:] for each in moves)

    async def _set_states(self, changes: Changes, *others: Op) -> bool:
        """Write states, and take them over, after some other writes; whether that is known to have been done."""
        ops = [Set(state_path(*each.name), state.encode(), each.version) for each, state in changes]
        try:
            results = await write_fenced(self.coord, self.held, *others, *ops)
        except Disconnected:
            await self.reconnected()
            return False
        except MultiFailed as failed:
            log.warning("a partition is not as this controller left it: %s", failed)
            return False
        for (partition, state), stat in zip(changes, results[len(others) :], strict=True):
            assert isinstance(stat, Stat)
            partition.state, partition.version, partition.zxid = state, stat.version, stat.mzxid
        return True

    async def create_states(self, changes: Changes) -> list[Partition]:
        """Write the first states of partitions; those of which there was one already, which is taken over."""
        topics = {partition.topic: None for partition, _ in changes}
        there = {
            partitions_path(topic.name)
            for topic in topics
            if any(each.state is not None for each in topic.partitions.values())
        }
        # One after the other: they make the same nodes above.
        for some in chunks(changes, WRITE_PARTITIONS_MAX):
            await self._create_some(some, there)
        return [partition for partition, state in changes if partition.state not in (None, state)]

    async def _create_some(self, changes: Changes, there: set[str]) -> None:
        """`there` are nodes above them that are known to exist."""
        left = changes
        while left:
            above = [path for path in _above(left) if path not in there]
            states = [Create(state_path(*each.name), state.encode()) for each, state in left]
            if await self.write(*map(Create, above), *states):
                there.update(above)
                for partition, state in left:
                    partition.state, partition.version = state, 0
                return
            there |= await self._existing(_above(left))
            await self.adopt_states(partition for partition, _ in left)
            topics = await self._existing({topic_path(each.topic.name) for each, _ in left})
            # What has no state yet, and still a topic.
            left = [(each, new) for each, new in left if each.version < 0 and topic_path(each.topic.name) in topics]

    async def _existing(self, paths: Iterable[str]) -> set[str]:
        listed = list(paths)
        stats = await self.read_all(listed, self.coord.exists)
        return {path for path, stat in zip(listed, stats, strict=True) if stat is not None}

    # ------------------------------------------------------------------------------------------------ deleting

    async def delete_tree(self, root: str, *last: str) -> None:
        """Delete a node with all below it, and in the same breath as the node itself some others, if they are there.

        A node of this name that is made meanwhile is another one: if the answer was lost, it may be a new topic.
        """
        first = await self.read(lambda: self.coord.exists(root))
        while True:
            there = await self.read(lambda: self.coord.exists(root))
            if there is not None and (first is None or there.czxid != first.czxid):
                return
            paths = await self._tree(root)
            stats = await self.read_all(last, self.coord.exists)
            ends = [path for path, stat in zip(last, stats, strict=True) if stat is not None]
            if not paths and not ends:
                return
            below = [Delete(path) for path in paths if path != root]
            done = [await self.write(*some) for some in chunks(below, 2 * WRITE_PARTITIONS_MAX)]
            if all(done):
                await self.write(*map(Delete, [*paths[-1:], *ends]))

    async def _tree(self, root: str) -> list[str]:
        """All paths from a node on downwards, the deepest first; none if it is not there."""
        levels = [[root]]
        while levels[-1]:
            children = await self.read_all(levels[-1], self._children)
            levels.append(
                [f"{path}/{name}" for path, names in zip(levels[-1], children, strict=True) for name in names]
            )
        if len(levels) == 2 and await self.read(lambda: self.coord.exists(root)) is None:
            return []
        return [path for level in reversed(levels) for path in level]

    async def _children(self, path: str) -> list[str]:
        try:
            return await self.coord.children(path)
        except NoNode:
            return []


def _above(changes: Changes) -> list[str]:
    """The nodes above those of the states, from the top, each once."""
    paths: dict[str, None] = {}
    for partition, _ in changes:
        paths[partitions_path(partition.topic.name)] = None
        paths[partition_path(*partition.name)] = None
    return list(paths)


def chunks(items: Sequence[_T], size: int) -> list[Sequence[_T]]:
    return [items[at : at + size] for at in range(0, len(items), size)]
