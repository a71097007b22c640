"""Where brokers can be found, as seen by one client: by the listener it dialled, and in its own words for our host.

Without `advertised.listeners` a broker registers the addresses it listens on. Its own it then tells as the client
dialled it, which works from wherever the client is; a peer that listens on all interfaces is told as the dialled host
with the peer's port, which works as long as all brokers share a host, or the client can tell them apart by port.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from minikafka.broker.context import Context
from minikafka.broker.metadata import NO_LEADER
from minikafka.broker.network.connection import Connection
from minikafka.protocol.control import LiveBroker
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.common import LeaderIdAndEpoch, NodeEndpoint

WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})

_LEADER_ERRORS: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class NodeAddress(NamedTuple):
    """One broker, as a client can reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None


def endpoints_for(context: Context, connection: Connection) -> list[NodeAddress]:
    """All live brokers that the client of a connection can reach by the listener it has chosen, sorted by id."""
    found = (address_of(context, connection, broker) for broker in context.metadata.brokers.values())
    return sorted(each for each in found if each is not None)


def address_of(context: Context, connection: Connection, broker: LiveBroker) -> NodeAddress | None:
    """Where one broker is; None if it has no listener of that name."""
    for endpoint in broker.endpoints:
        if endpoint.listener == connection.listener:
            break
    else:
        return None
    host, port = endpoint.host, endpoint.port
    if context.config.broker.advertised_listeners is None and broker.broker_id == context.broker_id:
        host, port = connection.local_address
    elif host in WILDCARDS:
        host = connection.local_address[0]
    return NodeAddress(broker.broker_id, host, port, broker.rack)


class Leaders:
    """Who leads the partitions of an answer that are not led here, and where they can be found."""

    def __init__(self, context: Context, connection: Connection) -> None:
        self._context = context
        self._connection = connection
        self._ids: dict[int, None] = {}

    def of(self, name: tuple[str, int], error_code: int) -> LeaderIdAndEpoch | None:
        """The leader of a partition, if an error is for want of knowing it."""
        if error_code not in _LEADER_ERRORS:
            return None
        state = self._context.metadata.partition(*name)
        if state is None:
            return None
        if state.leader != NO_LEADER:
            self._ids[state.leader] = None
        return LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)

    def endpoints(self) -> list[NodeEndpoint]:
        """The addresses of all leaders that were named."""
        brokers = (self._context.metadata.brokers.get(each) for each in self._ids)
        return list(self._addresses(each for each in brokers if each is not None))

    def _addresses(self, brokers: Iterable[LiveBroker]) -> Iterable[NodeEndpoint]:
        for broker in brokers:
            address = address_of(self._context, self._connection, broker)
            if address is not None:
                yield NodeEndpoint(node_id=address.node_id, host=address.host, port=address.port, rack=address.rack)
