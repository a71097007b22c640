"""Transactions that a task begins and the driver ends.

Ending one takes no more than its id, producer id and epoch, so whoever knows these can do it, and can ask for the same
end again: an end that was asked for twice is done once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from functools import partial
from typing import Any, Final, NamedTuple

from minikafka.client.cluster import Cluster, CoordinatorKind
from minikafka.client.producer.coordinator import ask_coordinator
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from minikafka.spark_jobs.errors import TransactionLost
from minikafka.spark_jobs.link import Link
from minikafka.spark_jobs.options import ReaderConfig

_OPEN: Final = "Ongoing"

# Each is a round trip to its coordinator, and there are as many as a batch has tasks.
_AT_A_TIME: Final = 16


class Transaction(NamedTuple):
    """A transaction that is open, or was."""

    id: str
    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.id} (producer {self.producer_id}, epoch {self.epoch})"


def check_open(link: Link[ReaderConfig], transactions: Iterable[Transaction]) -> None:
    """Raise TransactionLost unless all of them could be committed now: the last look before it is decided to."""

    async def ask(cluster: Cluster, transaction: Transaction) -> None:
        found = await cluster.retry(lambda: _describe(cluster, transaction))
        if (found.transaction_state, found.producer_id, found.producer_epoch) != (_OPEN, *transaction[1:]):
            raise TransactionLost(
                f"transaction {transaction} was ended before it could be committed: either it was open for longer "
                "than kafka.transaction.timeout.ms, or its task was started twice (is spark.speculation on?)"
            )

    link.run(lambda cluster: _for_all(cluster, transactions, ask))


async def _for_all(
    cluster: Cluster,
    transactions: Iterable[Transaction],
    ask: Callable[[Cluster, Transaction], Coroutine[Any, Any, None]],
) -> None:
    """Ask for all, some at a time. What one fails with is raised when all others have been asked for too."""
    limit = asyncio.Semaphore(_AT_A_TIME)

    async def one(transaction: Transaction) -> None:
        async with limit:
            await ask(cluster, transaction)

    for outcome in await asyncio.gather(*map(one, transactions), return_exceptions=True):
        if outcome is not None:
            raise outcome


async def _describe(cluster: Cluster, transaction: Transaction) -> DescribedTransaction:
    request = DescribeTransactionsRequest(transactional_ids=[transaction.id])
    answer: DescribeTransactionsResponse = await ask_coordinator(
        cluster, CoordinatorKind.TRANSACTION, transaction.id, request
    )
    (found,) = answer.transaction_states
    _raise(cluster, transaction, found.error_code)
    return found


def end(link: Link[ReaderConfig], transactions: Iterable[Transaction], *, committed: bool) -> None:
    """End as many as can be. TransactionLost if somebody else has ended one differently."""

    async def ask(cluster: Cluster, transaction: Transaction) -> None:
        try:
            await cluster.retry(lambda: _end(cluster, transaction, committed))
        except KafkaError as error:
            if error.retriable:
                raise
            raise TransactionLost(
                f"transaction {transaction} could not be {'committed' if committed else 'aborted'}: {error}"
            ) from error

    link.run(lambda cluster: _for_all(cluster, transactions, ask))


async def _end(cluster: Cluster, transaction: Transaction, committed: bool) -> None:
    request = EndTxnRequest(
        transactional_id=transaction.id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        committed=committed,
    )
    answer: EndTxnResponse = await ask_coordinator(cluster, CoordinatorKind.TRANSACTION, transaction.id, request)
    _raise(cluster, transaction, answer.error_code)


def abort_open(
    link: Link[ReaderConfig], is_wanted: Callable[[str], bool], decided: Collection[Transaction], timeout_ms: int
) -> None:
    """Abort the open transactions with such ids, of any producer, but for those that are to be committed."""

    async def ask(cluster: Cluster) -> None:
        for name in await _list_open(cluster):
            if is_wanted(name):
                await cluster.retry(partial(_abort_unless_decided, cluster, name, decided, timeout_ms))

    link.run(ask)


async def _abort_unless_decided(cluster: Cluster, name: str, decided: Collection[Transaction], timeout_ms: int) -> None:
    found = await _describe(cluster, Transaction(name, -1, -1))
    is_decided = Transaction(name, found.producer_id, found.producer_epoch) in decided
    if found.transaction_state == _OPEN and not is_decided:
        await _fence(cluster, name, timeout_ms)


async def _list_open(cluster: Cluster) -> list[str]:
    async def ask(node_id: int) -> list[str]:
        request = ListTransactionsRequest(state_filters=[_OPEN], producer_id_filters=[])
        answer: ListTransactionsResponse = await cluster.request(node_id, request)
        if answer.error_code:
            raise error_for(answer.error_code, "the list of transactions")
        return [listed.transactional_id for listed in answer.transaction_states]

    lists = [await cluster.retry(partial(ask, node_id)) for node_id in cluster.metadata.brokers]
    return [name for names in lists for name in names]


async def _fence(cluster: Cluster, name: str, timeout_ms: int) -> None:
    """Abort by asking for the id: the coordinator answers CONCURRENT_TRANSACTIONS until that is done."""
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms)
    answer: InitProducerIdResponse = await ask_coordinator(cluster, CoordinatorKind.TRANSACTION, name, request)
    if answer.error_code:
        raise error_for(answer.error_code, f"transaction {name}")


def _raise(cluster: Cluster, transaction: Transaction, code: int) -> None:
    if code:
        error = error_for(code, f"transaction {transaction.id}")
        if error.retriable:
            cluster.invalidate_coordinator(CoordinatorKind.TRANSACTION, transaction.id)
        raise error
