"""Shrinking a run that fails to a short list of faults, and printing it as a schedule.

The faults of a plan are a list, and what a fault does depends on its own numbers only. So runs with fewer of them are
tried until no single fault can be left out (delta debugging, Zeller 2002); then with simpler numbers, and with plainer
surroundings. A smaller run counts if it ends with a violation of the same kind: without the other faults the clients
do other things, so an equal text cannot be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from tests.sim.campaign.plan import Fault, Plan

_T = TypeVar("_T")

Fails = Callable[[Plan], bool]


def kind_of(violation: str) -> str:
    return violation.partition(":")[0]


def minimize(plan: Plan, fails: Fails) -> Plan:
    """A plan that still fails, with as few and as simple faults as can be had by small steps."""
    plan = plan._replace(faults=tuple(shrunk(plan.faults, lambda faults: fails(plan._replace(faults=tuple(faults))))))
    for simpler in _plainer(plan):
        candidate = plan._replace(**simpler)
        if candidate != plan and fails(candidate):
            plan = candidate
    for index in range(len(plan.faults)):
        for fault in _simpler(plan.faults[index]):
            candidate = plan._replace(faults=(*plan.faults[:index], fault, *plan.faults[index + 1 :]))
            if candidate != plan and fails(candidate):
                plan = candidate
                break
    return plan


def shrunk(items: Sequence[_T], fails: Callable[[Sequence[_T]], bool]) -> Sequence[_T]:
    """A part of a list, in order, that fails and does so no more without any one of its items."""
    parts = 1
    while items:
        for rest in _without_a_part(items, parts):
            if fails(rest):
                items, parts = rest, max(1, parts - 1)
                break
        else:
            if parts >= len(items):
                break
            parts = min(len(items), 2 * parts)
    return items


def _without_a_part(items: Sequence[_T], parts: int) -> Iterator[Sequence[_T]]:
    for number in range(parts):
        first, end = number * len(items) // parts, (number + 1) * len(items) // parts
        yield [*items[:first], *items[end:]]


def _plainer(plan: Plan) -> Iterator[dict[str, Any]]:
    yield {"shuffles": False}
    yield {"profile": "replication"}
    yield {"pace": 1.0}
    yield {"latency_seconds": 0.002}
    yield {"fetch_bytes": 1 << 20}
    yield {"permits": ""}


def _simpler(fault: Fault) -> Iterator[Fault]:
    """The same fault at rounder times, the roundest first."""
    for digits in (0, 1):
        at, seconds = round(fault.at, digits), max(round(fault.seconds, digits), 10.0**-digits)
        yield fault._replace(at=at, seconds=seconds)
        yield fault._replace(seconds=seconds)


def schedule_of(plan: Plan, violation: str) -> str:
    """A test to paste into tests/schedules."""
    kind = kind_of(violation).replace("-", "_")
    fields = [f"        {name}={value!r}," for name, value in plan._asdict().items() if name != "faults"]
    faults = [f"            {fault!r}," for fault in plan.faults]
    lines = [
        "from tests.sim.campaign.plan import Fault, Plan",
        "from tests.sim.campaign.play import play",
        "",
        "",
        f"def test_{kind}_of_seed_{plan.seed}() -> None:",
        "    plan = Plan(",
        *fields,
        *(["        faults=(", *faults, "        ),"] if faults else ["        faults=(),"]),
        "    )",
        "    assert play(plan).violations == []",
    ]
    return "\n".join(lines)
