"""Reading and changing stored configs, whatever the connection does on the way.

A change reads, decides and writes on the condition that nobody has written in between; otherwise it begins again. So
two brokers that change the same topic at once both get their way. The notification is written in the same transaction:
what is stored is never without it.

When an answer is lost, the change is simply made again: it is decided anew on what is there, and says the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from minikafka.broker.zookeeper.config_nodes import (
    CHANGE_PREFIX,
    CHANGES,
    CLIENTS,
    IPS,
    USERS,
    Entity,
    decode_config,
    encode_change,
    encode_config,
)
from minikafka.broker.zookeeper.coord import (
    BadVersion,
    Check,
    Coord,
    CoordError,
    Create,
    Delete,
    Disconnected,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    Set,
    insist,
    parents,
)
from minikafka.broker.zookeeper.registration import ensure_path

_A = TypeVar("_A")
_B = TypeVar("_B")

AT_ONCE_MAX: Final = 100
"""Requests to ZooKeeper that are made at a time for one purpose, so that others get their turn."""

# Entities that are no more than their configs: without any, their nodes go.
_TRANSIENT: Final = frozenset({CLIENTS, USERS, IPS})

Decide = Callable[[Mapping[str, str]], Mapping[str, str]]
"""What shall be stored in place of what is."""


class Vanished(CoordError):
    """What the configs are for is not there any more."""


class Stored(NamedTuple):
    """The configs of an entity, and what is known of their node; the version is None if there is no node."""

    texts: dict[str, str]
    version: int | None
    child_count: int


async def read_config(coord: Coord, entity: Entity) -> Stored:
    try:
        data, stat = await coord.get(entity.node)
    except NoNode:
        return Stored({}, None, 0)
    return Stored(decode_config(entity, data), stat.version, stat.child_count)


async def change_config(coord: Coord, entity: Entity, decide: Decide, *, owner: str | None = None) -> dict[str, str]:
    """Store what `decide` makes of what is stored, tell all brokers, and return it.

    `decide` may be called several times; what it raises is passed on, and then nothing is written. `owner` is the path
    of a node without which the configs would be nobody's: Vanished if it is not there.
    """
    guard = () if owner is None else (Check(owner, -1),)
    while True:
        stored = await insist(coord, lambda: read_config(coord, entity))
        texts = dict(decide(stored.texts))
        ops = _writing(entity, stored, texts)
        try:
            await coord.multi(*guard, *ops, Create(CHANGE_PREFIX, encode_change(entity), sequence=True))
        except MultiFailed as failed:
            await _retry(coord, entity, failed, is_guard=failed.index < len(guard))
        except Disconnected:
            await coord.connected()
        else:
            if not texts:
                await _clean_up(coord, entity)
            return texts


async def write_config(coord: Coord, entity: Entity, texts: Mapping[str, str]) -> None:
    """Store these configs in place of what is there, and tell all brokers."""
    await change_config(coord, entity, lambda _: texts)


async def names_below(coord: Coord, path: str) -> list[str]:
    """The nodes below a path, none if it is not there."""
    try:
        return await coord.children(path)
    except NoNode:
        return []


async def in_batches(items: Sequence[_A], act: Callable[[_A], Awaitable[_B]]) -> list[_B]:
    """Do something for many, some of them at a time; results are in order."""
    results: list[_B] = []
    for start in range(0, len(items), AT_ONCE_MAX):
        results += await asyncio.gather(*map(act, items[start : start + AT_ONCE_MAX]))
    return results


def _writing(entity: Entity, stored: Stored, texts: Mapping[str, str]) -> list[Op]:
    if entity.kind in _TRANSIENT and not texts and not stored.child_count:
        return [] if stored.version is None else [Delete(entity.node, stored.version)]
    if stored.version is None:
        return [Create(entity.node, encode_config(texts))]
    return [Set(entity.node, encode_config(texts), stored.version)]


async def _retry(coord: Coord, entity: Entity, failed: MultiFailed, *, is_guard: bool) -> None:
    """Return if it is worth trying again."""
    if is_guard:
        raise Vanished(f"{failed.op.path} is not there") from None
    match failed.cause:
        case NoNode():
            # Or the node went just now; then it is made.
            await ensure_path(coord, parents(entity.node)[-1])
            await ensure_path(coord, CHANGES)
        case BadVersion() | NodeExists() | NotEmpty():
            return
        case _:
            raise failed


async def _clean_up(coord: Coord, entity: Entity) -> None:
    """Remove what is left of a user when the last of its clients is gone. It does no harm if it stays."""
    above = [Entity(each.removeprefix("/config/")) for each in parents(entity.node)[2:]]
    try:
        for each in reversed(above):
            stored = await read_config(coord, each)
            if stored.texts or stored.child_count or stored.version is None:
                return
            await coord.delete(each.node, stored.version)
    except CoordError:
        return
