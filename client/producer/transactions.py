"""Transactions: which partitions and offsets belong to the open one, and how it ends.

Before the first batch of a partition is sent, the coordinator must know that the partition is part of the transaction.
Queues that are not admitted yet wait, and a task tells the coordinator of all of them at once. With transaction version
2 the leader sees to that, and nothing waits (KIP-890).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from minikafka.client.cluster import Cluster, CoordinatorKind
from minikafka.client.coordinators import LEFT_BEHIND
from minikafka.client.errors import CommitFailed, IllegalState, ProducerFailed, TransactionFailed
from minikafka.client.producer import transaction_requests as requests
from minikafka.client.producer.config import ProducerConfig
from minikafka.client.producer.coordinator import ask_coordinator
from minikafka.client.producer.identity import Identities
from minikafka.client.producer.queues import PartitionQueue
from minikafka.client.producer.sequences import Identity
from minikafka.client.producer.transaction_requests import VERSION_2
from minikafka.client.producer.transaction_states import FATAL_CODES, Event, State, next_state
from minikafka.client.producer.watch import watched
from minikafka.client.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from minikafka.protocol.errors import ErrorCode, KafkaError, error_for
from minikafka.protocol.message import Request
from minikafka.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

_T = TypeVar("_T")


class Transactions:
    """See the module's description."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        identities: Identities,
        on_admitted: Callable[[PartitionQueue], None],
        on_refused: Callable[[KafkaError], None],
        on_fatal: Callable[[KafkaError], None],
    ) -> None:
        assert config.transactional_id is not None
        self.state = State.READY
        self.number = 0  # of the transaction that is open, or was the last
        self.error: KafkaError | None = None
        self._transactional_id = config.transactional_id
        self._cluster = cluster
        self._config = config
        self._identities = identities
        self._on_admitted = on_admitted
        self._on_refused = on_refused
        self._on_fatal = on_fatal
        self._admitted: set[TopicPartition] = set()
        self._asking: dict[TopicPartition, PartitionQueue] = {}
        self._has_offsets = False
        self._are_offsets_uncertain = False  # asked to write offsets, and nobody knows whether it was done
        self._version = 0  # of the transaction protocol, for the transaction that is open, or was the last
        self._may_be_known = False  # the coordinator was asked for something, and perhaps its answer was lost
        self._needs_new_epoch = False
        self._last_committed = 0
        self._asks = asyncio.Lock()  # of what ends the transaction, or adds offsets to it, one goes on at a time
        self._task: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------------------------------------ states

    @property
    def is_aborting(self) -> bool:
        return self.state is State.ABORTING

    @property
    def may_abort(self) -> bool:
        """Whether there is something to abort: not after a commit whose outcome nobody knows."""
        return self.state in (State.OPEN, State.FLUSHING, State.FAILED, State.ABORTING)

    def require_open(self) -> None:
        """Records can be sent now; raises what is wrong otherwise."""
        if self.state in (State.FATAL, State.FAILED):
            raise self.failure()
        if self.state is not State.OPEN:
            raise IllegalState(f"records and offsets are sent inside a transaction: {self.state.value}")

    @property
    def open_number(self) -> int:
        """The number of the transaction that is open; 0 if none is."""
        return self.number if self.state is State.OPEN else 0

    def require_same(self, open_number: int) -> None:
        """The transaction that was open is still open, after something was waited for."""
        if open_number != self.open_number:
            if self.state in (State.FATAL, State.FAILED):
                raise self.failure()
            raise TransactionFailed("the transaction ended while the record waited to be buffered: it was not sent")

    def _move(self, event: Event) -> None:
        if event is not Event.FAIL and (
            self.state is State.FATAL or (self.state, event) == (State.FAILED, Event.COMMIT)
        ):
            raise self.failure()
        self.state = next_state(self.state, event)

    def fail(self, error: KafkaError, loses_numbers: bool = False) -> None:
        """A record or offset of the transaction is lost: it cannot be committed any more."""
        if self.state in (State.OPEN, State.FLUSHING, State.COMMITTING):
            self.error = error
        self._move(Event.FAIL)
        self._needs_new_epoch |= loses_numbers

    def _fail_unless_retriable(self, error: KafkaError) -> None:
        if not error.retriable and self.state is not State.FATAL:
            self.fail(error)

    def fail_for_good(self, error: KafkaError) -> None:
        if self.state is not State.FATAL:
            self.error = error
            self.state = next_state(self.state, Event.FATAL)
            self._on_fatal(error)

    async def begin(self) -> None:
        if self.state is State.READY:
            await self._adopt_version()
        self._move(Event.BEGIN)
        self.number += 1
        self.error = None

    async def _adopt_version(self) -> None:
        """Go over to the transaction version that the cluster has now: a transaction keeps the one it begins with."""
        async with self._asks:
            version = self._cluster.transaction_version
            if version >= VERSION_2 > self._version and self.number:
                # The present epoch has been used by transactions that share it: from here on each has its own.
                await self._coordinate(self._identities.obtain)
            self._version = version

    def max_version(self, request: type[Request]) -> int | None:
        """The highest version in which something may be asked for in this transaction."""
        return requests.max_version(request, self._version)

    # --------------------------------------------------------------------------------------------- partitions

    def admits(self, queue: PartitionQueue) -> bool:
        """Whether the partition is part of the transaction; if not, it will be, and its queue is told."""
        place = queue.topic_partition
        if place in self._admitted:
            return True
        if self._version >= VERSION_2:
            self._may_be_known = True
            self._admitted.add(place)
            return True
        self._asking[place] = queue
        if self._task is None:
            self._task = watched(self._add_partitions(), "add partitions to the transaction", self.fail_for_good)
        return False

    async def _add_partitions(self) -> None:
        try:
            while self._asking:
                asking, self._asking = self._asking, {}
                await self._coordinate(lambda asking=asking: self._ask_to_add([*asking]))  # type: ignore[misc]
                self._admitted.update(asking)
                for queue in asking.values():
                    self._on_admitted(queue)
        except KafkaError as error:
            if self.state is not State.FATAL:
                self.fail(error)
                self._asking.clear()
                # What is not sent will never be, and a commit would wait for it.
                self._on_refused(error)
        finally:
            self._task = None

    async def _ask_to_add(self, places: list[TopicPartition]) -> None:
        self._may_be_known = True
        request = requests.add_partitions(self._transactional_id, self._identity, places)
        answer: AddPartitionsToTxnResponse = await self._ask(request)
        codes = {
            each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        self._raise_worst(codes)

    # ------------------------------------------------------------------------------------------------ offsets

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets with the transaction."""
        self.require_open()
        if not offsets:
            return
        number = self.number
        async with self._asks:
            try:
                await self._coordinate(lambda: self._ask_to_add_group(number, group.group_id))
                self._has_offsets = self._are_offsets_uncertain = True
                await self._coordinate(lambda: self._commit_offsets(number, offsets, group))
                self._are_offsets_uncertain = False
            except KafkaError as error:
                self._fail_unless_retriable(error)
                if isinstance(error, LEFT_BEHIND):
                    raise CommitFailed(f"the group has gone on without this consumer: {error}") from error
                raise

    def _require_unended(self, number: int) -> None:
        """Offsets can still get into the transaction: they do not go on to be asked for behind its end."""
        if self.state is State.FAILED or self.state is State.FATAL:
            raise self.failure()
        if self.number != number or self.state not in (State.OPEN, State.FLUSHING):
            raise TransactionFailed("the transaction ended before its offsets were written")

    async def _ask_to_add_group(self, number: int, group_id: str) -> None:
        self._require_unended(number)
        self._may_be_known = True
        if self._version >= VERSION_2:
            return
        identity = self._identity
        request = AddOffsetsToTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )
        self._raise_worst({(await self._ask(request)).error_code})

    async def _commit_offsets(
        self, number: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        self._require_unended(number)
        request = requests.commit_offsets(self._transactional_id, self._identity, offsets, group)
        answer: TxnOffsetCommitResponse = await ask_coordinator(
            self._cluster,
            CoordinatorKind.GROUP,
            group.group_id,
            request,
            max_version=self.max_version(TxnOffsetCommitRequest),
        )
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        if ErrorCode.NOT_COORDINATOR in codes or ErrorCode.COORDINATOR_NOT_AVAILABLE in codes:
            self._cluster.invalidate_coordinator(CoordinatorKind.GROUP, group.group_id)
        self._raise_worst(codes)

    # ---------------------------------------------------------------------------------------------- the end

    async def commit(self, flush: Callable[[], Awaitable[None]]) -> None:
        """Wait until all records are delivered, then make them visible; TransactionFailed if it must be aborted.

        Of two at once one commits, and the other returns when that is done.
        """
        self._move(Event.COMMIT)
        number = self.number
        await flush()
        async with self._asks:
            if self._last_committed != number:
                await self._commit(number)

    async def _commit(self, number: int) -> None:
        if self.number != number or self.state in (State.READY, State.ABORTING):
            raise TransactionFailed("the transaction was aborted while its commit waited for the last records")
        if self._may_be_known and not self._is_known and self.state is State.FLUSHING:
            self.fail(TransactionFailed("nobody knows whether the coordinator has heard of its offsets"))
        if self._are_offsets_uncertain and self.state is State.FLUSHING:
            self.fail(TransactionFailed("nobody knows whether its offsets were written"), loses_numbers=True)
        if self.state is State.FAILED:
            raise self.failure()
        self._move(Event.FLUSHED)
        try:
            await self._end(committed=True)
        except KafkaError as error:
            self._fail_unless_retriable(error)
            raise
        if self.state is not State.COMMITTING:
            raise self.failure()
        self._move(Event.COMMITTED)
        self._last_committed = number
        self._forget()

    async def abort(self, flush: Callable[[], Awaitable[None]]) -> None:
        """Give up what was not sent, wait for the rest, then make all of it invisible for good.

        Of two at once one aborts, and the other returns when that is done.
        """
        self._move(Event.ABORT)
        number = self.number
        await flush()
        async with self._asks:
            if self.number == number and self.state is not State.READY:
                await self._abort()

    async def _abort(self) -> None:
        if self.state is State.FATAL:
            raise self.failure()
        await self._end(committed=False)
        # An abort that is asked for again goes on here: nothing of the transaction is left to be ended, and the
        # coordinator may have begun the next epoch already.
        self._forget()
        if self._needs_new_epoch:
            # Numbers were lost with the records that were given up; a new epoch starts from 0 everywhere. It also
            # fences what may still arrive of them.
            await self._coordinate(self._identities.obtain)
            self._needs_new_epoch = False
        self._move(Event.ABORTED)

    def failure(self) -> KafkaError:
        """What a call raises after the transaction has failed."""
        if self.state is State.FATAL:
            return ProducerFailed(str(self.error))
        return TransactionFailed(f"the transaction cannot be committed: {self.error}")

    async def _end(self, committed: bool) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])
        if not self._may_be_known:
            return
        identity = self._identity
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=committed,
        )

        async def end() -> None:
            answer: EndTxnResponse = await self._ask(request)
            code = answer.error_code
            if code == ErrorCode.INVALID_TXN_STATE and not self._is_known and not committed:
                return  # it has not heard of it
            self._raise_worst({code})
            if answer.producer_id >= 0:
                self._identities.adopt(Identity(answer.producer_id, answer.producer_epoch))
                self._needs_new_epoch = False

        await self._coordinate(end)

    @property
    def _is_known(self) -> bool:
        """Whether the coordinator has said that it knows of the transaction."""
        return bool(self._admitted) or self._has_offsets

    def _forget(self) -> None:
        self._admitted.clear()
        self._asking.clear()
        self._has_offsets = self._are_offsets_uncertain = self._may_be_known = False

    async def stop(self) -> None:
        if self._task is not None:
            task = self._task
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # ------------------------------------------------------------------------------------------------ asking

    @property
    def _identity(self) -> Identity:
        assert self._identities.current is not None
        return self._identities.current

    async def _ask(self, request: Request) -> Any:
        return await ask_coordinator(
            self._cluster,
            CoordinatorKind.TRANSACTION,
            self._transactional_id,
            request,
            max_version=self.max_version(type(request)),
        )

    async def _coordinate(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Go on trying; what the coordinator says that ends this producer, ends it."""
        try:
            return await self._cluster.retry(call, timeout_ms=self._config.max_block_ms)
        except KafkaError as error:
            if error.code in FATAL_CODES:
                self.fail_for_good(error)
                raise ProducerFailed(f"the producer cannot go on: {error}") from error
            raise

    def _raise_worst(self, codes: set[int]) -> None:
        """Raise the error that decides: one that ends everything, or else one that waiting will not mend."""
        if ErrorCode.NOT_COORDINATOR in codes:
            self._cluster.invalidate_coordinator(CoordinatorKind.TRANSACTION, self._transactional_id)
        errors = [error_for(code) for code in codes if code]
        # Others were not tried because of the one that matters.
        errors.sort(key=lambda error: (error.code not in FATAL_CODES, error.retriable, error.code == 55))
        if errors:
            raise errors[0]
