"""A transactional producer whose steps are taken one by one: each method is one request, and nothing is done besides.

A step may be taken again when nobody knows what became of it: batches have their sequence numbers, and a transaction
that has ended as it should is told so again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from minikafka.protocol.message import Request
from minikafka.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minikafka.protocol.records import BatchBuilder
from tests.chaos.coordinators.wire import GROUP, TRANSACTION, Address, Connection, Place, Wire, check

PRODUCE_TIMEOUT_MS = 5_000
DUPLICATE_SEQUENCE_NUMBER = 46

_INIT_VERSION = 4
_ADD_VERSION = 3
_END_VERSION = 3
_OFFSETS_VERSION = 3
_PRODUCE_VERSION = 9
_OFFSET_FETCH_VERSION = 8


class Transaction:
    """One producer, and the transaction it is in."""

    def __init__(self, wire: Wire, transactional_id: str, timeout_ms: int) -> None:
        self.wire = wire
        self.name = transactional_id
        self._timeout_ms = timeout_ms
        self.producer_id = -1
        self.epoch = -1
        self._sequences: dict[Place, int] = {}

    def _ask(self, request: Request, version: int) -> int:
        """The error that a coordinator has answered with."""
        answer = self.wire.ask_coordinator(TRANSACTION, self.name, request, version)
        return int(answer.error_code)

    def init(self) -> None:
        """Become the one with this name; whatever the one before has left open is aborted."""
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=self._timeout_ms)
        answer = self.wire.ask_coordinator(TRANSACTION, self.name, request, _INIT_VERSION)
        check(answer.error_code)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    def add_partitions(self, places: Sequence[Place]) -> None:
        topics = {place.topic: [each.partition for each in places if each.topic == place.topic] for place in places}
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=some) for name, some in topics.items()],
        )
        answer = self.wire.ask_coordinator(TRANSACTION, self.name, request, _ADD_VERSION)
        for topic in answer.results_by_topic_v3_and_below:
            for partition in topic.results_by_partition:
                check(partition.partition_error_code)

    def produce(self, place: Place, values: Sequence[bytes]) -> None:
        """Once it has succeeded, the next batch follows."""
        first = self._sequences.get(place, 0)
        data = PartitionProduceData(index=place.partition, records=self._batch(values, first))
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=place.topic, partition_data=[data])],
        )
        answer = self.wire.ask_leader(place, request, _PRODUCE_VERSION)
        code = answer.responses[0].partition_responses[0].error_code
        if code != DUPLICATE_SEQUENCE_NUMBER:
            check(code)
        self._sequences[place] = first + len(values)

    def _batch(self, values: Sequence[bytes], first: int) -> bytearray:
        builder = BatchBuilder()
        for value in values:
            builder.append(int(time.time() * 1000), None, value)
        return builder.build(
            producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=first, is_transactional=True
        )

    def add_offsets(self, group: str) -> None:
        check(
            self._ask(
                AddOffsetsToTxnRequest(
                    transactional_id=self.name,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    group_id=group,
                ),
                _ADD_VERSION,
            )
        )

    def commit_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        topics = [
            TxnOffsetCommitRequestTopic(
                name=place.topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=place.partition, committed_offset=offset, committed_metadata=""
                    )
                ],
            )
            for place, offset in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=topics,
        )
        answer = self.wire.ask_coordinator(GROUP, group, request, _OFFSETS_VERSION)
        for topic in answer.topics:
            for partition in topic.partitions:
                check(partition.error_code)

    def end(self, *, commit: bool) -> None:
        check(self._ask(self._end_request(commit), _END_VERSION))

    def send_end(self, address: Address, *, commit: bool) -> Connection:
        """The same, to an address and without waiting for the answer."""
        connection = self.wire.connect(address)
        connection.send(self._end_request(commit), _END_VERSION)
        return connection

    def _end_request(self, commit: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )


def stable_offset(wire: Wire, group: str, place: Place) -> int:
    """What a group has committed, 0 if nothing; refused as long as a transaction may change it."""
    wanted = OffsetFetchRequestGroupTopic(name=place.topic, partition_indexes=[place.partition])
    groups = [OffsetFetchRequestGroup(group_id=group, topics=[wanted])]
    request = OffsetFetchRequest(groups=groups, require_stable=True)
    (answer,) = wire.ask_coordinator(GROUP, group, request, _OFFSET_FETCH_VERSION).groups
    check(answer.error_code)
    (found,) = answer.topics[0].partitions
    check(found.error_code)
    return max(0, int(found.committed_offset))
