"""What several message families share."""

from typing import Final

from minikafka.protocol.schema import Int32, String, Struct

OPERATIONS_UNKNOWN: Final = -(1 << 31)
"""The bit field of authorised operations when nobody asked for it."""


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None
