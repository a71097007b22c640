"""Reading from ZooKeeper what the controller goes by, with a waker that tells when to read again.

A node that makes no sense is reported and passed over: one topic that somebody has damaged must not keep the others
from being led. But it is there, and whatever brokers have of it is not to be touched.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from minikafka.broker.controller.state import Broker
from minikafka.broker.controller.writer import Writer
from minikafka.broker.zookeeper.coord import NoNode, Waker
from minikafka.broker.zookeeper.topic_nodes import (
    LOG_DIR_EVENTS,
    TopicNode,
    decode_log_dir_event,
    is_topic_name,
    topic_path,
)
from minikafka.broker.zookeeper.znodes import BROKER_IDS, BadNode, BrokerNode, broker_path

log: Final = logging.getLogger(__name__)


class FoundTopic(NamedTuple):
    """A topic; without what its node says if that makes no sense."""

    name: str
    node: TopicNode | None
    version: int


class LogDirEvents(NamedTuple):
    """Brokers that lost a log directory, and the nodes that say so."""

    brokers: set[int]
    paths: list[str]


async def read_brokers(writer: Writer, waker: Waker) -> dict[int, Broker]:
    """All brokers that are registered, in the order of their ids."""
    names = await read_names(writer, BROKER_IDS, waker)
    ids = sorted(int(name) for name in names if name.isdecimal())

    async def read_broker(broker_id: int) -> Broker | None:
        path = broker_path(broker_id)
        try:
            data, stat = await writer.coord.get(path, waker)
            return Broker(broker_id, stat.czxid, BrokerNode.decode(path, data))
        except NoNode:
            # Gone since; the waker tells if it comes back.
            return None
        except BadNode as error:
            log.error("%s", error)
            return None

    found = await writer.read_all(ids, read_broker)
    return {each.broker_id: each for each in found if each is not None}


async def read_topics(writer: Writer, waker: Waker, names: Iterable[str]) -> list[FoundTopic]:
    """The nodes of those of these topics that there are."""

    async def read_topic(name: str) -> FoundTopic | None:
        path = topic_path(name)
        try:
            data, stat = await writer.coord.get(path, waker)
        except NoNode:
            writer.coord.forget(waker, path)
            return None
        try:
            return FoundTopic(name, TopicNode.decode(path, data), stat.version)
        except BadNode as error:
            log.error("%s", error)
            return FoundTopic(name, None, stat.version)

    found = await writer.read_all(names, read_topic)
    return [each for each in found if each is not None]


async def read_topic_names(writer: Writer, path: str, waker: Waker) -> list[str]:
    """The children of a node that can be topics."""
    names = await read_names(writer, path, waker)
    for name in names:
        if not is_topic_name(name):
            log.error("%s has a child %r, which is no name of a topic", path, name)
    return [name for name in names if is_topic_name(name)]


async def read_log_dir_events(writer: Writer, waker: Waker) -> LogDirEvents:
    paths = [f"{LOG_DIR_EVENTS}/{name}" for name in await read_names(writer, LOG_DIR_EVENTS, waker)]

    async def read_event(path: str) -> int | None:
        try:
            data, _ = await writer.coord.get(path)
            return decode_log_dir_event(path, data)
        except (NoNode, BadNode) as error:
            log.warning("%s", error)
            return None

    found = await writer.read_all(paths, read_event)
    return LogDirEvents({each for each in found if each is not None}, paths)


async def read_names(writer: Writer, path: str, waker: Waker) -> list[str]:
    async def ask() -> list[str]:
        try:
            return await writer.coord.children(path, waker)
        except NoNode:
            return []

    return await writer.read(ask)
