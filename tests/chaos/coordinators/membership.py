"""A member of a group whose steps are taken one by one: each method is one request, and nothing is done besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.protocol.errors import KafkaError, MemberIdRequiredError, error_for
from minikafka.protocol.messages.consumer_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from minikafka.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from minikafka.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.chaos.coordinators.wire import GROUP, Place, Wire, check

_JOIN_VERSION = 5
_SYNC_VERSION = 3
_HEARTBEAT_VERSION = 3
_COMMIT_VERSION = 7
_SUBSCRIPTION_VERSION = 0

PROTOCOL = "every nth"


class Membership:
    """One member, through all generations it is part of."""

    def __init__(
        self, wire: Wire, group: str, places: Sequence[Place], session_seconds: float, instance: str | None = None
    ) -> None:
        self.wire = wire
        self.group = group
        self.generation = -1
        self._places = places
        self._session_ms = int(session_seconds * 1000)
        self._instance = instance
        self._member_id = ""
        # As the leader: who else is there.
        self._members: list[str] = []

    def forget(self) -> None:
        """Be nobody again."""
        self._member_id = ""

    def join(self) -> None:
        """Wait for the next generation."""
        topics = sorted({place.topic for place in self._places})
        subscription = ConsumerProtocolSubscription(topics=topics).dump(_SUBSCRIPTION_VERSION)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=self._session_ms,
            member_id=self._member_id,
            group_instance_id=self._instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription)],
        )
        answer = self.wire.ask_coordinator(GROUP, self.group, request, _JOIN_VERSION)
        if answer.error_code == MemberIdRequiredError.code:
            self._member_id = answer.member_id
        check(answer.error_code)
        self._member_id, self.generation = answer.member_id, answer.generation_id
        is_leader = answer.leader == answer.member_id
        self._members = [each.member_id for each in answer.members] if is_leader else []

    def sync(self) -> list[Place]:
        """What it owns in this generation."""
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self._member_id,
            group_instance_id=self._instance,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=_assignment(places))
                for member, places in self._shares().items()
            ],
        )
        answer = self.wire.ask_coordinator(GROUP, self.group, request, _SYNC_VERSION)
        check(answer.error_code)
        found = ConsumerProtocolAssignment.parse(answer.assignment)
        return [Place(each.topic, index) for each in found.assigned_partitions for index in each.partitions]

    def _shares(self) -> dict[str, list[Place]]:
        members = sorted(self._members)
        return {member: list(self._places[index :: len(members)]) for index, member in enumerate(members)}

    def heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self._member_id,
            group_instance_id=self._instance,
        )
        answer = self.wire.ask_coordinator(GROUP, self.group, request, _HEARTBEAT_VERSION)
        check(answer.error_code)

    def commit(self, generation: int, offsets: Mapping[Place, int]) -> dict[Place, KafkaError | None]:
        """For each place whether it was accepted, None, or why not."""
        topics = [
            OffsetCommitRequestTopic(
                name=place.topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=place.partition, committed_offset=offset, committed_metadata=""
                    )
                ],
            )
            for place, offset in offsets.items()
        ]
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=self._member_id,
            group_instance_id=self._instance,
            topics=topics,
        )
        answer = self.wire.ask_coordinator(GROUP, self.group, request, _COMMIT_VERSION)
        return {
            Place(topic.name, each.partition_index): error_for(each.error_code) if each.error_code else None
            for topic in answer.topics
            for each in topic.partitions
        }


def _assignment(places: Sequence[Place]) -> bytes:
    topics = sorted({place.topic for place in places})
    assigned = [
        AssignedPartitions(topic=topic, partitions=[place.partition for place in places if place.topic == topic])
        for topic in topics
    ]
    return ConsumerProtocolAssignment(assigned_partitions=assigned).dump(_SUBSCRIPTION_VERSION)
