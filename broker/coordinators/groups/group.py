"""A group as a state machine. Pure: time is an argument, ids and storing are seams, answers go to whoever asked.

A rebalance: everybody joins, or is out after the rebalance timeout of the slowest; the first of a new group wait a
moment for others. All get the next generation; the leader also gets what everybody said, assigns, and once that is
stored everybody who syncs gets its part. A request of another generation is never carried out.

Time: `wake_at` is the moment at which `on_time` should be called; it may be too early, but never too late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from minikafka.broker.coordinators.groups.keeper import Keeper
from minikafka.broker.coordinators.groups.members import (
    Joined,
    JoinedMember,
    Joining,
    JoinReply,
    Member,
    Members,
    Synced,
    SyncReply,
)
from minikafka.broker.coordinators.groups.offsets import Offsets
from minikafka.broker.coordinators.groups.replacing import replace
from minikafka.broker.coordinators.groups.states import ANSWERS, Event, State, Wish, can_rebalance, next_state
from minikafka.protocol.errors import (
    CoordinatorNotAvailableError,
    ErrorCode,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    KafkaError,
    MemberIdRequiredError,
    UnknownMemberIdError,
    error_for,
)

NEW_MEMBER_TIMEOUT_MS: Final = 300_000
"""How long a rebalance may keep a new member waiting; it cannot send heartbeats, and may be gone."""


class Group:
    """See the module's description."""

    def __init__(self, group_id: str, keeper: Keeper) -> None:
        self.group_id = group_id
        self.keeper = keeper
        self.state = State.EMPTY
        self.state_since_ms: int | None = keeper.wall_ms()
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.members = Members()
        self.offsets = Offsets()
        self.wake_at: int | None = None
        self._rebalance_at: int | None = None
        self._sync_at: int | None = None
        # Of the first rebalance: by how much it may still be delayed, and whether somebody came who is worth it.
        self._extension_ms: int | None = None
        self._is_growing = False

    # ------------------------------------------------------------------------------------------------------- joining

    def join(self, asked: Joining, reply: JoinReply, now: int) -> None:
        """Let somebody in, or have it wait for the rebalance, or say why not."""
        try:
            self._join(asked, reply, now)
        except GroupMaxSizeReachedError as error:
            self.members.remove(asked.member_id)
            reply(Joined("", error.code))
        except KafkaError as error:
            reply(Joined(asked.member_id, error.code))
        self.complete_if_all_joined(now)

    def _join(self, asked: Joining, reply: JoinReply, now: int) -> None:
        if self.state is State.DEAD:
            raise CoordinatorNotAvailableError
        if not self._has_room(asked.member_id):
            raise GroupMaxSizeReachedError
        if not self._supports(asked):
            raise InconsistentGroupProtocolError
        if not asked.member_id:
            self._join_as_new(asked, reply, now)
        elif asked.member_id in self.members.pending:
            self._admit(asked, asked.member_id, reply, now)
        else:
            self._join_again(self.members.find(asked.member_id, asked.instance_id), asked, reply, now)

    def _has_room(self, member_id: str) -> bool:
        size_max = self.keeper.settings().size_max
        if self.state is State.EMPTY:
            return True
        if self.state is State.PREPARING_REBALANCE:
            # Not by how many there are: if the limit was lowered, the last to join are those who have to go.
            return member_id in self.members.joining or len(self.members.joining) < size_max
        return member_id in self.members.all or len(self.members) < size_max

    def _supports(self, asked: Joining) -> bool:
        if self.state is State.EMPTY:
            return bool(asked.protocol_type and asked.protocols)
        return self.protocol_type == asked.protocol_type and self.members.supports(name for name, _ in asked.protocols)

    def _join_as_new(self, asked: Joining, reply: JoinReply, now: int) -> None:
        new_id = self.keeper.new_member_id(asked.client_id if asked.instance_id is None else asked.instance_id)
        old_id = self.members.id_of_instance(asked.instance_id)
        if old_id is not None:
            replace(self, self.members.all[old_id], new_id, asked, reply, now)
        elif asked.requires_known_id and asked.instance_id is None:
            self.members.pending[new_id] = self._wake_by(now + asked.session_timeout_ms)
            reply(Joined(new_id, MemberIdRequiredError.code))
        else:
            self._admit(asked, new_id, reply, now)

    def _admit(self, asked: Joining, member_id: str, reply: JoinReply, now: int) -> None:
        if not len(self.members):
            self.protocol_type = asked.protocol_type
        if self.state is State.PREPARING_REBALANCE and self.generation == 0:
            self._is_growing = True
        member = Member(
            member_id=member_id,
            instance_id=asked.instance_id,
            client_id=asked.client_id,
            client_host=asked.client_host,
            session_timeout_ms=asked.session_timeout_ms,
            rebalance_timeout_ms=asked.rebalance_timeout_ms,
            protocols=asked.protocols,
            is_new=True,
            deadline_ms=self._wake_by(now + NEW_MEMBER_TIMEOUT_MS),
        )
        self.members.add(member)
        self.members.await_join(member, reply)
        self.maybe_rebalance(now)

    def _join_again(self, member: Member, asked: Joining, reply: JoinReply, now: int) -> None:
        is_same = member.protocols == asked.protocols
        if self.state is State.EMPTY:
            raise UnknownMemberIdError
        if self.state is State.COMPLETING_REBALANCE and is_same:
            # Our answer may have been lost.
            reply(self.joined(member))
        elif self.state is State.STABLE and is_same and member.member_id != self.members.leader_id:
            reply(self.joined(member)._replace(members=()))
        else:
            # Something changed; a leader may have seen a change that shows nowhere else, as of partitions.
            self.members.update(member, asked)
            self.members.await_join(member, reply)
            self.maybe_rebalance(now)

    # --------------------------------------------------------------------------------------------------- rebalancing

    def maybe_rebalance(self, now: int) -> None:
        """Rebalance, unless that is under way."""
        if can_rebalance(self.state):
            self.prepare_rebalance(now)

    def prepare_rebalance(self, now: int) -> None:
        """Call everybody to join, and wait for them."""
        if self.state is State.COMPLETING_REBALANCE:
            self._fail_syncs(ErrorCode.REBALANCE_IN_PROGRESS, now)
        self._sync_at = None
        timeout_ms = self.members.rebalance_timeout_ms
        self._extension_ms = None
        if self.state is State.EMPTY:
            delay_ms = self.keeper.settings().initial_delay_ms
            self._extension_ms, timeout_ms = max(timeout_ms - delay_ms, 0), delay_ms
        self._rebalance_at = self._wake_by(now + timeout_ms)
        self._is_growing = False
        self._enter(Event.REBALANCE)
        self.complete_if_all_joined(now)

    def complete_if_all_joined(self, now: int) -> None:
        """Go on if nobody has to be waited for; a new group waits for more members in any case."""
        is_preparing = self.state is State.PREPARING_REBALANCE
        if is_preparing and self._extension_ms is None and self.members.have_all_joined:
            self._complete_join(now)

    def _on_rebalance_due(self, now: int) -> None:
        if self._extension_ms and self._is_growing:
            self._is_growing = False
            delay_ms = min(self.keeper.settings().initial_delay_ms, self._extension_ms)
            self._extension_ms -= delay_ms
            self._rebalance_at = self._wake_by(now + delay_ms)
        else:
            self._complete_join(now)

    def _complete_join(self, now: int) -> None:
        self._extension_ms = None
        for absent in self.members.absent():
            if absent.instance_id is None:
                self.members.remove(absent.member_id)
        if len(self.members) and not self.members.elect_joined_leader():
            # Only static members, and none has joined: their sessions end it.
            self._rebalance_at = self._wake_by(now + self.members.rebalance_timeout_ms)
            return
        self._rebalance_at = None
        self.generation += 1
        self.members.unsynced.clear()
        if not len(self.members):
            self.protocol_name = None
            self._enter(Event.EMPTIED)
            self.keeper.store(self, {}, _ignore)
            return
        self.protocol_name = self.members.select_protocol()
        self._enter(Event.JOINED)
        self._sync_at = self._wake_by(now + self.members.rebalance_timeout_ms)
        for member in self.members:
            self.members.answer_joining(member.member_id, self.joined(member))
            self.touch(member, now)
            member.is_new = False
            self.members.unsynced.add(member.member_id)

    def joined(self, member: Member) -> Joined:
        """How things stand, for one member; the leader hears of all others."""
        leader_id = self.members.leader_id
        assert leader_id is not None
        return Joined(
            member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=leader_id,
            members=tuple(self.described()) if member.member_id == leader_id else (),
        )

    def described(self) -> Iterable[JoinedMember]:
        for each in self.members:
            yield JoinedMember(each.member_id, each.instance_id, each.metadata(self.protocol_name))

    # ------------------------------------------------------------------------------------------------------- syncing

    def sync(
        self,
        member: Member,
        protocol: tuple[str | None, str | None],
        assignments: Mapping[str, bytes],
        reply: SyncReply,
        now: int,
    ) -> None:
        """Tell a member its assignment when there is one. That it is a member of this generation has been checked."""
        own = (self.protocol_type, self.protocol_name)
        if any(said is not None and said != known for said, known in zip(protocol, own, strict=True)):
            reply(Synced(InconsistentGroupProtocolError.code))
            return
        error = ANSWERS[self.state, Wish.SYNC]
        if error:
            reply(Synced(error))
            return
        self._has_synced(member)
        if self.state is State.STABLE:
            self.touch(member, now)
            reply(self._synced(member))
            return
        self.members.await_sync(member, reply)
        if member.member_id == self.members.leader_id:
            all_assignments = {each: assignments.get(each, b"") for each in self.members.all}
            self.keeper.store(self, all_assignments, partial(self._on_assigned, self.generation, all_assignments))

    def _has_synced(self, member: Member) -> None:
        self.members.unsynced.discard(member.member_id)
        if not self.members.unsynced:
            self._sync_at = None

    def _on_assigned(
        self, generation: int, assignments: Mapping[str, bytes], error: KafkaError | None, now: int
    ) -> None:
        if self.state is not State.COMPLETING_REBALANCE or generation != self.generation:
            # Somebody came or went meanwhile; the next generation gets its own.
            return
        if error is not None:
            self._fail_syncs(error.code, now)
            self.maybe_rebalance(now)
            return
        self._enter(Event.ASSIGNED)
        for member in self.members:
            member.assignment = assignments.get(member.member_id, b"")
            if (reply := self.members.syncing.pop(member.member_id, None)) is not None:
                self.touch(member, now)
                reply(self._synced(member))

    def _synced(self, member: Member) -> Synced:
        return Synced(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment)

    def _fail_syncs(self, error: ErrorCode, now: int) -> None:
        for member in self.members:
            member.assignment = b""
            if (reply := self.members.syncing.pop(member.member_id, None)) is not None:
                self.touch(member, now)
                reply(Synced(error))

    # ------------------------------------------------------------------------------------------- staying and leaving

    def check_member(self, member_id: str, instance_id: str | None, generation: int) -> Member:
        """A member of the generation that there is, or the reason why it is none."""
        if self.state is State.DEAD:
            raise CoordinatorNotAvailableError
        member = self.members.find(member_id, instance_id)
        if generation != self.generation:
            raise IllegalGenerationError
        return member

    def heartbeat(self, member: Member, now: int) -> ErrorCode:
        self.touch(member, now)
        return ANSWERS[self.state, Wish.HEARTBEAT]

    def check_commit(self, member_id: str, instance_id: str | None, generation: int, now: int) -> None:
        """Whether somebody may commit offsets: members, or anybody who is none while there are none."""
        if generation >= 0 or self.state is not State.EMPTY:
            self.touch(self.check_member(member_id, instance_id, generation), now)
        error = ANSWERS[self.state, Wish.COMMIT]
        if error:
            raise error_for(error)

    def check_commit_within(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """The same within a transaction, where old clients say nothing of their membership."""
        says_who = bool(member_id) or instance_id is not None
        if generation >= 0 or (says_who and self.state is not State.EMPTY):
            self.check_member(member_id, instance_id, generation)

    def leave(self, member_id: str, instance_id: str | None, now: int) -> None:
        """Let a member go. By its instance id alone anybody may send one away."""
        if self.state is State.DEAD:
            raise CoordinatorNotAvailableError
        if not member_id:
            found = self.members.id_of_instance(instance_id)
            if found is None:
                raise UnknownMemberIdError
            member_id = found
        elif member_id not in self.members.pending:
            self.members.find(member_id, instance_id)
        self._remove(member_id, now)

    def _remove(self, member_id: str, now: int) -> None:
        was_member = member_id in self.members.all
        self.members.remove(member_id)
        if was_member:
            self.maybe_rebalance(now)
        self.complete_if_all_joined(now)

    # ---------------------------------------------------------------------------------------------------------- time

    def touch(self, member: Member, now: int) -> None:
        """A member was heard of, or told something."""
        member.deadline_ms = self._wake_by(now + member.session_timeout_ms)

    def on_time(self, now: int) -> None:
        """Do what is due."""
        self.wake_at = None
        for member_id, deadline in list(self.members.pending.items()):
            if deadline <= now:
                self._remove(member_id, now)
        for member in list(self.members):
            waits = not member.is_new and self.members.is_waiting(member)
            if member.deadline_ms <= now and not waits and member.member_id in self.members.all:
                self._remove(member.member_id, now)
        if self._rebalance_at is not None and self._rebalance_at <= now:
            self._on_rebalance_due(now)
        if self._sync_at is not None and self._sync_at <= now:
            self._sync_at = None
            for member_id in list(self.members.unsynced):
                self.members.remove(member_id)
            self.maybe_rebalance(now)
        self._plan(now)

    def _plan(self, now: int) -> None:
        """Find out when there is something to do next."""
        waits = self.members.is_waiting
        deadlines = [each.deadline_ms for each in self.members if each.is_new or not waits(each)]
        deadlines += self.members.pending.values()
        deadlines += [each for each in (self._rebalance_at, self._sync_at) if each is not None]
        self.wake_at = min(deadlines, default=None)

    def _wake_by(self, moment: int) -> int:
        if self.wake_at is None or moment < self.wake_at:
            self.wake_at = moment
        return moment

    # ------------------------------------------------------------------------------------------------------- the end

    def _enter(self, event: Event) -> None:
        self.state = next_state(self.state, event)
        self.state_since_ms = self.keeper.wall_ms()

    def end(self, error: ErrorCode) -> None:
        """The group is not here any more; whoever waits is told why."""
        if self.state is State.DEAD:
            return
        self._enter(Event.ENDED)
        self.wake_at = self._rebalance_at = self._sync_at = None
        for member_id in list(self.members.joining):
            self.members.answer_joining(member_id, Joined(member_id, error))
        for member_id in list(self.members.syncing):
            self.members.syncing.pop(member_id)(Synced(error))


def _ignore(_: KafkaError | None, __: int) -> None:
    """A group without members can do without what is written of it: its generation, and since when it is empty."""
