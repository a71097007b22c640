"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers: a transaction from its first partition to its markers.

- AddPartitionsToTxn adds all partitions or none. Up to v3 it is one producer's; from v4 on brokers ask about several,
  and may only want to know, or add them for a producer of transaction version 2 (KIP-890).
- EndTxn is of transaction version 2 since v5, and answers who the producer is from then on.
- A producer that was replaced is told PRODUCER_FENCED since v2, and before that INVALID_PRODUCER_EPOCH.
- WriteTxnMarkers comes from coordinators, and from tools that end a transaction nobody coordinates any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.coordinators.confirming import Confirmer
from minikafka.broker.coordinators.groups.coordinator import GroupCoordinator
from minikafka.broker.coordinators.transactions.coordinator import TransactionCoordinator
from minikafka.broker.coordinators.transactions.late_markers import LateMarkers
from minikafka.broker.coordinators.transactions.transaction import VERSION_2, Identity, Name
from minikafka.broker.coordinators.transactions.writing import Marker, MarkerWriter, Outcomes
from minikafka.broker.internal_topics import GROUP_OFFSETS
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.hashing import coordinator_partition
from minikafka.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_MANY_SINCE: Final = 4
_VERSION_2_SINCE: Final = 5
_FENCED_SINCE: Final = 2


def routes(
    context: Context,
    transactions: TransactionCoordinator,
    groups: GroupCoordinator,
    writer: MarkerWriter,
    late_markers: LateMarkers,
    confirmer: Confirmer,
) -> list[Route]:
    handler = _TransactionsHandler(context, transactions, groups, writer, late_markers, confirmer)
    write, transactional_id = Operation.WRITE, Resource.TRANSACTIONAL_ID
    return [
        Route(APIS[24], handler.add_partitions, write, transactional_id),
        Route(APIS[25], handler.add_offsets, write, transactional_id),
        Route(APIS[26], handler.end, write, transactional_id),
        Route(APIS[27], handler.write_markers, Operation.CLUSTER_ACTION, Resource.CLUSTER),
    ]


class _TransactionsHandler:
    """See the module's description."""

    def __init__(
        self,
        context: Context,
        transactions: TransactionCoordinator,
        groups: GroupCoordinator,
        writer: MarkerWriter,
        late_markers: LateMarkers,
        confirmer: Confirmer,
    ) -> None:
        self._context = context
        self._transactions = transactions
        self._groups = groups
        self._writer = writer
        self._late_markers = late_markers
        self._confirmer = confirmer

    # ---------------------------------------------------------------------------------------------------- partitions

    def add_partitions(self, call: Call) -> Awaitable[AddPartitionsToTxnResponse]:
        return self._add_many(call) if call.version >= _MANY_SINCE else self._add_one(call)

    async def _add_one(self, call: Call) -> AddPartitionsToTxnResponse:
        request: AddPartitionsToTxnRequest = call.request
        names = _names(request.v3_and_below_topics)
        who = Identity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        codes = await self._add(call, request.v3_and_below_transactional_id, who, names)
        found = _by_topic(request.v3_and_below_topics, codes)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=found)

    async def _add_many(self, call: Call) -> AddPartitionsToTxnResponse:
        request: AddPartitionsToTxnRequest = call.request
        results = await asyncio.gather(*(self._add_or_verify(call, each) for each in request.transactions))
        return AddPartitionsToTxnResponse(results_by_transaction=list(results))

    async def _add_or_verify(self, call: Call, asked: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
        names, who = _names(asked.topics), Identity(asked.producer_id, asked.producer_epoch)
        if asked.verify_only:
            codes = await self._verify(asked.transactional_id, who, names)
        else:
            codes = await self._add_for_leader(asked.transactional_id, who, names)
        found = _by_topic(asked.topics, codes)
        return AddPartitionsToTxnResult(transactional_id=asked.transactional_id, topic_results=found)

    async def _add(self, call: Call, transactional_id: str, who: Identity, names: list[Name]) -> Outcomes:
        unknown = {name for name in names if self._context.metadata.partition(*name) is None}
        if unknown:
            other, missing = ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return {name: missing if name in unknown else other for name in names}
        try:
            if names:
                await self._transactions.add_partitions(transactional_id, who, names, call.connection.number)
        except KafkaError as error:
            return dict.fromkeys(names, _code(error, call.version))
        return dict.fromkeys(names, ErrorCode.NONE)

    async def _add_for_leader(self, transactional_id: str, who: Identity, names: list[Name]) -> Outcomes:
        """The leader knows that they exist, even if this broker has not heard of them yet."""
        try:
            await self._confirmer.check(self._transactions.shards.partition_of(transactional_id))
            await self._transactions.add_for_leader(transactional_id, who, names)
        except KafkaError as error:
            return dict.fromkeys(names, error.code)
        return dict.fromkeys(names, ErrorCode.NONE)

    async def _verify(self, transactional_id: str, who: Identity, names: list[Name]) -> Outcomes:
        try:
            await self._confirmer.check(self._transactions.shards.partition_of(transactional_id))
            return self._transactions.verify(transactional_id, who, names)
        except KafkaError as error:
            return dict.fromkeys(names, error.code)

    def add_offsets(self, call: Call) -> Awaitable[AddOffsetsToTxnResponse]:
        return self._add_offsets(call)

    async def _add_offsets(self, call: Call) -> AddOffsetsToTxnResponse:
        request: AddOffsetsToTxnRequest = call.request
        who = Identity(request.producer_id, request.producer_epoch)
        try:
            name = (GROUP_OFFSETS, self._offsets_partition(request.group_id))
            await self._transactions.add_partitions(request.transactional_id, who, [name], call.connection.number)
        except KafkaError as error:
            return AddOffsetsToTxnResponse(error_code=_code(error, call.version))
        return AddOffsetsToTxnResponse()

    def _offsets_partition(self, group_id: str) -> int:
        index = self._groups.shards.index_of(group_id)
        if index >= 0:
            return index
        # The topic is made when somebody looks for the group's coordinator, which a producer does after this.
        return coordinator_partition(group_id, self._context.config.broker.offsets_topic_num_partitions)

    # -------------------------------------------------------------------------------------------------------- the end

    def end(self, call: Call) -> Awaitable[EndTxnResponse | None]:
        return self._end(call)

    async def _end(self, call: Call) -> EndTxnResponse | None:
        request: EndTxnRequest = call.request
        who = Identity(request.producer_id, request.producer_epoch)
        try:
            if self._transactions.is_late(request.transactional_id, call.connection.number):
                # Nobody waits at the other end. If somebody does after all, it asks again over a newer connection.
                call.connection.close()
                return None
            version = VERSION_2 if call.version >= _VERSION_2_SINCE else 0
            after = await self._transactions.end(
                request.transactional_id, who, is_committed=request.committed, version=version
            )
        except KafkaError as error:
            return EndTxnResponse(error_code=_code(error, call.version))
        return EndTxnResponse(producer_id=after.producer_id, producer_epoch=after.epoch)

    def write_markers(self, call: Call) -> Awaitable[WriteTxnMarkersResponse | None]:
        return self._write_markers(call)

    async def _write_markers(self, call: Call) -> WriteTxnMarkersResponse | None:
        request: WriteTxnMarkersRequest = call.request
        markers = [_marker(each) for each in request.markers]
        if self._late_markers.is_late(call, (name for marker in markers for name in marker.partitions)):
            call.connection.close()
            return None
        may_commit = self._late_markers.is_from_broker(call)
        outcomes = await asyncio.gather(
            *(self._writer.write(each) if may_commit or not each.is_committed else _refused(each) for each in markers)
        )
        return WriteTxnMarkersResponse(
            markers=[_written(*each) for each in zip(request.markers, outcomes, strict=True)]
        )


def _code(error: KafkaError, version: int) -> ErrorCode:
    if error.code is ErrorCode.PRODUCER_FENCED and version < _FENCED_SINCE:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code


def _names(topics: Iterable[AddPartitionsToTxnTopic]) -> list[Name]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _by_topic(
    asked: Iterable[AddPartitionsToTxnTopic], codes: Mapping[Name, ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=each, partition_error_code=codes[topic.name, each])
                for each in topic.partitions
            ],
        )
        for topic in asked
    ]


def _marker(asked: WritableTxnMarker) -> Marker:
    partitions = tuple((topic.name, index) for topic in asked.topics for index in topic.partition_indexes)
    return Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.transaction_result,
        asked.coordinator_epoch,
        partitions,
        asked.transaction_version,
    )


async def _refused(marker: Marker) -> Outcomes:
    """A coordinator of which this broker has not heard yet asks again."""
    return dict.fromkeys(marker.partitions, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _written(asked: WritableTxnMarker, codes: Mapping[Name, ErrorCode]) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=asked.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=each, error_code=codes[topic.name, each])
                    for each in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ],
    )
