"""Who is in a group: members, those who wait for an answer, and which protocol all of them know.

A member that got its id but has not joined with it is *pending*: a rebalance waits for it. A *static* member has an
instance id, by which it is known again after a restart, when it comes with no member id or another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from minikafka.protocol.errors import ErrorCode, FencedInstanceIdError, UnknownMemberIdError

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names with what the member says under each, the one it likes best first."""


class Joining(NamedTuple):
    """A wish to join."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_known_id: bool = False
    """The client expects to be given an id first and to come again with it."""
    may_skip_assignment: bool = False


class JoinedMember(NamedTuple):
    """A member as the leader is told of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    """The answer to one who wants to join."""

    member_id: str
    error: ErrorCode = ErrorCode.NONE
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class Synced(NamedTuple):
    """The answer to one who asks for its assignment."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


JoinReply: TypeAlias = Callable[[Joined], None]
SyncReply: TypeAlias = Callable[[Synced], None]


@dataclass(slots=True, eq=False)
class Member:
    """One member."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """It has not got an answer to its first join, so it cannot send heartbeats."""
    deadline_ms: int = 0
    """When it counts as gone, unless it is heard of or waits for us."""

    def metadata(self, protocol: str | None) -> bytes:
        return next((each for name, each in self.protocols if name == protocol), b"")


@dataclass(slots=True)
class Members:
    """See the module's description."""

    all: dict[str, Member] = field(default_factory=dict)
    leader_id: str | None = None
    pending: dict[str, int] = field(default_factory=dict)
    """Those who were given an id and are to come with it, until when."""
    joining: dict[str, JoinReply] = field(default_factory=dict)
    syncing: dict[str, SyncReply] = field(default_factory=dict)
    unsynced: set[str] = field(default_factory=set)
    """Who has not asked for its assignment in this generation."""
    _instances: dict[str, str] = field(default_factory=dict)
    _supported: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.all.values())

    # ------------------------------------------------------------------------------------------------ who is who

    def id_of_instance(self, instance_id: str | None) -> str | None:
        return None if instance_id is None else self._instances.get(instance_id)

    def find(self, member_id: str, instance_id: str | None) -> Member:
        """A member that is who it says it is."""
        if instance_id is not None:
            current = self._instances.get(instance_id)
            if current is None:
                raise UnknownMemberIdError
            if current != member_id:
                raise FencedInstanceIdError
        found = self.all.get(member_id)
        if found is None:
            raise UnknownMemberIdError
        return found

    @property
    def rebalance_timeout_ms(self) -> int:
        """As long as the slowest member may take."""
        return max((each.rebalance_timeout_ms for each in self), default=0)

    # --------------------------------------------------------------------------------------------- coming, going

    def add(self, member: Member) -> None:
        assert member.member_id not in self.all
        self.all[member.member_id] = member
        self._supported.update({name for name, _ in member.protocols})
        self.pending.pop(member.member_id, None)
        if member.instance_id is not None:
            assert member.instance_id not in self._instances
            self._instances[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def update(self, member: Member, asked: Joining) -> None:
        """Take over what a member says of itself now."""
        self.set_protocols(member, asked.protocols)
        member.session_timeout_ms = asked.session_timeout_ms
        member.rebalance_timeout_ms = asked.rebalance_timeout_ms

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        self._supported.subtract({name for name, _ in member.protocols})
        self._supported.update({name for name, _ in protocols})
        member.protocols = protocols

    def remove(self, member_id: str) -> None:
        """Forget a member; if it waits for something, it is told that it is none any more."""
        if (join := self.joining.pop(member_id, None)) is not None:
            join(Joined("", ErrorCode.UNKNOWN_MEMBER_ID))
        if (sync := self.syncing.pop(member_id, None)) is not None:
            sync(Synced(ErrorCode.UNKNOWN_MEMBER_ID))
        self.pending.pop(member_id, None)
        self.unsynced.discard(member_id)
        member = self.all.pop(member_id, None)
        if member is None:
            return
        self._supported.subtract({name for name, _ in member.protocols})
        if member.instance_id is not None:
            del self._instances[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.all), None)

    def rename(self, member: Member, new_id: str) -> None:
        """A static member was started anew: whoever still uses its old id is fenced."""
        old_id = member.member_id
        if (join := self.joining.pop(old_id, None)) is not None:
            join(Joined(old_id, ErrorCode.FENCED_INSTANCE_ID))
        if (sync := self.syncing.pop(old_id, None)) is not None:
            sync(Synced(ErrorCode.FENCED_INSTANCE_ID))
        if old_id in self.unsynced:
            self.unsynced.remove(old_id)
            self.unsynced.add(new_id)
        assert member.instance_id is not None
        self._instances[member.instance_id] = new_id
        member.member_id = new_id
        # It keeps its place: the order of members is what assignors go by.
        self.all = {each.member_id: each for each in self.all.values()}
        if self.leader_id == old_id:
            self.leader_id = new_id

    # ----------------------------------------------------------------------------------------------- who waits

    def await_join(self, member: Member, reply: JoinReply) -> None:
        """A member waits for the rebalance; if it asks again, nobody listens to the first answer any more."""
        if (earlier := self.joining.pop(member.member_id, None)) is not None:
            earlier(Joined(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
        self.joining[member.member_id] = reply

    def await_sync(self, member: Member, reply: SyncReply) -> None:
        if (earlier := self.syncing.pop(member.member_id, None)) is not None:
            earlier(Synced(ErrorCode.REBALANCE_IN_PROGRESS))
        self.syncing[member.member_id] = reply

    def answer_joining(self, member_id: str, answer: Joined) -> None:
        if (reply := self.joining.pop(member_id, None)) is not None:
            reply(answer)

    def is_waiting(self, member: Member) -> bool:
        return member.member_id in self.joining or member.member_id in self.syncing

    @property
    def have_all_joined(self) -> bool:
        return len(self.joining) == len(self.all) and not self.pending

    def absent(self) -> list[Member]:
        """Who should have joined and did not."""
        return [each for each in self if each.member_id not in self.joining]

    def elect_joined_leader(self) -> bool:
        """Have a leader that has joined; False if nobody has."""
        if self.leader_id not in self.joining:
            self.leader_id = next((each for each in self.all if each in self.joining), self.leader_id)
        return self.leader_id in self.joining

    # -------------------------------------------------------------------------------------------------- protocols

    def supports(self, names: Iterable[str]) -> bool:
        """Whether one of these protocols is known to everybody."""
        return any(self._supported[name] == len(self.all) for name in names)

    def select_protocol(self) -> str:
        """What most members like best of what all of them know; the leader's taste decides between equals."""
        known = {name for name, count in self._supported.items() if count == len(self.all)}
        votes = Counter(next(name for name, _ in each.protocols if name in known) for each in self)
        leader = self.all[self.leader_id] if self.leader_id in self.all else next(iter(self))
        ranks = {name: rank for rank, (name, _) in reversed(list(enumerate(leader.protocols)))}
        return max(votes, key=lambda name: (votes[name], -ranks[name]))
