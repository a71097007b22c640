"""Transactions: list, describe, and end one that hangs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from minikafka.client.admin.asking import raise_for, verdict
from minikafka.client.admin.calls import Calls
from minikafka.client.admin.results import Results
from minikafka.client.cluster import CoordinatorKind
from minikafka.client.errors import ConfigError
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The latest transaction of a transactional id."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    """None if none is under way."""
    partitions: tuple[TopicPartition, ...]
    coordinator: int


class TransactionCalls(Calls):
    """See the module's description. Producers are found by `describe_producers`."""

    async def list_transactions(
        self, *, states: Collection[str] = (), producer_ids: Collection[int] = (), longer_than_ms: int | None = None
    ) -> list[TransactionListing]:
        """All transactional ids, or those in some states, of some producers, or under way for long."""
        asker = self._ask
        request = ListTransactionsRequest(
            state_filters=[*states],
            producer_id_filters=[*producer_ids],
            duration_filter=-1 if longer_than_ms is None else longer_than_ms,
        )
        lowest = 0 if longer_than_ms is None else 1

        async def ask(node_id: int, _: list[int]) -> Mapping[int, list[TransactionListing] | KafkaError]:
            answer: ListTransactionsResponse = await asker.cluster.request(node_id, request, min_version=lowest)
            if answer.unknown_state_filters:
                raise ConfigError(f"there is no state {answer.unknown_state_filters[0]!r} of transactions")
            found = [
                TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, node_id)
                for each in answer.transaction_states
            ]
            return {node_id: verdict(answer.error_code) or found}

        nodes = (await asker.cluster.refresh()).brokers
        results = (await asker.settle(nodes, asker.at_themselves, ask)).checked(True)
        listed = [each for found in results.values() for each in found]
        return sorted(listed, key=lambda each: each.transactional_id)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, raise_errors: bool = True
    ) -> Results[str, TransactionDescription]:
        """The state of transactional ids, and the partitions of what they are doing."""
        asker = self._ask

        async def ask(node_id: int, ids: list[str]) -> Mapping[str, TransactionDescription | KafkaError]:
            request = DescribeTransactionsRequest(transactional_ids=ids)
            answer: DescribeTransactionsResponse = await asker.request(node_id, request)
            answers = {
                each.transactional_id: verdict(each.error_code) or _described(each, node_id)
                for each in answer.transaction_states
            }
            asker.forget_coordinators(CoordinatorKind.TRANSACTION, answers)
            return answers

        locate = asker.at_coordinators(CoordinatorKind.TRANSACTION)
        return (await asker.settle(transactional_ids, locate, ask)).checked(raise_errors)

    async def abort_transaction(
        self, partition: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int = -1
    ) -> None:
        """End a transaction on a partition of which no coordinator knows any more, so that readers can go on.

        The numbers are those that `describe_producers` tells. For any other transaction its own producer, or the
        coordinator when its time is over, does that.
        """
        asker = self._ask
        place = TopicPartition(*partition)
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition])],
            coordinator_epoch=coordinator_epoch,
        )

        async def ask(node_id: int, _: list[TopicPartition]) -> Mapping[TopicPartition, KafkaError | None]:
            answer: WriteTxnMarkersResponse = await asker.request(node_id, WriteTxnMarkersRequest(markers=[marker]))
            for topic in (topic for result in answer.markers for topic in result.topics):
                for each in topic.partitions:
                    raise_for(each.error_code)
            return {place: None}

        results: Results[TopicPartition, None] = await asker.settle([place], asker.at_leaders, ask)
        results.checked(True)


def _described(answer: DescribedTransaction, node_id: int) -> TransactionDescription:
    return TransactionDescription(
        answer.transactional_id,
        answer.transaction_state,
        answer.producer_id,
        answer.producer_epoch,
        answer.transaction_timeout_ms,
        answer.transaction_start_time_ms if answer.transaction_start_time_ms >= 0 else None,
        tuple(TopicPartition(topic.topic, index) for topic in answer.topics for index in topic.partitions),
        node_id,
    )
