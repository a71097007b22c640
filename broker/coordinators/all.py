"""All coordinators of one broker, put together: they need each other, and start and stop as one.

Producers' markers settle groups' offsets, groups and leaders ask transactions whether a write belongs to one, and all
of them go by who leads which partition.
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Iterable
from typing import Any

from minikafka.broker.context import Context
from minikafka.broker.coordinators.confirming import Confirmer
from minikafka.broker.coordinators.groups.coordinator import GroupCoordinator
from minikafka.broker.coordinators.transactions.coordinator import TransactionCoordinator
from minikafka.broker.coordinators.transactions.late_markers import LateMarkers
from minikafka.broker.coordinators.transactions.markers import Markers
from minikafka.broker.coordinators.transactions.transaction import Identity, Name
from minikafka.broker.coordinators.transactions.writing import MarkerWriter
from minikafka.broker.coordinators.verifying import TxnMember, Verifier
from minikafka.broker.network.net import Net
from minikafka.broker.peers import Peers
from minikafka.broker.producer_ids import ProducerIds
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.zookeeper.registration import allocate_producer_ids
from minikafka.protocol.errors import ErrorCode


class Coordinators:
    """See the module's description."""

    def __init__(self, context: Context, net: Net) -> None:
        # Answers come in order: a question, which is answered at once, is not to wait for markers, which wait for
        # replicas.
        asking, adding, marking = (Peers(context.broker_id, net, context.config, context.metadata) for _ in range(3))
        self._peers = (asking, adding, marking)
        self.verifier = Verifier(context, asking, adding)
        self.confirmer = Confirmer(context, asking)
        self.groups = GroupCoordinator(context, self.verifier)
        self.writer = MarkerWriter(context, self.groups)
        self.late_markers = LateMarkers(context)
        ids = ProducerIds(lambda: allocate_producer_ids(context.coord, context.broker_id))
        self.transactions = TransactionCoordinator(context, ids, Markers(context, marking, self.writer))
        self.verifier.ask_here = self._verify

    async def _verify(self, txn: TxnMember, names: Iterable[Name]) -> dict[Name, ErrorCode]:
        await self.confirmer.check(self.transactions.shards.partition_of(txn.transactional_id))
        who, wanted = Identity(txn.producer_id, txn.epoch), list(names)
        if not txn.is_to_be_added:
            return self.transactions.verify(txn.transactional_id, who, wanted)
        await self.transactions.add_for_leader(txn.transactional_id, who, wanted)
        return dict.fromkeys(wanted, ErrorCode.NONE)

    def upkeep(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """What goes on as long as the broker does, by name."""
        return [
            ("expiry of offsets", self.groups.run()),
            ("timeouts of transactions", self.transactions.run_timeouts()),
            ("expiry of transactional ids", self.transactions.run_expiry()),
        ]

    def on_role_changed(self, partition: Partition) -> None:
        self.late_markers.on_role_changed(partition)
        self.groups.shards.on_role_changed(partition)
        self.transactions.shards.on_role_changed(partition)

    def on_topics_deleted(self, topics: Collection[str]) -> None:
        self.groups.on_topics_deleted(topics)

    def stop(self) -> None:
        """Serve nothing any more: whoever waits is sent elsewhere, and does not keep us from stopping."""
        self.groups.stop()
        self.transactions.stop()
        for each in self._peers:
            each.close()
