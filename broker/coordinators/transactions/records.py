"""Transactions as records of `__transaction_state`, in Kafka's format: its tools read them."""

from __future__ import annotations

from typing import Final

from minikafka.broker.coordinators.journal import Entry
from minikafka.broker.coordinators.transactions.states import State
from minikafka.broker.coordinators.transactions.transaction import NO_ID, VERSION_2, Transaction
from minikafka.protocol.errors import DecodeError
from minikafka.protocol.messages.coordinator_records import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)

_KEY: Final = 0
_VALUE: Final = 0
"""The version that Kafka 3.9 writes, and reads best."""
_VALUE_WITH_VERSION: Final = 1
"""The first with the transaction version and the ids before and after; Kafka 3.9 reads it, and skips these fields."""


def entry(txn: Transaction) -> Entry:
    """What to write; that it is dead is a key without a value."""
    key = TransactionLogKey(transactional_id=txn.transactional_id).dump(_KEY)
    if txn.state is State.DEAD:
        return Entry(key, None)
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(txn.partitions):
        topics.setdefault(topic, []).append(index)
    partitions = [TransactionPartitions(topic=topic, partition_ids=ids) for topic, ids in topics.items()]
    value = TransactionLogValue(
        producer_id=txn.producer_id,
        producer_epoch=txn.epoch,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_status=txn.state.value,
        # As in Kafka, which tells "none yet" from an empty list.
        transaction_partitions=None if txn.state is State.EMPTY else partitions,
        transaction_last_update_timestamp_ms=txn.updated_ms,
        transaction_start_timestamp_ms=txn.started_ms,
        # As in Kafka, which repeats the id if there was none before it.
        previous_producer_id=txn.producer_id if txn.last_producer_id == NO_ID else txn.last_producer_id,
        next_producer_id=txn.next_producer_id,
        client_transaction_version=txn.version,
    )
    return Entry(key, value.dump(_VALUE if txn.version < VERSION_2 else _VALUE_WITH_VERSION))


def read_entry(key: bytes, value: bytes | None) -> tuple[str, Transaction | None] | None:
    """A transactional id and what holds for it, None if that is nothing any more; DecodeError if it says nothing."""
    if len(key) < 2:
        raise DecodeError("a key without a version")
    if int.from_bytes(key[:2], "big", signed=True) != _KEY:
        return None
    transactional_id = TransactionLogKey.parse(key).transactional_id
    return transactional_id, None if value is None else _transaction(transactional_id, TransactionLogValue.parse(value))


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    try:
        state = State(value.transaction_status)
    except ValueError:
        raise DecodeError(f"there is no state {value.transaction_status}") from None
    partitions = value.transaction_partitions or ()
    has_other_id = value.previous_producer_id != value.producer_id
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset((each.topic, index) for each in partitions for index in each.partition_ids),
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        last_producer_id=value.previous_producer_id if has_other_id else NO_ID,
        version=value.client_transaction_version,
        next_producer_id=value.next_producer_id,
    )
