"""The leader's work: dividing the partitions among the members that the coordinator lists, and watching them."""

from __future__ import annotations

from typing import Final

from minikafka.client.cluster import Cluster
from minikafka.client.consumer.assignors.base import Assignor, Member, decode_subscription, encode_assignment
from minikafka.client.consumer.config import ConsumerConfig
from minikafka.protocol.errors import InconsistentGroupProtocolError
from minikafka.protocol.messages.groups import JoinGroupResponse, SyncGroupRequestAssignment

_NOT_WATCHING: Final[dict[str, int]] = {}


class GroupLeader:
    """What a member does only while it is the leader."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig) -> None:
        self._cluster = cluster
        self._assignors: dict[str, Assignor] = {assignor.name: assignor for assignor in config.assignors}
        self._topics: frozenset[str] = frozenset()
        self._counts = _NOT_WATCHING

    async def assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """The assignments to send with SyncGroup: none, unless this member leads. DecodeError for bytes of other
        members that make no sense."""
        self.stop_watching()
        if joined.leader != joined.member_id:
            return []
        members = [
            Member(each.member_id, decode_subscription(each.metadata), each.group_instance_id)
            for each in joined.members
        ]
        self._topics = frozenset(topic for member in members for topic in member.subscription.topics)
        await self._know_topics()
        self._counts = self._count()
        # A static leader that came back to a group in which nothing else has changed.
        if joined.skip_assignment:
            return []
        assignor = self._assignors.get(joined.protocol_name or "")
        if assignor is None:
            raise InconsistentGroupProtocolError(f"the coordinator chose {joined.protocol_name!r}, which is not here")
        assigned = assignor.assign(members, self._counts)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
            for member_id, partitions in assigned.items()
        ]

    async def _know_topics(self) -> None:
        """Other members may read topics that this one has never heard of."""
        self._cluster.claim_topics("group", self._topics)
        if not self._topics <= self._cluster.metadata.topics.keys():
            await self._cluster.refresh()

    def stop_watching(self) -> None:
        """This member does not lead any more."""
        self._topics, self._counts = frozenset(), _NOT_WATCHING
        self._cluster.claim_topics("group", ())

    def _count(self) -> dict[str, int]:
        counts = {topic: len(self._cluster.partitions(topic) or ()) for topic in self._topics}
        return {topic: count for topic, count in counts.items() if count}

    def sees_change(self) -> bool:
        """Whether the topics of the group have other partitions than were assigned."""
        return bool(self._topics) and self._count() != self._counts
