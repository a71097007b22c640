"""A group without a world: it is stored when the test says so, and what is answered is written down."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from minikafka.broker.coordinators.groups.group import Group
from minikafka.broker.coordinators.groups.keeper import Settings, Stored
from minikafka.broker.coordinators.groups.members import Joined, Joining, Protocols, Synced
from minikafka.protocol.errors import ErrorCode, KafkaError

PROTOCOLS: Protocols = (("range", b"r"), ("sticky", b"s"))


class Stand:
    """A group, its time, and what came of requests."""

    def __init__(self, initial_delay_ms: int = 0, size_max: int = 100) -> None:
        self.now = 1_000
        self.limits = Settings(initial_delay_ms, size_max)
        self.stores: list[tuple[Mapping[str, bytes], Stored]] = []
        self._ids = count(1)
        self.group = Group("g", self)

    # ------------------------------------------------------------------------------------- what a group needs

    def settings(self) -> Settings:
        return self.limits

    def new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{next(self._ids)}"

    def wall_ms(self) -> int:
        return self.now

    def store(self, group: Group, assignments: Mapping[str, bytes], stored: Stored) -> None:
        self.stores.append((assignments, stored))

    # -------------------------------------------------------------------------------------- what a test does

    def finish_store(self, error: KafkaError | None = None) -> None:
        _, stored = self.stores.pop(0)
        stored(error, self.now)

    def pass_time(self, milliseconds: int) -> None:
        """Time goes by, and what is due is done when it is due."""
        until = self.now + milliseconds
        while self.group.wake_at is not None and self.group.wake_at <= until:
            self.now = max(self.now, self.group.wake_at)
            self.group.on_time(self.now)
        self.now = max(self.now, until)

    def join(self, member_id: str = "", instance_id: str | None = None, **others: Any) -> list[Joined]:
        """The list will hold the answer."""
        answers: list[Joined] = []
        asked = Joining(
            member_id=member_id,
            instance_id=instance_id,
            client_id="client",
            client_host="/host",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=PROTOCOLS,
        )
        self.group.join(asked._replace(**others), answers.append, self.now)
        return answers

    def sync(self, member_id: str, generation: int, assignments: Mapping[str, bytes] | None = None) -> list[Synced]:
        answers: list[Synced] = []
        try:
            member = self.group.check_member(member_id, None, generation)
        except KafkaError as error:
            return [Synced(error.code)]
        self.group.sync(member, (None, None), assignments or {}, answers.append, self.now)
        return answers

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        try:
            return self.group.heartbeat(self.group.check_member(member_id, instance_id, generation), self.now)
        except KafkaError as error:
            return error.code

    def leave(self, member_id: str, instance_id: str | None = None) -> ErrorCode:
        try:
            self.group.leave(member_id, instance_id, self.now)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def commit(self, member_id: str, generation: int) -> ErrorCode:
        try:
            self.group.check_commit(member_id, None, generation, self.now)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def stable(self, size: int, **others: Any) -> list[str]:
        """A group of so many members that have all got their assignments; the ids, the leader's first."""
        joins = [self.join(**others) for _ in range(size)]
        self.pass_time(0)
        ids = [answers[0].member_id for answers in joins]
        leader_id, generation = self.group.members.leader_id, self.group.generation
        assert leader_id is not None
        syncs = [self.sync(each, generation) for each in ids if each != leader_id]
        syncs.append(self.sync(leader_id, generation, {each: each.encode() for each in ids}))
        self.finish_store()
        assert [len(answers) for answers in syncs] == [1] * size
        return [leader_id, *(each for each in ids if each != leader_id)]
