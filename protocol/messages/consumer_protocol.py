"""What members of a consumer group tell each other through the coordinator.

The coordinator passes these bytes on unread.  A version above ours is read as our highest: newer
ones only add fields at the end.
"""

from minikafka.protocol.message import VersionPrefixed
from minikafka.protocol.schema import Bytes, Int32, String, Struct, field


class OwnedPartitions(Struct):
    topic: String
    partitions: list[Int32]


class ConsumerProtocolSubscription(VersionPrefixed, versions=(0, 3), reads_newer=True):
    topics: list[String]
    user_data: Bytes | None = None
    owned_partitions: list[OwnedPartitions] = field(factory=list, since=1)
    generation_id: Int32 = field(default=-1, since=2)
    rack_id: String | None = field(default=None, since=3)


class AssignedPartitions(Struct):
    topic: String
    partitions: list[Int32]


class ConsumerProtocolAssignment(VersionPrefixed, versions=(0, 3), reads_newer=True):
    assigned_partitions: list[AssignedPartitions]
    user_data: Bytes | None = None
