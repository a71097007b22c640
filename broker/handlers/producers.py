"""InitProducerId and DescribeProducers: who writes, and what is known of it.

A producer without a transactional id gets a new id every time, whatever it says of itself; v3 lets it say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from minikafka.broker.context import Context
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.broker.producer_ids import ProducerIds
from minikafka.broker.zookeeper.coord import CoordError
from minikafka.broker.zookeeper.registration import allocate_producer_ids
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import CoordinatorNotAvailableError, InvalidRequestError, KafkaError
from minikafka.protocol.messages.transactions import (
    DescribedProducersPartition,
    DescribedProducersTopic,
    DescribeProducersRequest,
    DescribeProducersResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducerState,
)
from minikafka.storage.formats import check_topic_name

_NO_ID = -1
_NO_EPOCH = -1


def routes(context: Context) -> list[Route]:
    handler = _ProducersHandler(context)
    return [
        Route(APIS[22], handler.init_producer_id, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER),
        Route(APIS[61], handler.describe, Operation.READ, Resource.TOPIC),
    ]


class _ProducersHandler:
    """See the module's description."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._ids = ProducerIds(lambda: allocate_producer_ids(context.coord, context.broker_id))

    def init_producer_id(self, call: Call) -> Awaitable[InitProducerIdResponse]:
        return self._init_producer_id(call.request)

    async def _init_producer_id(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        try:
            return InitProducerIdResponse(producer_id=await self._new_id(request), producer_epoch=0)
        except KafkaError as error:
            return InitProducerIdResponse(error_code=error.code, producer_id=_NO_ID, producer_epoch=_NO_EPOCH)

    async def _new_id(self, request: InitProducerIdRequest) -> int:
        if (request.producer_id == _NO_ID) is not (request.producer_epoch == _NO_EPOCH):
            raise InvalidRequestError("a producer id and its epoch are given both, or neither")
        if request.transactional_id is not None:
            if not request.transactional_id:
                raise InvalidRequestError("a transactional id cannot be empty")
            raise CoordinatorNotAvailableError("there is no transaction coordinator")
        try:
            async with asyncio.timeout(self._context.config.broker.request_timeout_ms / 1000):
                return await self._ids.next()
        except (TimeoutError, CoordError) as error:
            raise CoordinatorNotAvailableError(f"no producer ids can be had from ZooKeeper: {error}") from None

    def describe(self, call: Call) -> DescribeProducersResponse:
        request: DescribeProducersRequest = call.request
        return DescribeProducersResponse(
            topics=[
                DescribedProducersTopic(
                    name=topic.name, partitions=[self._describe(topic.name, each) for each in topic.partition_indexes]
                )
                for topic in request.topics
            ]
        )

    def _describe(self, topic: str, index: int) -> DescribedProducersPartition:
        answer = DescribedProducersPartition(partition_index=index, active_producers=[])
        try:
            check_topic_name(topic)
            producers = self._context.partitions.get(topic, index).log.producers
            answer.active_producers = [
                ProducerState(
                    producer_id=each.producer_id,
                    producer_epoch=each.producer_epoch,
                    last_sequence=each.last_sequence,
                    last_timestamp=each.last_timestamp,
                    coordinator_epoch=each.coordinator_epoch,
                    current_txn_start_offset=each.current_txn_first_offset,
                )
                for each in producers.snapshot()
            ]
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
        return answer
