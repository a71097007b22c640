"""The control plane: what the controller tells brokers, and leaders ask the controller.

These travel as msgpack maps (`control_codec`) in Kafka's frames under Kafka's api keys, are never
advertised, and are served on the inter-broker listener only.  Every request carries the epoch that
fences it: the controller's for what it tells, the broker's for what it asks.  `partition_epoch` is
the version of the partition's state in ZooKeeper.

Integers are not sized here: epochs and ids come from ZooKeeper, and a zxid has 64 bits.
"""

from dataclasses import field

from minikafka.protocol.control_codec import ControlMessage, ControlStruct


class PartitionState(ControlStruct):
    """Who leads a partition and who follows, as the controller decided it."""

    topic: str
    topic_id: bytes
    partition: int
    leader: int
    leader_epoch: int
    isr: list[int]
    replicas: list[int]
    partition_epoch: int
    controller_epoch: int
    adding_replicas: list[int] = field(default_factory=list)
    removing_replicas: list[int] = field(default_factory=list)
    offline_replicas: list[int] = field(default_factory=list)
    is_new: bool = False
    """No replica has it yet, so an empty log is right and not a loss."""
    is_recovering: bool = False
    """The leader was elected out of the ISR: its log may miss what was acknowledged."""
    unclean_epoch: int = -1
    """The last leader epoch that began like that, however long ago: what was written before it may be cut."""
    eligible_replicas: list[int] = field(default_factory=list)
    """Out of the ISR, and yet with all that is committed, since nothing is as long as there are any (KIP-966)."""


class PartitionError(ControlStruct):
    topic: str
    partition: int
    error_code: int


class LeaderAndIsrRequest(ControlMessage, api_key=4):
    """Become leader or follower of these partitions; `is_full`: and of no others."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: list[PartitionState]
    is_full: bool = False
    kept_topics: list[str] = field(default_factory=list)
    """Topics that exist although not all of their replicas are named: a full list says nothing of these."""


class LeaderAndIsrResponse(ControlMessage, api_key=4):
    error_code: int = 0
    errors: list[PartitionError] = field(default_factory=list)


class StoppedPartition(ControlStruct):
    topic: str
    partition: int
    leader_epoch: int
    delete: bool
    topic_id: bytes = b""
    """Of what is to be deleted: a topic of the same name that was made since must not be."""


class StopReplicaRequest(ControlMessage, api_key=5):
    """Stop following, or stop and delete, these partitions."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: list[StoppedPartition]


class StopReplicaResponse(ControlMessage, api_key=5):
    error_code: int = 0
    errors: list[PartitionError] = field(default_factory=list)


class Endpoint(ControlStruct):
    listener: str
    security_protocol: str
    host: str
    port: int


class FeatureLevel(ControlStruct):
    name: str
    level: int


class LiveBroker(ControlStruct):
    broker_id: int
    broker_epoch: int
    endpoints: list[Endpoint]
    rack: str | None = None
    host: str = ""
    """Where brokers find it if it listens on all interfaces."""
    features: list[FeatureLevel] = field(default_factory=list)
    """The highest levels that it supports."""


class UpdateMetadataRequest(ControlMessage, api_key=6):
    """What every broker needs to know to answer Metadata; `is_full`: and forget the rest."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    brokers: list[LiveBroker]
    partitions: list[PartitionState]
    deleted_topics: list[str] = field(default_factory=list)
    is_full: bool = False
    features: list[FeatureLevel] = field(default_factory=list)
    """The levels that are finalized; a controller of an older version does not say."""
    features_epoch: int = -1


class UpdateMetadataResponse(ControlMessage, api_key=6):
    error_code: int = 0


class ControlledShutdownRequest(ControlMessage, api_key=7):
    """Move my leaderships away, I am about to stop."""

    broker_id: int
    broker_epoch: int


class RemainingPartition(ControlStruct):
    topic: str
    partition: int


class ControlledShutdownResponse(ControlMessage, api_key=7):
    error_code: int = 0
    remaining: list[RemainingPartition] = field(default_factory=list)


class IsrMember(ControlStruct):
    """A replica that should be in sync; its epoch keeps a restarted one from slipping in."""

    broker_id: int
    broker_epoch: int


class ProposedPartition(ControlStruct):
    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: list[IsrMember]
    is_recovering: bool = False


class AlterPartitionRequest(ControlMessage, api_key=56):
    """A leader asks the controller to change the ISR of partitions it leads."""

    broker_id: int
    broker_epoch: int
    partitions: list[ProposedPartition]


class AlteredPartition(ControlStruct):
    """The state that now holds, or why the proposal does not."""

    topic: str
    partition: int
    error_code: int = 0
    leader: int = -1
    leader_epoch: int = -1
    isr: list[int] = field(default_factory=list)
    partition_epoch: int = -1
    is_recovering: bool = False
    eligible_replicas: list[int] = field(default_factory=list)


class AlterPartitionResponse(ControlMessage, api_key=56):
    error_code: int = 0
    partitions: list[AlteredPartition] = field(default_factory=list)
