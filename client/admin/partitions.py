"""What only the leader of a partition knows or does: offsets, deleting records, who writes to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from minikafka.client.admin.asking import by_topic, verdict
from minikafka.client.admin.calls import Calls
from minikafka.client.admin.results import Results
from minikafka.client.structs import OffsetAndTimestamp, TopicPartition
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from minikafka.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopic,
    ProducerState,
)

_CLIENT = -1


class OffsetSpec(IntEnum):
    """Which offset is asked for, where it is not that of a time."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


@dataclass(frozen=True, slots=True)
class RecordsToDelete:
    """Delete all records before an offset; -1 is the end of the log."""

    before_offset: int


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that has written to a partition, as its leader remembers it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int | None
    """Where its open transaction begins; None if it has none."""


class PartitionCalls(Calls):
    """See the module's description."""

    async def list_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetSpec | int],
        *,
        read_committed: bool = False,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, OffsetAndTimestamp]:
        """Where logs begin or end, or the first record at or after a time in ms; an offset of -1 if there is none.

        `read_committed` makes the end the last stable offset: before the first transaction that is open.
        """
        asker = self._ask
        wanted = {TopicPartition(*tp): int(spec) for tp, spec in offsets.items()}

        async def ask(
            node_id: int, asked: list[TopicPartition]
        ) -> Mapping[TopicPartition, OffsetAndTimestamp | KafkaError]:
            topics: dict[str, list[ListOffsetsPartition]] = {}
            for tp in asked:
                epoch = asker.cluster.leader_epoch(*tp)
                topics.setdefault(tp.topic, []).append(
                    ListOffsetsPartition(partition_index=tp.partition, current_leader_epoch=epoch, timestamp=wanted[tp])
                )
            request = ListOffsetsRequest(
                replica_id=_CLIENT,
                isolation_level=int(read_committed),
                topics=[ListOffsetsTopic(name=topic, partitions=each) for topic, each in topics.items()],
            )
            lowest = 7 if OffsetSpec.MAX_TIMESTAMP in wanted.values() else 1
            answer: ListOffsetsResponse = await asker.cluster.request(node_id, request, min_version=lowest)
            return {
                TopicPartition(topic.name, each.partition_index): verdict(each.error_code)
                or OffsetAndTimestamp(each.offset, each.timestamp, each.leader_epoch)
                for topic in answer.topics
                for each in topic.partitions
            }

        return (await asker.settle(wanted, asker.at_leaders, ask)).checked(raise_errors)

    async def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, RecordsToDelete | int],
        *,
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, int]:
        """Delete records before an offset, on all replicas; where each log begins afterwards."""
        asker, wait_ms = self._ask, self._wait_ms(timeout_ms)
        before = {
            TopicPartition(*tp): given if isinstance(given, int) else given.before_offset
            for tp, given in records_to_delete.items()
        }

        async def ask(node_id: int, asked: list[TopicPartition]) -> Mapping[TopicPartition, int | KafkaError]:
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(partition_index=index, offset=before[TopicPartition(topic, index)])
                            for index in indexes
                        ],
                    )
                    for topic, indexes in by_topic(asked).items()
                ],
                timeout_ms=wait_ms,
            )
            answer: DeleteRecordsResponse = await asker.request(node_id, request, wait_ms=wait_ms)
            return {
                TopicPartition(topic.name, each.partition_index): verdict(each.error_code) or each.low_watermark
                for topic in answer.topics
                for each in topic.partitions
            }

        return (await asker.settle(before, asker.at_leaders, ask)).checked(raise_errors)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, raise_errors: bool = True
    ) -> Results[TopicPartition, tuple[ActiveProducer, ...]]:
        """Who has written to partitions with a producer id, and whose transactions are open."""
        asker = self._ask
        wanted = [TopicPartition(*each) for each in partitions]

        async def ask(
            node_id: int, asked: list[TopicPartition]
        ) -> Mapping[TopicPartition, tuple[ActiveProducer, ...] | KafkaError]:
            request = DescribeProducersRequest(
                topics=[
                    DescribeProducersTopic(name=topic, partition_indexes=indexes)
                    for topic, indexes in by_topic(asked).items()
                ]
            )
            answer: DescribeProducersResponse = await asker.request(node_id, request)
            return {
                TopicPartition(topic.name, each.partition_index): verdict(each.error_code, each.error_message)
                or tuple(map(_producer, each.active_producers))
                for topic in answer.topics
                for each in topic.partitions
            }

        return (await asker.settle(wanted, asker.at_leaders, ask)).checked(raise_errors)


def _producer(state: ProducerState) -> ActiveProducer:
    start = state.current_txn_start_offset
    return ActiveProducer(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch,
        None if start < 0 else start,
    )
