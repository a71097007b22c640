"""CreateTopics, DeleteTopics and CreatePartitions: for the controller, which answers when the cluster has heard.

- Topics are judged one by one; one that is there twice in a request is refused.
- CreateTopics: -1 stands for the broker's own counts in every version. From v5 on the answer has the counts and all
  configs, which are an empty list, not null, where there is an error; from v7 on the topic's id.
- It answers when the leaders serve and this broker has heard of them, or with REQUEST_TIMED_OUT after the client's
  time; a time of 0 asks for that answer at once. The topic is made all the same.
- DeleteTopics answers when the topic is gone, or hidden while a broker that is down keeps it from being removed. A
  topic by id gets its name in the answer; one by name gets no id.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from minikafka.broker.config.describe import describe_topic
from minikafka.broker.context import Context
from minikafka.broker.controller.task import ControllerTask
from minikafka.broker.metadata import NO_LEADER
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.broker.topic_admin import Plan, TopicAdmin
from minikafka.broker.zookeeper.coord import CoordError
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import (
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    NotControllerError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    TopicDeletionDisabledError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreatedTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from minikafka.protocol.schema import ZERO_UUID

log: Final = logging.getLogger(__name__)

_CLUSTER_METADATA: Final = "__cluster_metadata"
"""The log of Kafka's own quorum, which no topic may be called after."""

_BY_ID_VERSION: Final = 6
_DISABLED_VERSION: Final = 3

_WRITE_SECONDS: Final = 30.0
"""For ZooKeeper, where the client gives no time."""


def routes(context: Context, controller: ControllerTask) -> list[Route]:
    handler = _TopicsHandler(context, controller)
    return [
        Route(APIS[19], handler.create, Operation.CREATE, Resource.TOPIC),
        Route(APIS[20], handler.delete, Operation.DELETE, Resource.TOPIC),
        Route(APIS[37], handler.grow, Operation.ALTER, Resource.TOPIC),
    ]


class _Deadline:
    """The time that a client gives."""

    def __init__(self, timeout_ms: int) -> None:
        self._now = asyncio.get_running_loop().time
        self._at = self._now() + timeout_ms / 1000
        self._write_at = self._at if timeout_ms > 0 else self._now() + _WRITE_SECONDS

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._at - self._now())

    async def error_of(self, writing: Awaitable[None]) -> KafkaError | None:
        """What is wrong with a change, or None when it is written."""
        try:
            async with asyncio.timeout_at(self._write_at):
                await writing
        except KafkaError as error:
            return error
        except TimeoutError:
            return RequestTimedOutError()
        except CoordError as error:
            log.error("ZooKeeper does not take it: %s", error)
            return UnknownServerError(str(error))
        return None


class _TopicsHandler:
    """See the module's description."""

    def __init__(self, context: Context, controller: ControllerTask) -> None:
        self._context = context
        self._controller = controller
        self._admin = TopicAdmin.of(context)

    def _require_controller(self) -> None:
        if not self._controller.is_active:
            raise NotControllerError

    def _has_leaders(self, name: str, count: int) -> bool:
        topic = self._context.metadata.topics.get(name)
        return topic is not None and sum(each.leader != NO_LEADER for each in topic.partitions.values()) >= count

    async def _wait_for(self, holds: Callable[[], bool], deadline: _Deadline) -> None:
        if deadline.seconds_left > 0:
            await self._context.metadata.wait_until(holds, deadline.seconds_left)

    # ------------------------------------------------------------------------------------------------ creating

    async def create(self, call: Call) -> CreateTopicsResponse:
        request: CreateTopicsRequest = call.request
        deadline = _Deadline(request.timeout_ms)
        counts = Counter(each.name for each in request.topics)
        results, made = [], []
        for topic in request.topics:
            result = CreatableTopicResult(name=topic.name, configs=[])
            error = await deadline.error_of(self._create(topic, counts[topic.name], request.validate_only, result))
            results.append(result)
            if error is not None:
                _fail(result, error)
            elif not request.validate_only:
                made.append(result)
        await self._wait_for(lambda: all(map(self._is_served, made)), deadline)
        for result in made:
            if not self._is_served(result):
                _fail(result, RequestTimedOutError())
        return CreateTopicsResponse(topics=results)

    async def _create(
        self, topic: CreatableTopic, count: int, validate_only: bool, result: CreatableTopicResult
    ) -> None:
        self._require_controller()
        if count > 1:
            raise InvalidRequestError("Duplicate topic name.")
        if topic.name == _CLUSTER_METADATA:
            raise InvalidRequestError(f"Creation of internal topic {_CLUSTER_METADATA} is prohibited.")
        plan = await self._admin.plan(
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
            [(each.partition_index, each.broker_ids) for each in topic.assignments],
            [(each.name, each.value) for each in topic.configs],
        )
        self._describe(result, plan)
        if not validate_only:
            result.topic_id = await self._admin.create(plan)

    def _describe(self, result: CreatableTopicResult, plan: Plan) -> None:
        result.num_partitions = len(plan.replicas)
        result.replication_factor = plan.replication_factor
        result.configs = [
            CreatedTopicConfig(
                name=each.name,
                value=each.value,
                read_only=each.read_only,
                config_source=each.source,
                is_sensitive=each.sensitive,
            )
            for each in describe_topic(self._context.config.broker, plan.overrides)
        ]

    def _is_served(self, result: CreatableTopicResult) -> bool:
        topic = self._context.metadata.topics.get(result.name)
        is_same = topic is not None and topic.topic_id == result.topic_id
        return is_same and self._has_leaders(result.name, result.num_partitions)

    # ------------------------------------------------------------------------------------------------ deleting

    async def delete(self, call: Call) -> DeleteTopicsResponse:
        request: DeleteTopicsRequest = call.request
        deadline = _Deadline(request.timeout_ms)
        asked = request.topics
        if call.version < _BY_ID_VERSION:
            asked = [DeleteTopicState(name=each, topic_id=ZERO_UUID) for each in request.topic_names]
        results = [DeletableTopicResult(name=each.name, topic_id=each.topic_id) for each in asked]
        if any(each.name is not None and each.topic_id != ZERO_UUID for each in asked):
            for result in results:
                _fail(result, InvalidRequestError("You may not specify both topic name and topic id."))
        else:
            await asyncio.gather(*(self._delete(each, call.version, deadline) for each in results))
        return DeleteTopicsResponse(responses=results)

    async def _delete(self, result: DeletableTopicResult, version: int, deadline: _Deadline) -> None:
        if result.topic_id != ZERO_UUID:
            result.name = self._context.metadata.name_of(result.topic_id)
        error = await deadline.error_of(self._request_deletion(result, version))
        if error is None:
            error = await self._error_until_deleted(result.name or "", deadline)
        if error is not None:
            _fail(result, error)

    async def _request_deletion(self, result: DeletableTopicResult, version: int) -> None:
        self._require_controller()
        if not self._context.config.broker.delete_topic_enable:
            raise TopicDeletionDisabledError if version >= _DISABLED_VERSION else InvalidRequestError
        if result.name is None:
            # Without an id Kafka looks for a name that it may delete, and finds none.
            raise UnknownTopicIdError if result.topic_id != ZERO_UUID else TopicAuthorizationFailedError
        # One that never had a live replica is in nobody's metadata.
        is_known = result.name in self._context.metadata.topics or self._controller.controller.has_topic(result.name)
        if not is_known:
            raise UnknownTopicOrPartitionError
        await self._admin.request_deletion(result.name)

    async def _error_until_deleted(self, name: str, deadline: _Deadline) -> KafkaError | None:
        topics = self._context.metadata.topics
        topic = topics.get(name)
        try:
            async with asyncio.timeout(deadline.seconds_left):
                await self._controller.controller.wait_deleted(name)
        except TimeoutError:
            return RequestTimedOutError()
        except NotControllerError as error:
            return error
        await self._wait_for(lambda: topic is None or topics.get(name) is not topic, deadline)
        return None if topic is None or topics.get(name) is not topic else RequestTimedOutError()

    # ------------------------------------------------------------------------------------------------- growing

    async def grow(self, call: Call) -> CreatePartitionsResponse:
        request: CreatePartitionsRequest = call.request
        deadline = _Deadline(request.timeout_ms)
        counts = Counter(each.name for each in request.topics)
        results, grown = [], []
        # Each name is once in the answer, however often it is in the request.
        for topic in {each.name: each for each in request.topics}.values():
            result = CreatePartitionsTopicResult(name=topic.name)
            error = await deadline.error_of(self._grow(topic, counts[topic.name], request.validate_only))
            results.append(result)
            if error is not None:
                _fail(result, error)
            elif not request.validate_only:
                grown.append((result, topic.count))
        await self._wait_for(lambda: all(self._has_leaders(each.name, count) for each, count in grown), deadline)
        for result, count in grown:
            if not self._has_leaders(result.name, count):
                _fail(result, RequestTimedOutError())
        return CreatePartitionsResponse(results=results)

    async def _grow(self, topic: CreatePartitionsTopic, count: int, validate_only: bool) -> None:
        self._require_controller()
        if count > 1:
            raise InvalidRequestError("Duplicate topic in request.")
        if self._controller.controller.is_deleted(topic.name):
            raise InvalidTopicError("The topic is queued for deletion.")
        replicas = None if topic.assignments is None else [each.broker_ids for each in topic.assignments]
        await self._admin.add_partitions(topic.name, topic.count, replicas, validate_only=validate_only)


def _fail(result: CreatableTopicResult | DeletableTopicResult | CreatePartitionsTopicResult, error: KafkaError) -> None:
    result.error_code = error.code
    result.error_message = error.message
    if isinstance(result, CreatableTopicResult):
        result.topic_id, result.num_partitions, result.replication_factor, result.configs = ZERO_UUID, -1, -1, []
