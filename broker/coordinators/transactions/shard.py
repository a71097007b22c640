"""The transactions of one partition of `__transaction_state`: loaded from it, kept in memory, written to it.

A change is written first and holds when all in-sync replicas have it. While it is on its way nothing else may change
the same transaction. It may take longer than whoever asked will wait; it is in the log all the same, so it stays on its
way until it holds, or until somebody else coordinates.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.coordinators.journal import Journal, Written
from minikafka.broker.coordinators.transactions import transaction as rules
from minikafka.broker.coordinators.transactions.records import entry, read_entry
from minikafka.broker.coordinators.transactions.states import DECIDED, State
from minikafka.broker.coordinators.transactions.transaction import VERSION_2, Transaction
from minikafka.protocol.errors import ConcurrentTransactionsError, DecodeError, ErrorCode, KafkaError, error_for
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.reader import iter_records

log: Final = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.1

_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What becomes of an error of the log for a producer."""


def _told(error: KafkaError) -> KafkaError:
    return error_for(_ERRORS[error.code], error.message) if error.code in _ERRORS else error


class TransactionShard:
    """See the module's description; `on_decided` is given what has to be told to partitions."""

    def __init__(
        self, context: Context, journal: Journal, on_decided: Callable[[TransactionShard, Transaction], None]
    ) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._context = context
        self._journal = journal
        self._on_decided = on_decided
        self._on_the_way: dict[str, Transaction] = {}
        self._at_rest: dict[str, list[asyncio.Future[None]]] = {}
        # By transactional id, the newest connection over which partitions were added to what is open. For what was open
        # before this load it is not known; the producer began it before, over a connection that is older than the load.
        self._newest_connection: dict[str, int] = {}
        self._loaded_at = context.arrivals.next()
        self._is_closed = False

    @property
    def coordinator_epoch(self) -> int:
        return self._journal.leadership.epoch

    @property
    def is_current(self) -> bool:
        """Whether what is kept here holds, and is to be acted on."""
        return self._journal.is_current and not self._is_closed

    # ----------------------------------------------------------------------------------------------------- loading

    def apply(self, batch: BatchView) -> None:
        if batch.is_control:
            return
        for record in iter_records(batch):
            try:
                found = None if record.key is None else read_entry(record.key, record.value)
            except DecodeError as error:
                log.error("%s: the record at %d says nothing: %s", self._journal.partition, record.offset, error)
                continue
            if found is not None:
                self._put(*found)

    def _put(self, transactional_id: str, txn: Transaction | None) -> None:
        if txn is None or txn.state is State.DEAD:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = txn

    def open(self) -> None:
        for txn in list(self.transactions.values()):
            if txn.state in DECIDED:
                self._on_decided(self, txn)
            elif txn.state is State.ONGOING and txn.version < VERSION_2:
                self.note_connection(txn.transactional_id, self._loaded_at)

    def close(self) -> None:
        self._is_closed = True
        self.transactions.clear()
        self._on_the_way.clear()
        for transactional_id in list(self._at_rest):
            self._wake(transactional_id)

    # ----------------------------------------------------------------------------------------------------- changing

    def is_changing(self, transactional_id: str) -> bool:
        return transactional_id in self._on_the_way

    def check_steady(self, transactional_id: str) -> None:
        """Nothing may be decided on the grounds of what is about to change."""
        if transactional_id in self._on_the_way:
            raise ConcurrentTransactionsError(f"a change of {transactional_id} is on its way")

    def write(self, txn: Transaction) -> asyncio.Future[KafkaError | None]:
        """Write a change, and have it hold when all replicas have it; what a producer is told of that."""
        assert txn.transactional_id not in self._on_the_way
        outcome: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
        try:
            written = self._journal.append([entry(txn)])
        except KafkaError as error:
            outcome.set_result(_told(error))
            return outcome
        if written.promise is None:
            self._settle(txn)
            outcome.set_result(None)
        else:
            self._on_the_way[txn.transactional_id] = txn
            self._context.work.spawn(self._finish(txn, written, outcome), f"transaction {txn.transactional_id}")
        return outcome

    async def _finish(self, txn: Transaction, written: Written, outcome: asyncio.Future[KafkaError | None]) -> None:
        timeout_ms = self._context.config.broker.request_timeout_ms
        error = await self._journal.wait(written, timeout_ms)
        if error is not None and not outcome.done():
            outcome.set_result(_told(error))
        while error is not None and self.is_current:
            await asyncio.sleep(_PAUSE_SECONDS)
            error = await self._journal.wait(written, timeout_ms)
        if error is None and self._on_the_way.pop(txn.transactional_id, None) is txn:
            self._settle(txn)
        if not outcome.done():
            outcome.set_result(None)

    def _settle(self, txn: Transaction) -> None:
        self._put(txn.transactional_id, txn)
        if txn.state in DECIDED:
            self._on_decided(self, txn)
        else:
            self._wake(txn.transactional_id)
        if txn.state is not State.ONGOING:
            self._newest_connection.pop(txn.transactional_id, None)

    def note_connection(self, transactional_id: str, connection: int) -> None:
        """Partitions are added over this connection."""
        newest = self._newest_connection
        newest[transactional_id] = max(connection, newest.get(transactional_id, connection))

    def is_late(self, transactional_id: str, connection: int) -> bool:
        """Whether what comes over a connection might have been sent before the open transaction began.

        For one that was loaded this is true of every connection from before the load: its producer connects again,
        once, and a request that it had given up never counts."""
        return connection < self._newest_connection.get(transactional_id, connection)

    async def complete(self, txn: Transaction) -> None:
        """All partitions know how a transaction ended: that is written down, however often it takes."""
        while self.is_current and self.transactions.get(txn.transactional_id) is txn:
            if not self.is_changing(txn.transactional_id):
                error = await self.write(rules.completed(txn, self._context.steady_clock.wall_ms()))
                if error is not None:
                    log.warning("that %s has ended is written later: %s", txn.transactional_id, error)
            if self.transactions.get(txn.transactional_id) is txn:
                await asyncio.sleep(_PAUSE_SECONDS)

    # ------------------------------------------------------------------------------------------------------ waiting

    async def wait_open(self, transactional_id: str, timeout_seconds: float) -> None:
        """Until a change of a transaction has been written, or one that is being ended has ended, or time is up."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._at_rest.setdefault(transactional_id, []).append(future)
        try:
            await asyncio.wait([future], timeout=timeout_seconds)
        finally:
            if not future.done():
                self._at_rest[transactional_id].remove(future)

    @property
    def waiting_count(self) -> int:
        return sum(map(len, self._at_rest.values()))

    def _wake(self, transactional_id: str) -> None:
        for future in self._at_rest.pop(transactional_id, ()):
            if not future.done():
                future.set_result(None)
