"""Which WriteTxnMarkers come too late: their coordinator has given them up, and the transaction has ended without them.

A marker names a producer, its epoch and the coordinator's epoch. With transaction versions before 2 the producer's next
transaction has the same three, so a marker that was held up on its way would end that one. Kafka before 4.2 takes it.

A coordinator sends markers to a broker over one connection at a time, and sends a marker again only when it has given
the last connection up. A transaction ends when each partition has a marker: either from this leader, over a connection
that is younger than the one given up, or from another leader, before this one was elected. So a marker can only be late
if it comes over an older connection than its sender has used since, or than this broker leads the partition. Both
orders are in memory, as the connections are: a process that ends takes what is on its way to it along.

Other peers have no such order. Kafka's tools send markers to end what hangs, and only ever abort it, so from
others than brokers nothing is committed: what is replayed, or comes from a broker that is gone, cannot commit what its
producer aborts. An abort of theirs is taken as in Kafka. It ends what is open in the partition by then; nothing in it
says what its sender has seen there, except for the epoch, which with transaction version 2 is that of one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.broker.context import Context
from minikafka.broker.coordinators.transactions.transaction import Name
from minikafka.broker.network.dispatch import Call
from minikafka.broker.peers import client_id_of
from minikafka.broker.replicas.leadership import Leadership
from minikafka.broker.replicas.partition import Partition


class LateMarkers:
    """See the module's description."""

    def __init__(self, context: Context) -> None:
        self._context = context
        # By client id, the newest connection over which a broker has sent markers.
        self._newest_connection: dict[str, int] = {}
        self._led_since: dict[Name, tuple[Leadership, int]] = {}

    def on_role_changed(self, partition: Partition) -> None:
        leadership, known = partition.leadership, self._led_since.get(partition.name)
        if leadership is None:
            self._led_since.pop(partition.name, None)
        elif known is None or known[0] is not leadership:
            self._led_since[partition.name] = leadership, self._context.arrivals.next()

    def is_from_broker(self, call: Call) -> bool:
        """Whether markers come from a broker that is alive, by what it calls itself."""
        return call.client_id in {client_id_of(each) for each in self._context.metadata.brokers}

    def is_late(self, call: Call, names: Iterable[Name]) -> bool:
        """Whether markers might have been given up by their sender; one that still waits connects again."""
        connection, sender = call.connection.number, call.client_id
        oldest = max((self._led_since[name][1] for name in names if name in self._led_since), default=0)
        if sender is not None and self.is_from_broker(call):
            newest = self._newest_connection[sender] = max(connection, self._newest_connection.get(sender, 0))
            oldest = max(oldest, newest)
        return connection < oldest
