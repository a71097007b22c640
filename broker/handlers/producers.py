"""InitProducerId and DescribeProducers: who writes, and what is known of it.

A producer without a transactional id gets a new id every time, whatever it says of itself; v3 lets it say so. With one
it goes on as whoever had the name before, at the next epoch, and v3 lets it say who it believes to be. That it was
replaced it is told by PRODUCER_FENCED since v4.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.coordinators.transactions.coordinator import TransactionCoordinator
from minikafka.broker.coordinators.transactions.transaction import NO_EPOCH, NO_ID, Identity
from minikafka.broker.handlers.slices import by_topic, in_slices
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode, InvalidRequestError, KafkaError
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

_FENCED_SINCE: Final = 4


def routes(context: Context, transactions: TransactionCoordinator) -> list[Route]:
    handler = _ProducersHandler(context, transactions)
    return [
        Route(APIS[22], handler.init_producer_id, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER),
        Route(APIS[61], handler.describe, Operation.READ, Resource.TOPIC),
    ]


class _ProducersHandler:
    """See the module's description."""

    def __init__(self, context: Context, transactions: TransactionCoordinator) -> None:
        self._context = context
        self._transactions = transactions

    def init_producer_id(self, call: Call) -> Awaitable[InitProducerIdResponse]:
        return self._init_producer_id(call)

    async def _init_producer_id(self, call: Call) -> InitProducerIdResponse:
        try:
            producer_id, epoch = await self._session(call.request)
        except KafkaError as error:
            is_old = error.code is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE
            code = ErrorCode.INVALID_PRODUCER_EPOCH if is_old else error.code
            return InitProducerIdResponse(error_code=code, producer_id=NO_ID, producer_epoch=NO_EPOCH)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)

    async def _session(self, request: InitProducerIdRequest) -> Identity:
        if (request.producer_id == NO_ID) is not (request.producer_epoch == NO_EPOCH):
            raise InvalidRequestError("a producer id and its epoch are given both, or neither")
        if request.transactional_id is None:
            return Identity(await self._transactions.new_id(), 0)
        expected = Identity(request.producer_id, request.producer_epoch) if request.producer_id != NO_ID else None
        return await self._transactions.begin_session(
            request.transactional_id, request.transaction_timeout_ms, expected
        )

    def describe(self, call: Call) -> DescribeProducersResponse | Awaitable[DescribeProducersResponse]:
        request: DescribeProducersRequest = call.request
        topics = by_topic((topic.name, index) for topic in request.topics for index in topic.partition_indexes)
        return in_slices(
            topics,
            lambda topic: DescribedProducersTopic(
                name=topic[0], partitions=[self._describe(topic[0], index) for index in topic[1]]
            ),
            lambda described: DescribeProducersResponse(topics=described),
            at_once=1,
        )

    def _describe(self, topic: str, index: int) -> DescribedProducersPartition:
        answer = DescribedProducersPartition(partition_index=index, active_producers=[])
        try:
            check_topic_name(topic)
            partition = self._context.partitions.get(topic, index)
            self._context.contact.check(partition)
            producers = partition.log.producers
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
