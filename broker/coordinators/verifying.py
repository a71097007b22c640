"""Whether a partition belongs to an open transaction: asked by its leader before a transaction writes there first.

A batch that was late on its way may arrive after its transaction has ended. Written all the same, it would open one
that nobody ever ends, and readers of committed data would stand still before it. So the leader asks the coordinator,
once for each transaction and partition, and holds the batch until it knows (KIP-890). The append then brings along what
`begin` gave: if the transaction ends in between, that is worth nothing any more.

With transaction version 2 the leader does not only ask: it has the coordinator add the partition. A batch that is late
cannot begin a transaction by that, since its epoch is over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from minikafka.broker.context import Context
from minikafka.broker.internal_topics import TRANSACTION_STATE
from minikafka.broker.metadata import NO_LEADER
from minikafka.broker.network.peer import PeerGone
from minikafka.broker.peers import Peers
from minikafka.broker.replicas.partition import Partition
from minikafka.protocol.errors import ErrorCode, KafkaError, error_for
from minikafka.protocol.hashing import coordinator_partition
from minikafka.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from minikafka.storage.verification import Verification

Name: TypeAlias = tuple[str, int]

_VERSION: Final = 4
"""The first that can verify only."""

_ANSWER_SECONDS: Final = 3.0
"""It needs neither a disk nor a replica. Who does not answer by then has stopped, and another will coordinate."""

_LATER: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Nobody can say just now. Producers are told what they come again for, whichever client they are."""


class TxnMember(NamedTuple):
    """A batch that wants to be part of a transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    sequence: int = 0
    is_told_abortable: bool = False
    """Whether the client knows the error that says so: the transaction has to be aborted."""
    is_to_be_added: bool = False
    """Whether the partition gets into the transaction by this batch (version 2)."""


Ask: TypeAlias = Callable[[TxnMember, Iterable[Name]], Awaitable[dict[Name, ErrorCode]]]


class Verifier:
    """See the module's description; `ask_here` answers if the coordinator is this broker."""

    def __init__(self, context: Context, peers: Peers, adding_peers: Peers) -> None:
        """Adding waits for replicas, which questions are not to wait for, so it has connections of its own."""
        self._context = context
        self._peers = peers
        self._adding_peers = adding_peers
        self.ask_here: Ask = _ask_nobody

    def begin(self, txn: TxnMember, partition: Partition) -> Verification | None:
        """What to hold a batch for; None if its transaction is known to be open."""
        producers, now_ms = partition.log.producers, self._context.clock.monotonic_ms()
        return producers.begin_verification(
            txn.producer_id, txn.epoch, txn.sequence, now_ms, has_own_epoch=txn.is_to_be_added
        )

    async def verify(self, txn: TxnMember, partition: Partition) -> Verification | None:
        """The same for one partition, when the coordinator has vouched for it; raises if it did not."""
        held = self.begin(txn, partition)
        if held is not None and (error := (await self.ask(txn, [partition.name]))[partition.name]) is not None:
            raise error
        return held

    async def ask(self, txn: TxnMember, names: Iterable[Name]) -> dict[Name, KafkaError | None]:
        """Ask the coordinator about partitions; what a producer is told of each that it does not vouch for."""
        names = list(names)
        is_optional = not txn.is_to_be_added
        if is_optional and not self._context.config.broker.transaction_partition_verification_enable:
            return dict.fromkeys(names)
        codes = await self._ask(txn, names)
        return {name: _told(codes.get(name, ErrorCode.NETWORK_EXCEPTION), txn) for name in names}

    async def _ask(self, txn: TxnMember, names: list[Name]) -> dict[Name, ErrorCode]:
        coordinator = self._coordinator(txn.transactional_id)
        if coordinator == self._context.broker_id:
            try:
                return await self.ask_here(txn, names)
            except KafkaError as error:
                return dict.fromkeys(names, error.code)
        if coordinator == NO_LEADER:
            return dict.fromkeys(names, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            answer = await self._ask_peer(coordinator, txn, names)
        except PeerGone:
            return {}
        if answer.error_code:
            return dict.fromkeys(names, ErrorCode(answer.error_code))
        return {
            (topic.name, each.partition_index): ErrorCode(each.partition_error_code)
            for result in answer.results_by_transaction
            for topic in result.topic_results
            for each in topic.results_by_partition
        }

    async def _ask_peer(self, coordinator: int, txn: TxnMember, names: list[Name]) -> AddPartitionsToTxnResponse:
        question, peers, seconds = _question(txn, names), self._peers, _ANSWER_SECONDS
        if txn.is_to_be_added:
            peers, seconds = self._adding_peers, self._context.config.broker.request_timeout_ms / 1000
        answer: AddPartitionsToTxnResponse = await peers.ask(coordinator, question, _VERSION, seconds)
        return answer

    def _coordinator(self, transactional_id: str) -> int:
        topic = self._context.metadata.topics.get(TRANSACTION_STATE)
        if topic is None or not topic.partitions:
            return NO_LEADER
        state = topic.partitions.get(coordinator_partition(transactional_id, len(topic.partitions)))
        return NO_LEADER if state is None else state.leader


def _question(txn: TxnMember, names: Iterable[Name]) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for topic, index in names:
        topics.setdefault(topic, []).append(index)
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=txn.transactional_id,
                producer_id=txn.producer_id,
                producer_epoch=txn.epoch,
                verify_only=not txn.is_to_be_added,
                topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
            )
        ]
    )


def _told(code: ErrorCode, txn: TxnMember) -> KafkaError | None:
    if not code:
        return None
    if code in _LATER:
        return error_for(ErrorCode.NOT_ENOUGH_REPLICAS, f"the coordinator of {txn.transactional_id} cannot be asked")
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.TRANSACTION_ABORTABLE and not txn.is_told_abortable:
        code = ErrorCode.INVALID_TXN_STATE
    return error_for(code, f"{txn.transactional_id} has no open transaction that includes the partition")


async def _ask_nobody(txn: TxnMember, names: Iterable[Name]) -> dict[Name, ErrorCode]:
    return dict.fromkeys(names, ErrorCode.COORDINATOR_NOT_AVAILABLE)
