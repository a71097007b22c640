"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: the configs of topics, brokers and loggers.

- Every broker answers for every topic, by what ZooKeeper holds at that moment, so that whoever has changed something
  sees it wherever he asks. Of brokers only the broker itself knows; an empty name stands for all of them.
- A change is answered when it is in ZooKeeper and in force on this broker; the others follow within moments.
- Each resource succeeds or fails alone. One that is there twice fails: which of the two was meant?
- DescribeConfigs answers for a resource once, however often it is named.
- Changes are made one request after the other: on a connection, a request sees what those before it did.

DescribeConfigs v1 tells sources and synonyms, v3 types and, if asked, documentation.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Final, TypeVar

from minikafka.broker import loggers
from minikafka.broker.config import alter
from minikafka.broker.config.describe import Entry, describe_broker, describe_cluster, describe_topic
from minikafka.broker.config.dynamic import usable_overrides
from minikafka.broker.config.settings import Scope
from minikafka.broker.config_watch import refresh
from minikafka.broker.context import Context
from minikafka.broker.handlers.patience import Patience
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.broker.zookeeper.config_nodes import ALL_BROKERS, Entity, broker_entity, topic_entity
from minikafka.broker.zookeeper.config_store import Decide, Vanished, change_config, in_batches, read_config
from minikafka.broker.zookeeper.coord import CoordError, SessionState, insist
from minikafka.broker.zookeeper.topic_nodes import topic_path
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import InvalidRequestError, KafkaError, UnknownTopicOrPartitionError
from minikafka.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from minikafka.storage.formats import check_topic_name

log: Final = logging.getLogger(__name__)

_LOGGER_SOURCE: Final = 6

Name = tuple[int, str]
"""A resource: its type and its name."""
Keys = Collection[str] | None

_Altered = TypeVar("_Altered", AlterConfigsResource, IncrementalAlterConfigsResource)


class ResourceType(IntEnum):
    """Whose configs, by the numbers of these requests."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


def routes(context: Context) -> list[Route]:
    handlers = ConfigHandlers(context)
    # Brokers are authorised for as the cluster.
    return [
        Route(APIS[32], handlers.describe, Operation.DESCRIBE_CONFIGS, Resource.TOPIC),
        Route(APIS[33], handlers.alter, Operation.ALTER_CONFIGS, Resource.TOPIC),
        Route(APIS[44], handlers.change, Operation.ALTER_CONFIGS, Resource.TOPIC),
    ]


class ConfigHandlers:
    """See the module's description."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._changes = asyncio.Lock()

    # ---------------------------------------------------------------------------------------------- describing

    async def describe(self, call: Call) -> DescribeConfigsResponse:
        request: DescribeConfigsRequest = call.request
        async with self._changes:
            # Those that came before.
            pass
        results = await in_batches(_merged(request.resources), partial(self._describe_one, request))
        return DescribeConfigsResponse(results=results)

    async def _describe_one(self, request: DescribeConfigsRequest, asked: tuple[Name, Keys]) -> DescribeConfigsResult:
        (kind, name), keys = asked
        result = DescribeConfigsResult(resource_type=kind, resource_name=name, configs=[], error_message="")
        try:
            if kind == ResourceType.BROKER_LOGGER:
                result.configs = self._loggers(name, keys)
            else:
                entries = await self._entries(kind, name, keys)
                result.configs = [_shown(entry, request) for entry in entries]
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        return result

    async def _entries(self, kind: int, name: str, keys: Keys) -> list[Entry]:
        config = self._context.config.broker
        match kind:
            case ResourceType.TOPIC:
                check_topic_name(name)
                self._require_topic(name)
                overrides = await self._overrides(name)
                return describe_topic(self._context.config.broker, overrides, keys)
            case ResourceType.BROKER:
                if alter.broker_scope(name, self._context.broker_id) is Scope.CLUSTER_WIDE:
                    return describe_cluster(config, keys)
                return describe_broker(config, keys)
        raise InvalidRequestError(f"there are no configs of type {kind}")

    async def _overrides(self, topic: str) -> Mapping[str, str]:
        """What is set for a topic: by ZooKeeper, or if it cannot be asked, as we know it."""
        coord, live = self._context.coord, self._context.config
        if coord.session.state is SessionState.CONNECTED:
            try:
                stored = await read_config(coord, topic_entity(topic))
                return usable_overrides(live.broker, stored.texts)[0]
            except CoordError as error:
                log.info("the configs of topic %s are described without ZooKeeper: %s", topic, error)
        return live.overrides(topic)

    def _loggers(self, broker: str, names: Keys) -> list[DescribeConfigsResourceResult]:
        self._require_own(broker)
        return [
            DescribeConfigsResourceResult(
                name=name, value=level, read_only=False, config_source=_LOGGER_SOURCE, is_sensitive=False
            )
            for name, level in sorted(loggers.levels().items())
            if not names or name in names
        ]

    # ------------------------------------------------------------------------------------------------ changing

    async def alter(self, call: Call) -> AlterConfigsResponse:
        request: AlterConfigsRequest = call.request
        return AlterConfigsResponse(responses=await self._answer_all(request, request.resources, self._alter_one))

    async def change(self, call: Call) -> IncrementalAlterConfigsResponse:
        request: IncrementalAlterConfigsRequest = call.request
        responses = await self._answer_all(request, request.resources, self._change_one)
        return IncrementalAlterConfigsResponse(responses=responses)

    async def _answer_all(
        self,
        request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
        resources: Sequence[_Altered],
        act: Callable[[_Altered, bool], Awaitable[None]],
    ) -> list[AlterConfigsResourceResponse]:
        patience = Patience(self._context)
        counts = Counter((each.resource_type, each.resource_name) for each in resources)

        async def answer(resource: _Altered) -> AlterConfigsResourceResponse:
            kind, name = resource.resource_type, resource.resource_name
            response = AlterConfigsResourceResponse(resource_type=kind, resource_name=name)
            try:
                if counts[kind, name] > 1:
                    raise InvalidRequestError("every resource may be there only once")
                await patience.ask(lambda: act(resource, request.validate_only))
            except KafkaError as error:
                response.error_code, response.error_message = error.code, error.message
            return response

        async with self._changes:
            return await in_batches(resources, answer)

    async def _alter_one(self, resource: AlterConfigsResource, validate_only: bool) -> None:
        config, entries = self._context.config.broker, [(each.name, each.value) for each in resource.configs]
        match resource.resource_type:
            case ResourceType.TOPIC:
                name = resource.resource_name
                await self._store_topic(name, lambda _: alter.altered_topic(config, entries), validate_only)
            case ResourceType.BROKER:
                scope = alter.broker_scope(resource.resource_name, self._context.broker_id)
                await self._store_broker(scope, lambda _: alter.altered_broker(config, scope, entries), validate_only)
            case other:
                raise InvalidRequestError(f"configs of type {other} cannot be replaced")

    async def _change_one(self, resource: IncrementalAlterConfigsResource, validate_only: bool) -> None:
        config = self._context.config.broker
        changes = [alter.Change(each.name, each.config_operation, each.value) for each in resource.configs]
        match resource.resource_type:
            case ResourceType.TOPIC:
                name = resource.resource_name
                await self._store_topic(name, lambda old: alter.changed_topic(config, old, changes), validate_only)
            case ResourceType.BROKER:
                scope = alter.broker_scope(resource.resource_name, self._context.broker_id)
                await self._store_broker(
                    scope, lambda old: alter.changed_broker(config, scope, old, changes), validate_only
                )
            case ResourceType.BROKER_LOGGER:
                self._require_own(resource.resource_name)
                loggers.check_changes(changes)
                if not validate_only:
                    loggers.make_changes(changes)
            case other:
                raise InvalidRequestError(f"there are no configs of type {other}")

    async def _store_topic(self, topic: str, decide: Decide, validate_only: bool) -> None:
        if not topic:
            raise InvalidRequestError("there are no configs for all topics, set them for all brokers")
        self._require_topic(topic)
        try:
            await self._store(topic_entity(topic), decide, validate_only, topic_path(topic))
        except Vanished:
            raise _unknown_topic(topic) from None

    async def _store_broker(self, scope: Scope, decide: Decide, validate_only: bool) -> None:
        entity = ALL_BROKERS if scope is Scope.CLUSTER_WIDE else broker_entity(self._context.broker_id)
        await self._store(entity, decide, validate_only)

    async def _store(self, entity: Entity, decide: Decide, validate_only: bool, owner: str | None = None) -> None:
        coord = self._context.coord
        if validate_only:
            decide((await insist(coord, lambda: read_config(coord, entity))).texts)
            return
        await change_config(coord, entity, decide, owner=owner)
        log.info("the configs of %s have changed", entity.path)
        # What cannot be used of it is told by whoever reads it for all.
        await insist(coord, lambda: refresh(coord, self._context.config, entity))

    # ------------------------------------------------------------------------------------------------- whose

    def _require_topic(self, topic: str) -> None:
        if topic not in self._context.metadata.topics:
            raise _unknown_topic(topic)

    def _require_own(self, resource_name: str) -> None:
        if not resource_name:
            raise InvalidRequestError("loggers are those of one broker, which has to be named")
        alter.broker_scope(resource_name, self._context.broker_id)


def _merged(resources: Iterable[DescribeConfigsResource]) -> list[tuple[Name, Keys]]:
    """Each resource once, with all the keys that are asked for; None for all that there are."""
    merged: dict[Name, set[str] | None] = {}
    for each in resources:
        resource, keys = (each.resource_type, each.resource_name), each.configuration_keys
        known = merged.setdefault(resource, set())
        if not keys:
            merged[resource] = None
        elif known is not None:
            known.update(keys)
    return list(merged.items())


def _unknown_topic(topic: str) -> KafkaError:
    return UnknownTopicOrPartitionError(f"there is no topic {topic!r}")


def _shown(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(name=each.name, value=each.text, source=each.source) for each in synonyms],
        config_type=entry.kind,
        documentation=entry.documentation if request.include_documentation else None,
    )
