"""Groups under any schedule of requests, time and storing: what has to hold whatever happens.

- A generation has one leader and one protocol, whoever is told of it; only the leader hears of the others.
- Generations only grow, and nothing is accepted from a member of another.
- Members of a stable group that got an assignment got the one its leader made for this generation.
- One instance is one member. Everybody who waits is answered once, and in the end everybody is.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.broker.coordinators.groups.members import Joined, Protocols, Synced
from minikafka.broker.coordinators.groups.states import State
from minikafka.protocol.errors import ErrorCode, NotCoordinatorError
from tests.broker.coordinators.stand import PROTOCOLS, Stand

SCHEDULES = int(os.environ.get("MINIKAFKA_SCHEDULES", "200"))

CLIENTS = 4
VOICES: tuple[Protocols, ...] = (PROTOCOLS, PROTOCOLS[::-1], PROTOCOLS[:1], (("range", b"other"), ("sticky", b"")))


class Client:
    """One who takes part, and believes what it was told last."""

    def __init__(self, number: int) -> None:
        self.instance_id = f"i{number}" if number == 0 else None
        self.member_id = ""
        self.generation = -1
        self.leader_id = ""
        self.others: list[str] = []
        self.joins: list[list[Joined]] = []
        self.syncs: list[list[Synced]] = []
        self.protocols = PROTOCOLS


class Schedule:
    """A group, clients, and what has been seen."""

    def __init__(self, delay_ms: int) -> None:
        self.stand = Stand(delay_ms, size_max=3)
        self.clients = [Client(number) for number in range(CLIENTS)]
        self.told: dict[int, tuple[str, str | None]] = {}
        self.generation = 0
        self.joins: list[list[Joined]] = []
        self.syncs: list[list[Synced]] = []

    # --------------------------------------------------------------------------------------------------- steps

    def join(self, client: Client, pick: int) -> None:
        if pick % 3 == 0:
            client.protocols = VOICES[pick % len(VOICES)]
        if pick == 5:
            # Started anew: it has forgotten everything.
            client.member_id, client.generation = "", -1
        answers = self.stand.join(
            client.member_id,
            client.instance_id,
            protocols=client.protocols,
            requires_known_id=pick % 2 == 0,
            may_skip_assignment=pick > 5,
            session_timeout_ms=6_000 + pick,
        )
        client.joins.append(answers)
        self.joins.append(answers)

    def restart_static(self, _: Client, pick: int) -> None:
        client = self.clients[0]
        client.member_id, client.generation = "", -1
        self.join(client, 7 if pick % 2 else 1)

    def sync(self, client: Client, pick: int) -> None:
        if client.leader_id != client.member_id:
            assignments = {}
        else:
            assignments = {each: f"{client.generation}/{each}/{pick}".encode() for each in client.others}
        before = self.stand.group.generation
        answers = self.stand.sync(client.member_id, client.generation, assignments)
        client.syncs.append(answers)
        self.syncs.append(answers)
        self.check_accepted(client.generation, before, answers[0].error if answers else ErrorCode.NONE)

    def heartbeat(self, client: Client, _: int) -> None:
        before = self.stand.group.generation
        error = self.stand.heartbeat(client.member_id, client.generation, client.instance_id)
        self.check_accepted(client.generation, before, error)

    def commit(self, client: Client, _: int) -> None:
        before, state = self.stand.group.generation, self.stand.group.state
        error = self.stand.commit(client.member_id, client.generation)
        if not (state is State.EMPTY and client.generation < 0):
            self.check_accepted(client.generation, before, error)

    def leave(self, client: Client, pick: int) -> None:
        by_name = client.instance_id is not None and pick % 2
        self.stand.leave("" if by_name else client.member_id, client.instance_id)

    def pass_time(self, _: Client, pick: int) -> None:
        self.stand.pass_time((0, 0, 1, 500, 1_000, 3_000, 6_000, 60_000)[pick])

    def finish_store(self, _: Client, pick: int) -> None:
        if self.stand.stores:
            self.stand.finish_store(NotCoordinatorError() if pick == 0 else None)

    def settle(self, _: Client, pick: int) -> None:
        """Some clients do what good clients do, up to a stable group: chance alone rarely gets there."""
        some = self.clients[: 1 + pick % CLIENTS]
        for _turn in range(2):
            for client in some:
                if not client.joins:
                    self.join(client, 1)
                self.hear()
        self.stand.pass_time(3_000)
        self.hear()
        for client in some:
            self.sync(client, pick)
        while self.stand.stores:
            self.stand.finish_store()

    # -------------------------------------------------------------------------------------------------- checks

    def check_accepted(self, said: int, known: int, error: ErrorCode) -> None:
        assert error or said == known, f"generation {said} was accepted at {known}"

    def hear(self) -> None:
        """Clients take note of what they were told, in the order in which they asked."""
        for client in self.clients:
            for join in [each for each in client.joins if each]:
                client.joins.remove(join)
                self.hear_joined(client, join[0])
            for sync in [each for each in client.syncs if each]:
                client.syncs.remove(sync)

    def hear_joined(self, client: Client, answer: Joined) -> None:
        if answer.error == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        elif answer.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
            client.member_id, client.generation = "", -1
        elif answer.error == ErrorCode.NONE:
            assert answer.protocol_name in {name for name, _ in client.protocols} or client.instance_id
            told = self.told.setdefault(answer.generation, (answer.leader_id, answer.protocol_name))
            assert told[1] == answer.protocol_name
            if client.instance_id is None:
                # A static leader that came back has another id.
                assert told[0] == answer.leader_id or told[0].startswith("i0")
            assert not answer.members or answer.leader_id == answer.member_id
            client.member_id, client.generation = answer.member_id, answer.generation
            client.leader_id, client.others = answer.leader_id, [each.member_id for each in answer.members]

    def check(self) -> None:
        group, members = self.stand.group, self.stand.group.members
        assert group.generation >= self.generation
        self.generation = group.generation
        assert max((*map(len, self.joins), *map(len, self.syncs), 0)) <= 1, "somebody was answered twice"
        assert bool(len(members)) is (members.leader_id is not None)
        assert members.leader_id is None or members.leader_id in members.all
        assert set(members.joining) <= set(members.all) and set(members.syncing) <= set(members.all)
        instances = [each.instance_id for each in members if each.instance_id]
        assert len(instances) == len(set(instances))
        if group.state is State.EMPTY:
            assert not len(members)
        if group.state in (State.COMPLETING_REBALANCE, State.STABLE):
            assert all(group.protocol_name in dict(each.protocols) for each in members)
        if group.state is State.STABLE:
            assert not members.syncing
            for member in members:
                assert not member.assignment or member.assignment.startswith(f"{group.generation}/".encode())

    def finish(self) -> None:
        """Nobody does anything any more: sessions end, and everybody gets an answer."""
        for _ in range(6):
            while self.stand.stores:
                self.stand.finish_store()
            self.stand.pass_time(310_000)
        while self.stand.stores:
            self.stand.finish_store()
        assert min((*map(len, self.joins), *map(len, self.syncs), 1)) == 1, "somebody still waits"
        assert self.stand.group.state is State.EMPTY


STEPS: tuple[Any, ...] = (
    *(Schedule.join,) * 3,
    *(Schedule.sync,) * 3,
    Schedule.heartbeat,
    Schedule.commit,
    Schedule.leave,
    Schedule.restart_static,
    *(Schedule.settle,) * 2,
    *(Schedule.pass_time,) * 2,
    *(Schedule.finish_store,) * 2,
)


@settings(max_examples=SCHEDULES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from((0, 0, 3_000)),
    st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(0, CLIENTS - 1), st.integers(0, 7)), min_size=30, max_size=90
    ),
)
def test_whatever_happens(delay_ms: int, steps: list[tuple[Any, int, int]]) -> None:
    schedule = Schedule(delay_ms)
    for step, client, pick in steps:
        step(schedule, schedule.clients[client], pick)
        schedule.hear()
        schedule.check()
    schedule.finish()
