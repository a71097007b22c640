"""Static members that come back: the same instance under a new member id.

A stable group stays as it is if the member speaks as before: it is only written down who it is now. Otherwise, and
while a leader may be assigning to the old id, there is a rebalance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from minikafka.broker.coordinators.groups.members import Joined, Joining, JoinReply, Member
from minikafka.broker.coordinators.groups.states import State
from minikafka.protocol.errors import KafkaError

if TYPE_CHECKING:
    from minikafka.broker.coordinators.groups.group import Group


class _Replacement(NamedTuple):
    """A member that waits for its new id to be stored."""

    group: Group
    member: Member
    new_id: str
    before: Joining
    leader_id: str | None
    generation: int
    may_skip_assignment: bool

    def on_stored(self, error: KafkaError | None, now: int) -> None:
        group, members = self.group, self.group.members
        if group.state is not State.STABLE or group.generation != self.generation:
            # A rebalance has begun meanwhile, and answers.
            return
        if self.member.member_id != self.new_id or self.new_id not in members.joining:
            # It left, or came back once more.
            return
        if error is None:
            members.answer_joining(self.new_id, self._answer())
        else:
            members.answer_joining(self.new_id, Joined("", error.code))
            members.update(self.member, self.before)
            members.rename(self.member, self.before.member_id)
        group.touch(self.member, now)

    def _answer(self) -> Joined:
        answer = self.group.joined(self.member)
        if self.may_skip_assignment:
            # A leader needs to know that it is one, but not to assign: the group has its assignment.
            return answer._replace(skip_assignment=answer.leader_id == self.new_id)
        # Told of the old id, an older client does not take itself for the leader, and does not assign either.
        return answer._replace(leader_id=self.leader_id or "", members=())


def replace(group: Group, member: Member, new_id: str, asked: Joining, reply: JoinReply, now: int) -> None:
    """Have an instance go on under its new id; whoever still uses the old one is fenced."""
    members = group.members
    replacement = _Replacement(
        group,
        member,
        new_id,
        asked._replace(
            member_id=member.member_id,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            protocols=member.protocols,
        ),
        members.leader_id,
        group.generation,
        asked.may_skip_assignment,
    )
    members.rename(member, new_id)
    members.update(member, asked)
    members.await_join(member, reply)
    group.touch(member, now)
    if group.state is State.COMPLETING_REBALANCE:
        # The leader may be assigning to the old id.
        group.prepare_rebalance(now)
    elif group.state is State.STABLE:
        if members.select_protocol() == group.protocol_name:
            assignments = {each.member_id: each.assignment for each in members}
            group.keeper.store(group, assignments, replacement.on_stored)
        else:
            group.prepare_rebalance(now)
