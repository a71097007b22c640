"""Configs that are stored in ZooKeeper, brought into this broker: all of them at its start, then those that change.

Whoever changes a config says so under `/config/changes`. A watch on that node wakes one task, which reads again what
the new notifications name, each once. Within a session none can be missed: they are kept for a quarter of an hour,
and no session outlives a silence of that length. After another session has begun everything is read again.

Reading and taking over are done in one breath, without an await in between. Answers of a session come in order, so of
two that read the same node the one that takes over last has the newer content, whoever the two are.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.config.settings import Scope
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.zookeeper.config_nodes import (
    ALL_BROKERS,
    CHANGES,
    TOPICS,
    Entity,
    broker_entity,
    decode_change,
    is_change,
    topic_entity,
)
from minikafka.broker.zookeeper.config_store import in_batches, names_below, read_config
from minikafka.broker.zookeeper.coord import Closed, Coord, NoAuth, NoNode, Waker, insist
from minikafka.broker.zookeeper.json_node import BadNode
from minikafka.protocol.errors import InvalidTopicError
from minikafka.storage.formats import check_topic_name

log: Final = logging.getLogger(__name__)

CHANGES_KEPT_MS: Final = 15 * 60_000

_TOPIC_CONFIGS: Final = "/config/topics"
_COMPLAINTS_MAX: Final = 1_000
"""Complaints to remember; whoever has more than that stored does not read them one by one."""


async def refresh(coord: Coord, live: LiveConfig, entity: Entity) -> tuple[str, ...]:
    """Read one entity's configs and take them over, if they concern this broker; complaints about what is of no use."""
    scope = _scope(live, entity)
    if scope is None and not _is_topic(entity):
        return ()
    try:
        texts = (await read_config(coord, entity)).texts
    except (BadNode, NoAuth) as error:
        return (f"{error}; what was known before holds",)
    return live.store_topic(entity.name, texts) if scope is None else live.store_broker({scope: texts})


async def refresh_topics(coord: Coord, live: LiveConfig, topics: Iterable[str]) -> tuple[str, ...]:
    """The same for several topics: for whoever is about to open their logs."""
    told = await in_batches([topic_entity(each) for each in topics], lambda entity: refresh(coord, live, entity))
    return tuple(complaint for complaints in told for complaint in complaints)


def _scope(live: LiveConfig, entity: Entity) -> Scope | None:
    if entity == ALL_BROKERS:
        return Scope.CLUSTER_WIDE
    return Scope.PER_BROKER if entity == broker_entity(live.broker.broker_id) else None


def _is_topic(entity: Entity) -> bool:
    if entity.kind != TOPICS:
        return False
    try:
        check_topic_name(entity.name)
    except InvalidTopicError:
        return False
    return True


class ConfigWatch:
    """See the module's description."""

    def __init__(self, coord: Coord, live: LiveConfig, clock: Clock) -> None:
        self._coord = coord
        self._live = live
        self._clock = clock
        self._waker = Waker()
        # The session in which all was read, and the notifications that were there then or have been acted on since.
        self._session_id = 0
        self._seen: set[str] = set()
        self._made_ms: dict[str, int] = {}
        self._complaints: set[str] = set()

    async def load(self) -> None:
        """Read everything, for the first time: before logs are opened and clients are served."""
        await insist(self._coord, self._catch_up)

    async def run(self) -> None:
        """Follow all changes from then on."""
        try:
            while True:
                await self._waker.wait()
                await insist(self._coord, self._catch_up)
        except Closed:
            return
        finally:
            self._coord.forget(self._waker)

    async def _catch_up(self) -> None:
        session_id = self._coord.session.id
        names = {name for name in await self._list_changes() if is_change(name)}
        if session_id != self._session_id:
            await self._read_everything()
            self._session_id = session_id
        else:
            await self._read_changed(names - self._seen)
        self._seen = names
        await self._purge(names)

    async def _list_changes(self) -> list[str]:
        try:
            return await self._coord.children(CHANGES, self._waker)
        except NoNode:
            # The waker tells when it is made.
            return []

    async def _read_changed(self, names: Collection[str]) -> None:
        changed = await in_batches(sorted(names), self._entity_of)
        if None in changed:
            # Gone before it was read: what it named is not known any more.
            await self._read_everything()
        else:
            await self._read([entity for entity in dict.fromkeys(changed) if entity is not None])

    async def _entity_of(self, name: str) -> Entity | None:
        """Whose configs a notification is about; None if it is not there any more."""
        path = f"{CHANGES}/{name}"
        try:
            data, stat = await self._coord.get(path)
        except NoNode:
            return None
        except NoAuth as error:
            self._complain([f"{error}; it is passed over"])
            return Entity("")
        self._made_ms[name] = stat.ctime_ms
        try:
            return decode_change(path, data)
        except BadNode as error:
            self._complain([f"{error}; it is passed over"])
            return Entity("")

    async def _read_everything(self) -> None:
        await self._read([ALL_BROKERS, broker_entity(self._live.broker.broker_id)])
        names = await names_below(self._coord, _TOPIC_CONFIGS)
        for topic in set(self._live.stored_topics).difference(names):
            self._live.store_topic(topic, {})
        await self._read([topic_entity(name) for name in names])
        log.info("read the configs of %d topics", len(names))

    async def _read(self, entities: list[Entity]) -> None:
        async def read(entity: Entity) -> None:
            self._complain(await refresh(self._coord, self._live, entity))

        await in_batches(entities, read)

    def _complain(self, complaints: Iterable[str]) -> None:
        """Say everything once, however often it is read."""
        for complaint in complaints:
            if complaint not in self._complaints:
                if len(self._complaints) >= _COMPLAINTS_MAX:
                    self._complaints.clear()
                self._complaints.add(complaint)
                log.warning("%s", complaint)

    async def _purge(self, names: Collection[str]) -> None:
        """Delete notifications that everybody has had the time to read; all brokers do, so some are gone already."""
        self._made_ms = {name: made_ms for name, made_ms in self._made_ms.items() if name in names}
        await in_batches([name for name in sorted(names) if name not in self._made_ms], self._date)
        limit_ms = self._clock.wall_ms() - CHANGES_KEPT_MS
        await in_batches([name for name, made_ms in self._made_ms.items() if made_ms < limit_ms], self._delete)

    async def _date(self, name: str) -> None:
        stat = await self._coord.exists(f"{CHANGES}/{name}")
        if stat is not None:
            self._made_ms[name] = stat.ctime_ms

    async def _delete(self, name: str) -> None:
        try:
            await self._coord.delete(f"{CHANGES}/{name}")
        except NoNode:
            return
        except NoAuth as error:
            self._complain([f"{error}; it stays"])
