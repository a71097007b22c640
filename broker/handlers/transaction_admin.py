"""DescribeTransactions and ListTransactions: what a coordinator knows, for those who look after a cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Collection

from minikafka.broker.clock import Clock
from minikafka.broker.coordinators.transactions.coordinator import TransactionCoordinator
from minikafka.broker.coordinators.transactions.states import STATE_NAMES
from minikafka.broker.coordinators.transactions.transaction import Transaction
from minikafka.broker.handlers.slices import in_slices
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.transactions import (
    DescribedTransaction,
    DescribedTransactionTopic,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)


def routes(clock: Clock, coordinator: TransactionCoordinator) -> list[Route]:
    handler = _TransactionAdminHandler(clock, coordinator)
    return [
        Route(APIS[65], handler.describe, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID),
        Route(APIS[66], handler.list, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID),
    ]


class _TransactionAdminHandler:
    """See the module's description."""

    def __init__(self, clock: Clock, coordinator: TransactionCoordinator) -> None:
        self._clock = clock
        self._coordinator = coordinator

    def describe(self, call: Call) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
        request: DescribeTransactionsRequest = call.request
        return in_slices(
            dict.fromkeys(request.transactional_ids),
            self._describe,
            lambda states: DescribeTransactionsResponse(transaction_states=states),
        )

    def _describe(self, transactional_id: str) -> DescribedTransaction:
        try:
            txn = self._coordinator.describe(transactional_id)
        except KafkaError as error:
            return DescribedTransaction(
                error_code=error.code,
                transactional_id=transactional_id,
                transaction_state="",
                transaction_timeout_ms=0,
                transaction_start_time_ms=0,
                producer_id=0,
                producer_epoch=0,
                topics=[],
            )
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(txn.partitions):
            topics.setdefault(topic, []).append(index)
        return DescribedTransaction(
            transactional_id=transactional_id,
            transaction_state=txn.state.shown,
            transaction_timeout_ms=txn.timeout_ms,
            transaction_start_time_ms=txn.started_ms,
            producer_id=txn.producer_id,
            producer_epoch=txn.epoch,
            topics=[DescribedTransactionTopic(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
        )

    def list(self, call: Call) -> ListTransactionsResponse:
        request: ListTransactionsRequest = call.request
        if self._coordinator.shards.is_doubtful:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self._coordinator.shards.is_loading:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        # Sets: there may be as many filters as fit into a request.
        states, producer_ids = frozenset(request.state_filters), frozenset(request.producer_id_filters)
        found = [
            txn
            for txn in self._coordinator.all()
            if self._is_wanted(txn, states, producer_ids, request.duration_filter)
        ]
        return ListTransactionsResponse(
            unknown_state_filters=[each for each in request.state_filters if each not in STATE_NAMES],
            transaction_states=[
                ListedTransaction(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    transaction_state=each.state.shown,
                )
                for each in found
            ],
        )

    def _is_wanted(
        self, txn: Transaction, states: Collection[str], producer_ids: Collection[int], duration_ms: int
    ) -> bool:
        if states and txn.state.shown not in states:
            return False
        if producer_ids and txn.producer_id not in producer_ids:
            return False
        if duration_ms < 0:
            return True
        # Only what runs has a duration; as in Kafka one that has not begun was begun at the beginning of time.
        return self._clock.wall_ms() - txn.started_ms > duration_ms
