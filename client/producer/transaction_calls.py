"""What users call for transactions; the producer has these calls too."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Self

from minikafka.client.errors import IllegalState, TransactionFailed
from minikafka.client.producer.sender import Sender
from minikafka.client.producer.transactions import Transactions
from minikafka.client.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from minikafka.protocol.errors import KafkaError

log: Final = logging.getLogger(__name__)

_LAST_ABORT_S: Final = 3.0
"""How long closing waits for a transaction to be aborted: its timeout ends it too, if nothing else does."""


class TransactionCalls(ABC):
    """See the module's description."""

    _sender: Sender
    _transactions: Transactions | None

    @abstractmethod
    def _require_usable(self) -> object:
        """Raises if the producer cannot be used now."""

    @abstractmethod
    async def flush(self) -> None:
        """Wait until everything that was sent before is delivered, or has failed."""

    async def begin_transaction(self) -> None:
        """From now on records are sent inside a transaction."""
        await self._require_transactions().begin()

    async def commit_transaction(self) -> None:
        """Make the transaction's records and offsets visible, all at once; TransactionFailed if it must be aborted."""
        await self._require_transactions().commit(self.flush)

    async def abort_transaction(self) -> None:
        """Give the transaction up: none of its records and offsets will be seen by who reads committed ones."""

        async def give_up() -> None:
            self._sender.drop_unsent(TransactionFailed("the transaction was aborted"))
            # What is in flight could arrive in the next transaction, also after its delivery timeout.
            await self._sender.accumulator.wait_empty()

        await self._require_transactions().abort(give_up)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit what a group has read as part of the transaction.

        With the consumer's `group_metadata()` a consumer that the group has lost cannot commit; a group id alone, as
        aiokafka takes it, does not protect against that.
        """
        whole = {
            place: OffsetAndMetadata(found) if isinstance(found, int) else found for place, found in offsets.items()
        }
        member = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        await self._require_transactions().send_offsets(whole, member)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A transaction that is committed at the end of the block, or aborted if the block raises."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            transactions = self._require_transactions()
            if transactions.may_abort:
                await self.abort_transaction()
            raise

    @property
    def _open_transaction(self) -> int:
        """The number of the transaction that is open; 0 if none is."""
        return 0 if self._transactions is None else self._transactions.open_number

    def _require_same(self, open_transaction: int) -> None:
        """After waiting: raises if a record cannot be buffered any more, or would get into another transaction."""
        self._require_usable()
        if self._transactions is not None:
            self._transactions.require_same(open_transaction)

    async def _abort_before_closing(self) -> bool:
        """Left open, a transaction would stop those who read committed records until it times out.

        Whether there was one: then all records were part of it, and nothing is left to be flushed.
        """
        if self._transactions is None or not self._transactions.may_abort:
            return False
        try:
            async with asyncio.timeout(_LAST_ABORT_S):
                await self.abort_transaction()
        except (KafkaError, TimeoutError) as error:
            log.warning("a transaction stays open until it is fenced or times out: %r", error)
        return True

    def _require_transactions(self) -> Transactions:
        self._require_usable()
        if self._transactions is None:
            raise IllegalState("transactions need a producer with a transactional_id")
        return self._transactions
