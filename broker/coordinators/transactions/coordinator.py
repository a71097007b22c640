"""The transaction coordinator of one broker: finds the transaction that a request is about, and does what is asked.

What is wrong with a request is raised. Nothing is answered before it is written, and after every wait the transaction
is looked up anew: it may have changed, or be another broker's by now.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.coordinators.shards import Shards
from minikafka.broker.coordinators.transactions import transaction as rules
from minikafka.broker.coordinators.transactions.markers import Markers
from minikafka.broker.coordinators.transactions.shard import TransactionShard
from minikafka.broker.coordinators.transactions.states import DECIDED, State
from minikafka.broker.coordinators.transactions.transaction import NO_ID, VERSION_2, Identity, Name, Transaction
from minikafka.broker.internal_topics import TRANSACTION_STATE
from minikafka.broker.producer_ids import ProducerIds
from minikafka.broker.zookeeper.coord import CoordError
from minikafka.protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    ErrorCode,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    KafkaError,
    TransactionalIdNotFoundError,
)

log: Final = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 0.2
"""How long a producer that begins the next transaction waits for the end of the last one, before it is told to come
again. Clients come again after 20 to 100 ms, and the end takes a few."""


class TransactionCoordinator:
    """See the module's description."""

    def __init__(self, context: Context, ids: ProducerIds, markers: Markers) -> None:
        self.shards = Shards(
            context, TRANSACTION_STATE, lambda journal: TransactionShard(context, journal, markers.tell)
        )
        self._context = context
        # A transaction that began under a wrong clock must neither time out early nor stay open for long.
        self._clock = context.steady_clock
        self._ids = ids

    # ------------------------------------------------------------------------------------------------------ sessions

    async def new_id(self) -> int:
        """A producer id that nobody has had yet."""
        try:
            async with asyncio.timeout(self._context.config.broker.request_timeout_ms / 1000):
                return await self._ids.next()
        except (TimeoutError, CoordError) as error:
            raise CoordinatorNotAvailableError(f"no producer ids can be had from ZooKeeper: {error}") from None

    async def begin_session(self, transactional_id: str, timeout_ms: int, expected: Identity | None) -> Identity:
        """Have a producer be the only one of its name; who it is from now on."""
        if not transactional_id:
            raise InvalidRequestError("a transactional id cannot be empty")
        if not 0 < timeout_ms <= self._context.config.broker.transaction_max_timeout_ms:
            raise InvalidTransactionTimeoutError(f"a transaction cannot take {timeout_ms} ms")
        new_id = await self._new_id_for(transactional_id, expected)
        # As it is after that wait.
        shard = self.shards.of(transactional_id)
        shard.check_steady(transactional_id)
        txn = shard.transactions.get(transactional_id)
        if txn is None:
            if new_id is None:
                raise ConcurrentTransactionsError(f"{transactional_id} has just been forgotten")
            txn, new_id = rules.new(transactional_id, new_id, timeout_ms), None
        rules.check_session(txn, expected)
        now_ms = self._clock.wall_ms()
        if txn.state is State.ONGOING:
            await self._write(shard, rules.fenced(txn, now_ms))
            raise ConcurrentTransactionsError(f"the open transaction of {transactional_id} is being aborted")
        if not rules.needs_new_id(txn, expected):
            new_id = None
        elif new_id is None:
            raise ConcurrentTransactionsError(f"{transactional_id} has just used up its producer id")
        begun = rules.session(txn, timeout_ms, expected, now_ms, new_id)
        await self._write(shard, begun)
        return Identity(begun.producer_id, begun.epoch)

    async def _new_id_for(self, transactional_id: str, expected: Identity | None) -> int | None:
        txn = self.shards.of(transactional_id).transactions.get(transactional_id)
        return await self.new_id() if txn is None or rules.needs_new_id(txn, expected) else None

    # -------------------------------------------------------------------------------------------------- transactions

    async def add_partitions(
        self, transactional_id: str, who: Identity, names: Collection[Name], connection: int = 0
    ) -> None:
        """Have partitions be part of a transaction, which may begin with that."""
        shard = self._shard(transactional_id)
        txn = self._of_producer(shard, transactional_id, who)
        if txn.state in DECIDED:
            await shard.wait_open(transactional_id, _PATIENCE_SECONDS)
            shard = self._shard(transactional_id)
            txn = self._of_producer(shard, transactional_id, who)
        changed = rules.with_partitions(txn, names, self._clock.wall_ms())
        shard.note_connection(transactional_id, connection)
        if changed is not txn:
            await self._write(shard, changed)

    async def add_for_leader(self, transactional_id: str, who: Identity, names: Collection[Name]) -> None:
        """The same for the leader of partitions, which holds back a batch meanwhile (KIP-890).

        Others may do so at the same time, and the producer goes on as soon as the end of its last transaction is
        decided: what is under way is waited for a little."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE_SECONDS
        shard = self._shard(transactional_id)
        txn = self._known(shard, transactional_id)
        rules.check_producer(txn, who)
        while (shard.is_changing(transactional_id) or txn.state in DECIDED) and loop.time() < deadline:
            await shard.wait_open(transactional_id, deadline - loop.time())
            shard = self._shard(transactional_id)
            txn = self._known(shard, transactional_id)
            rules.check_producer(txn, who)
        shard.check_steady(transactional_id)
        changed = rules.with_partitions(txn, names, self._clock.wall_ms(), VERSION_2)
        if changed is not txn:
            await self._write(shard, changed)

    def verify(self, transactional_id: str, who: Identity, names: Iterable[Name]) -> dict[Name, ErrorCode]:
        """Whether partitions are part of a transaction that is open."""
        txn = self._known(self._shard(transactional_id), transactional_id)
        rules.check_producer(txn, who)
        rules.check_open(txn)
        return {name: ErrorCode.NONE if name in txn.partitions else ErrorCode.TRANSACTION_ABORTABLE for name in names}

    def is_late(self, transactional_id: str, connection: int) -> bool:
        """Whether the end of a transaction comes over a connection that its producer might have given up before.

        It can be meant for the one before: a producer that does not wait for the answer asks again over another
        connection, and begins the next. Nothing in the request distinguishes them."""
        return self._shard(transactional_id).is_late(transactional_id, connection)

    async def end(self, transactional_id: str, who: Identity, *, is_committed: bool, version: int = 0) -> Identity:
        """Decide how a transaction ends; the markers come afterwards. Who the producer is from now on."""
        new_id, txn = NO_ID, self._ending(transactional_id, who, version)
        if rules.end_needs_new_id(txn, who, version):
            new_id = await self.new_id()
            txn = self._ending(transactional_id, who, version)
            if not rules.end_needs_new_id(txn, who, version):
                new_id = NO_ID
        changed = rules.ended(
            txn, who, is_committed=is_committed, now_ms=self._clock.wall_ms(), version=version, new_id=new_id
        )
        if changed is None:
            return txn.holder
        await self._write(self._shard(transactional_id), changed)
        return changed.holder

    def _ending(self, transactional_id: str, who: Identity, version: int) -> Transaction:
        shard = self._shard(transactional_id)
        txn = self._known(shard, transactional_id)
        rules.check_end(txn, who, version)
        shard.check_steady(transactional_id)
        return txn

    def _shard(self, transactional_id: str) -> TransactionShard:
        if not transactional_id:
            raise InvalidRequestError("a transactional id cannot be empty")
        return self.shards.of(transactional_id)

    @staticmethod
    def _known(shard: TransactionShard, transactional_id: str) -> Transaction:
        txn = shard.transactions.get(transactional_id)
        if txn is None:
            raise InvalidProducerIdMappingError(f"nobody has the transactional id {transactional_id}")
        return txn

    def _of_producer(self, shard: TransactionShard, transactional_id: str, who: Identity) -> Transaction:
        txn = self._known(shard, transactional_id)
        rules.check_producer(txn, who)
        shard.check_steady(transactional_id)
        return txn

    @staticmethod
    async def _write(shard: TransactionShard, txn: Transaction) -> None:
        error = await shard.write(txn)
        if error is not None:
            raise error

    # -------------------------------------------------------------------------------------------------------- looking

    def describe(self, transactional_id: str) -> Transaction:
        txn = self._shard(transactional_id).transactions.get(transactional_id)
        if txn is None:
            raise TransactionalIdNotFoundError(f"nobody has the transactional id {transactional_id}")
        return txn

    def all(self) -> list[Transaction]:
        return [txn for shard in self.shards for txn in shard.transactions.values()]

    # -------------------------------------------------------------------------------------------------------- upkeep

    async def run_timeouts(self) -> None:
        """Abort, now and then, what takes too long."""
        while True:
            config = self._context.config.broker
            await asyncio.sleep(config.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000)
            self.abort_overdue(self._clock.wall_ms())

    def abort_overdue(self, now_ms: int) -> None:
        for shard in self.shards:
            for txn in list(shard.transactions.values()):
                if txn.is_overdue(now_ms) and not shard.is_changing(txn.transactional_id):
                    log.info("%s takes more than %d ms and is aborted", txn.transactional_id, txn.timeout_ms)
                    self._write_aside(shard, rules.fenced(txn, now_ms))

    async def run_expiry(self) -> None:
        """Forget, now and then, what nobody uses any more."""
        while True:
            config = self._context.config.broker
            await asyncio.sleep(config.transaction_remove_expired_transaction_cleanup_interval_ms / 1000)
            self.expire(self._clock.wall_ms(), config.transactional_id_expiration_ms)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        for shard in self.shards:
            for txn in list(shard.transactions.values()):
                if txn.is_unused(now_ms, expiration_ms) and not shard.is_changing(txn.transactional_id):
                    self._write_aside(shard, rules.dead(txn, now_ms))

    def _write_aside(self, shard: TransactionShard, txn: Transaction) -> None:
        """Nobody waits for it, and it is tried again in time."""

        def tell(outcome: asyncio.Future[KafkaError | None]) -> None:
            if (error := outcome.result()) is not None:
                log.warning("%s cannot be written yet: %s", txn.transactional_id, error)

        shard.write(txn).add_done_callback(tell)

    def stop(self) -> None:
        self.shards.close()
