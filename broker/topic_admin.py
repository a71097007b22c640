"""Making topics, asking for their deletion, giving them more partitions: what any broker may write to ZooKeeper.

Here a topic is only written down. The controller sees it and does the rest: it gives the partitions leaders, tells the
brokers, and deletes what is to be deleted. Whoever made the topic waits until its own broker has been told.

When the answer of ZooKeeper is lost, what stands there decides: a topic's id tells whether it is the one just made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from minikafka.broker.config.alter import Entries, created_overrides
from minikafka.broker.context import Context
from minikafka.broker.controller.assignment import Racks, assign, assign_more
from minikafka.broker.internal_topics import GROUP_OFFSETS, TRANSACTION_STATE
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.metadata import Metadata
from minikafka.broker.replicas.partitions import Partitions
from minikafka.broker.rng import Rng
from minikafka.broker.zookeeper.config_nodes import encode_config, topic_entity
from minikafka.broker.zookeeper.coord import (
    BadVersion,
    Coord,
    Create,
    Disconnected,
    MultiFailed,
    NodeExists,
    NoNode,
    Set,
    TooLarge,
    insist,
)
from minikafka.broker.zookeeper.topic_nodes import (
    TOPICS,
    Assignment,
    TopicNode,
    delete_topic_path,
    encode_topic_id,
    is_topic_name,
    topic_path,
)
from minikafka.protocol.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    InvalidTopicError,
    ReassignmentInProgressError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.schema import ZERO_UUID
from minikafka.storage.formats import check_topic_name

DEFAULT_COUNT: Final = -1
"""In place of a number of partitions or replicas: as the broker is configured."""

PARTITIONS_MAX: Final = 100_000
"""About as many as a node of ZooKeeper has room for; asked for more, nobody should even try."""

_RESERVED_IDS: Final = frozenset({ZERO_UUID, bytes(15) + b"\x01"})

Replicas = Mapping[int, Sequence[int]]


class Plan(NamedTuple):
    """A topic as it would be made, checked but for what only ZooKeeper knows."""

    name: str
    replicas: Mapping[int, tuple[int, ...]]
    overrides: Mapping[str, str]

    @property
    def replication_factor(self) -> int:
        return len(self.replicas[0])


class TopicAdmin:
    """See the module's description."""

    def __init__(
        self,
        coord: Coord,
        config: LiveConfig,
        metadata: Metadata,
        rng: Rng,
        partitions: Partitions | None = None,
    ) -> None:
        self._coord = coord
        self._config = config
        self._metadata = metadata
        self._rng = rng
        self._partitions = partitions

    @classmethod
    def of(cls, context: Context) -> TopicAdmin:
        return cls(context.coord, context.config, context.metadata, context.rng, context.partitions)

    # ------------------------------------------------------------------------------------------------- making

    async def plan(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        replicas: Sequence[tuple[int, Sequence[int]]] = (),
        entries: Entries = (),
    ) -> Plan:
        """What a new topic would be, or why it cannot be. The order of the checks is Kafka's."""
        if name in self._metadata.topics:
            raise _exists(name)
        if replicas and (partitions, replication_factor) != (DEFAULT_COUNT, DEFAULT_COUNT):
            raise InvalidRequestError("Both numPartitions or replicationFactor and replicasAssignments were set.")
        placed = _given(replicas) if replicas else self._assigned(partitions, replication_factor)
        check_topic_name(name)
        await self._check_free(name)
        _check_replicas(placed)
        self._check_room(placed)
        return Plan(name, placed, created_overrides(self._config.broker, entries))

    def _assigned(self, partitions: int, replication_factor: int) -> dict[int, tuple[int, ...]]:
        config = self._config.broker
        partitions = config.num_partitions if partitions == DEFAULT_COUNT else partitions
        if replication_factor == DEFAULT_COUNT:
            replication_factor = config.default_replication_factor
        if partitions > PARTITIONS_MAX:
            raise InvalidPartitionsError(f"A topic can have at most {PARTITIONS_MAX} partitions.")
        return assign(self._racks(), partitions, replication_factor, self._rng)

    def _check_room(self, placed: Replicas) -> None:
        """Of this broker it is known how many files it can open; any other refuses by itself what does not fit."""
        if self._partitions is not None:
            own, left = self._partitions.broker_id, self._partitions.descriptors.logs_left
            count = sum(own in replicas for replicas in placed.values())
            if count > left:
                raise InvalidPartitionsError(
                    f"Broker {own} has file descriptors left for {max(0, left)} partitions, not for {count}; "
                    "raise its limit of open files."
                )

    def _racks(self) -> Racks:
        return {each.broker_id: each.rack for each in self._metadata.brokers.values()}

    async def _check_free(self, name: str) -> None:
        """No topic of this name, and none that looks the same where points become underscores, as in metrics."""
        if await insist(self._coord, lambda: self._coord.exists(topic_path(name))) is not None:
            raise _exists(name)
        if "." not in name and "_" not in name:
            return
        looks = name.replace(".", "_")
        others = await insist(self._coord, lambda: self._coord.children(TOPICS))
        if name in others:
            # Somebody has made it between the two looks.
            raise _exists(name)
        if twins := [each for each in others if each.replace(".", "_") == looks]:
            raise InvalidTopicError(f"Topic '{name}' collides with existing topics: {', '.join(twins)}")

    async def create(self, plan: Plan) -> bytes:
        """Write a topic down; its id."""
        topic_id = self.new_id()
        node = TopicNode(topic_id, {index: Assignment(replicas) for index, replicas in plan.replicas.items()})
        config, data = topic_entity(plan.name).node, encode_config(plan.overrides)
        has_config = False
        while True:
            write_config = Set(config, data) if has_config else Create(config, data)
            try:
                await self._coord.multi(write_config, Create(topic_path(plan.name), node.encode()))
                return topic_id
            except TooLarge as error:
                raise InvalidPartitionsError(f"ZooKeeper cannot hold that many replicas: {error}") from None
            except Disconnected:
                await self._coord.connected()
            except MultiFailed as failed:
                if not isinstance(failed.cause, NodeExists | NoNode):
                    raise
            there = await self._read(plan.name)
            if there is not None:
                if there[0].topic_id == topic_id:
                    return topic_id
                raise _exists(plan.name)
            # What an earlier topic of this name has left behind.
            has_config = await insist(self._coord, lambda: self._coord.exists(config)) is not None

    def new_id(self) -> bytes:
        """As Kafka draws them: of version 4, none that has a meaning, none whose spelling looks like an option."""
        while True:
            drawn = bytearray(self._rng.randbytes(len(ZERO_UUID)))
            drawn[6] = drawn[6] & 0x0F | 0x40
            drawn[8] = drawn[8] & 0x3F | 0x80
            topic_id = bytes(drawn)
            if topic_id not in _RESERVED_IDS and not encode_topic_id(topic_id).startswith("-"):
                return topic_id

    # ------------------------------------------------------------------------------------- deleting and growing

    async def request_deletion(self, name: str) -> None:
        """Ask for a topic to be deleted; asking twice is asking once."""
        try:
            await insist(self._coord, lambda: self._coord.create(delete_topic_path(name)))
        except NodeExists:
            return

    async def add_partitions(
        self, name: str, count: int, replicas: Sequence[Sequence[int]] | None = None, *, validate_only: bool = False
    ) -> None:
        """Have a topic grow to so many partitions."""
        while True:
            there = await self._read(name)
            if there is None or not there[0].partitions:
                raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
            node, version = there
            more = self._more(name, node, count, replicas)
            if validate_only:
                return
            grown = TopicNode(node.topic_id, {**node.partitions, **more})
            try:
                await self._coord.set(topic_path(name), grown.encode(), version)
                return
            except TooLarge as error:
                raise InvalidPartitionsError(f"ZooKeeper cannot hold that many replicas: {error}") from None
            except BadVersion:
                continue
            except NoNode:
                raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.") from None
            except Disconnected:
                await self._coord.connected()
                there = await self._read(name)
                if there is not None and there[0] == grown:
                    return

    def _more(
        self, name: str, node: TopicNode, count: int, replicas: Sequence[Sequence[int]] | None
    ) -> dict[int, Assignment]:
        """The partitions to be added."""
        if any(each.is_reassigned for each in node.partitions.values()):
            raise ReassignmentInProgressError(f"A partition reassignment is in progress for the topic '{name}'.")
        first = len(node.partitions)
        if not first < count <= PARTITIONS_MAX:
            raise InvalidPartitionsError(f"Topic currently has {first} partitions, {count} were asked for.")
        like = node.partitions[0].replicas
        if replicas is None:
            placed = assign_more(self._racks(), first, count - first, like)
        else:
            placed = self._chosen(first, count, replicas, len(like))
        self._check_room(placed)
        return {index: Assignment(each) for index, each in placed.items()}

    def _chosen(
        self, first: int, count: int, replicas: Sequence[Sequence[int]], replication_factor: int
    ) -> dict[int, tuple[int, ...]]:
        if unknown := {each for some in replicas for each in some} - self._metadata.brokers.keys():
            raise InvalidReplicaAssignmentError(f"Unknown broker(s) in replica assignment: {sorted(unknown)}.")
        if len(replicas) != count - first:
            raise InvalidReplicaAssignmentError(
                f"Increasing the number of partitions by {count - first} but {len(replicas)} assignments provided."
            )
        placed = {index: tuple(each) for index, each in enumerate(replicas, first)}
        if any(len(set(each)) < len(each) or len(each) != replication_factor for each in placed.values()):
            raise InvalidReplicaAssignmentError(
                f"Each of the new partitions needs {replication_factor} different replicas."
            )
        return placed

    async def _read(self, name: str) -> tuple[TopicNode, int] | None:
        if not is_topic_name(name):
            # Its path may lead to a node that is no topic's.
            return None
        path = topic_path(name)
        try:
            data, stat = await insist(self._coord, lambda: self._coord.get(path))
        except NoNode:
            return None
        return TopicNode.decode(path, data), stat.version


def _exists(name: str) -> TopicAlreadyExistsError:
    return TopicAlreadyExistsError(f"Topic '{name}' already exists.")


def _given(replicas: Sequence[tuple[int, Sequence[int]]]) -> dict[int, tuple[int, ...]]:
    """An assignment as a client gave it."""
    placed = {index: tuple(brokers) for index, brokers in replicas}
    if len(placed) < len(replicas):
        raise InvalidReplicaAssignmentError("A partition is assigned twice.")
    return placed


def _check_replicas(placed: Mapping[int, tuple[int, ...]]) -> None:
    if sorted(placed) != list(range(len(placed))):
        raise InvalidReplicaAssignmentError("Partitions should be a consecutive 0-based integer sequence.")
    if len({len(each) for each in placed.values()}) != 1 or not placed[0]:
        raise InvalidReplicaAssignmentError("All partitions should have the same number of replicas, at least one.")
    if any(len(set(each)) < len(each) for each in placed.values()):
        raise InvalidReplicaAssignmentError("Duplicate replica assignment found.")


async def auto_create(context: Context, name: str) -> None:
    """Make a topic because somebody asked for it, with as many partitions as are configured for such."""
    admin, config = TopicAdmin.of(context), context.config.broker
    counts, entries = (DEFAULT_COUNT, DEFAULT_COUNT), dict[str, str]()
    if name == GROUP_OFFSETS:
        counts = config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
        entries = {
            "compression.type": "producer",
            "cleanup.policy": "compact",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
    elif name == TRANSACTION_STATE:
        counts = config.transaction_state_log_num_partitions, config.transaction_state_log_replication_factor
        entries = {
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        }
    try:
        await admin.create(await admin.plan(name, *counts, entries=list(entries.items())))
    except TopicAlreadyExistsError:
        # Somebody else asked for it, too.
        return
