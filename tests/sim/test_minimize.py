"""The minimizer finds the few faults that a violation needs, and prints a schedule that can be played."""

from __future__ import annotations

import pytest

from minikafka.broker.replication.following import Following
from tests.sim.campaign.minimize import kind_of, minimize, schedule_of, shrunk
from tests.sim.campaign.plan import Fault, Plan, plan_of
from tests.sim.campaign.play import play


def test_list_is_shrunk_to_what_is_needed() -> None:
    tries: list[int] = []

    def fails(items: object) -> bool:
        assert isinstance(items, list)
        tries.append(len(items))
        return {3, 17} <= set(items)

    assert shrunk(list(range(40)), fails) == [3, 17]
    assert len(tries) < 60
    assert shrunk([1, 2, 3], lambda _: True) == []
    assert shrunk([1, 2, 3], lambda items: len(items) == 3) == [1, 2, 3]


def test_plan_is_simplified_as_long_as_it_fails() -> None:
    plan = plan_of(7)
    needed = plan.faults[2]

    def fails(candidate: Plan) -> bool:
        return any(fault.salt == needed.salt and fault.at > 1.2 for fault in candidate.faults)

    smallest = minimize(plan, fails)
    assert [fault.salt for fault in smallest.faults] == [needed.salt]
    assert smallest.faults[0].seconds == round(smallest.faults[0].seconds, 1)
    assert (smallest.profile, smallest.shuffles, smallest.permits) == ("replication", False, "")


def test_schedule_is_python_that_makes_the_same_plan() -> None:
    plan = plan_of(7)
    text = schedule_of(plan, "lost: 5 is gone").replace("    assert play(plan).violations == []", "    return plan")
    names: dict[str, object] = {}
    exec(text, names)
    made = names["test_lost_of_seed_7"]
    assert callable(made)
    assert made() == plan


@pytest.mark.long
def test_injected_defect_is_reduced_to_the_fault_that_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Followers that are never cut: to see that, one replica has to be ahead and another one to lead."""

    async def keep(self: Following, offset: int) -> None:
        del self, offset

    monkeypatch.setattr(Following, "_truncate", keep)
    plan = plan_of(0, "replication")
    plan = plan._replace(faults=(*plan.faults, Fault(5.0, "strand", "leader", 0.5, 1)))
    violations = play(plan).violations
    assert violations
    kind = kind_of(violations[0])

    def fails(candidate: Plan) -> bool:
        return kind in map(kind_of, play(candidate).violations)

    smallest = minimize(plan, fails)
    assert 1 <= len(smallest.faults) <= 2
    assert {fault.kind for fault in smallest.faults} <= {"strand", "kill_ahead", "cut", "isolate"}
    assert fails(smallest)
