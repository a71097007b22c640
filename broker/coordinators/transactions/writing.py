"""What a leader does with the end of a transaction: a marker into each partition, and offsets into their groups.

A marker counts when all in-sync replicas have it. In a partition of `__consumer_offsets` it also settles the offsets
that were committed within the transaction. While such a partition is still being loaded no marker is written to it: the
load might have passed its place already, and its offsets would be open for ever.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from minikafka.broker.context import Context
from minikafka.broker.coordinators.groups.coordinator import GroupCoordinator
from minikafka.broker.coordinators.transactions.transaction import VERSION_2, Name
from minikafka.broker.internal_topics import GROUP_OFFSETS
from minikafka.broker.replicas.commits import Promise
from minikafka.broker.replicas.partition import ACKS_ALL, Partition
from minikafka.broker.replicas.waiting import CommitWait
from minikafka.protocol.errors import ErrorCode, InvalidProducerEpochError, KafkaError
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import ControlType, build_marker
from minikafka.storage.producers import Origin
from minikafka.storage.validation import RejectedRecords

Outcomes: TypeAlias = dict[Name, ErrorCode]

_OK: Final = ErrorCode.NONE


class Marker(NamedTuple):
    """The end of one producer's transaction, for some partitions of it."""

    producer_id: int
    epoch: int
    is_committed: bool
    coordinator_epoch: int
    partitions: tuple[Name, ...]
    version: int = 0
    """The transaction version of the end; since 2 the marker's epoch is higher than that of what it ends."""


class MarkerWriter:
    """See the module's description."""

    def __init__(self, context: Context, groups: GroupCoordinator) -> None:
        self._context = context
        self._groups = groups

    async def write(self, marker: Marker) -> Outcomes:
        """What became of it in each partition."""
        outcomes: Outcomes = {}
        promises: list[Promise] = []
        written: dict[Partition, int] = {}
        for name in marker.partitions:
            try:
                partition, offset = self._append(name, marker, promises)
                written[partition] = offset
                outcomes[name] = _OK
            except KafkaError as error:
                outcomes[name] = error.code
        if promises:
            timeout_ms = self._context.config.broker.request_timeout_ms
            errors = await CommitWait(promises).wait_committed(timeout_ms)
            outcomes.update({partition.name: each.code for partition, each in errors.items()})
        for partition, offset in written.items():
            if partition.topic == GROUP_OFFSETS and not outcomes[partition.name]:
                self._groups.end_transaction(
                    partition.index, marker.producer_id, offset, is_committed=marker.is_committed
                )
        return outcomes

    def _append(self, name: Name, marker: Marker, promises: list[Promise]) -> tuple[Partition, int]:
        """Where it is now."""
        partition = self._context.partitions.get(*name)
        if partition.topic == GROUP_OFFSETS:
            # Raises if it is not served here, or not yet.
            self._groups.shards.at(partition.index)
        producer = partition.log.producers.get(marker.producer_id)
        if marker.version >= VERSION_2 and producer is not None and producer.has_open(marker.epoch):
            # Its epoch is higher than that of what it ends, so this is the next one. If none is open, the marker may
            # be a retry, and is written once more.
            raise InvalidProducerEpochError(f"producer {marker.producer_id} has begun another transaction since")
        now_ms = self._context.clock.wall_ms()
        batch = build_marker(
            ControlType.COMMIT if marker.is_committed else ControlType.ABORT,
            producer_id=marker.producer_id,
            producer_epoch=marker.epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=now_ms,
        )
        try:
            appended = partition.append(BatchView(batch), ACKS_ALL, now_ms, Origin.COORDINATOR)
        except RejectedRecords as rejected:
            raise rejected.error from rejected
        promise = partition.promise(appended.last_offset + 1, ACKS_ALL)
        if promise is not None:
            promises.append(promise)
        return partition, appended.base_offset
