"""What a run of the stack came to: printed as it goes, and written as a page at its end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_HEAD = """\
# Results of `make compose-test`

Written by the run itself; the commands are those of [tests/deploy/run.py](../tests/deploy/run.py).

"""


class Goal(NamedTuple):
    """A figure that may not be larger than another."""

    name: str
    value: float
    most: float
    unit: str
    is_by_the_clock: bool = False
    """A machine that is busy with other things misses it, and that is no fault."""

    @property
    def is_met(self) -> bool:
        return self.value <= self.most

    @property
    def is_failed(self) -> bool:
        return not self.is_met and not self.is_by_the_clock


class Step(NamedTuple):
    """Something that was done."""

    name: str
    seconds: float
    outcome: str


@dataclass
class Report:
    """See the module's description."""

    goals: list[Goal] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    memory: dict[str, float] = field(default_factory=dict)
    """Resident memory in MB, by service."""
    load: float = field(default_factory=lambda: os.getloadavg()[0])
    """Of the machine when the run began: others may be at work."""
    note: str = ""
    """What else there is to know about this run."""

    def take(self, name: str, step: Callable[[], str]) -> None:
        """Do it, tell how it went, and remember that."""
        print(f"{name} ...", flush=True)
        began = time.monotonic()
        outcome = step()
        self.steps.append(Step(name, time.monotonic() - began, outcome))
        print(f"    {self.steps[-1].seconds:.1f} s: {outcome}", flush=True)

    def page(self) -> str:
        goals = [
            (each.name, f"{each.value:.1f} {each.unit}", f"{each.most:g} {each.unit}", "yes" if each.is_met else "no")
            for each in self.goals
        ]
        steps = [(each.name, f"{each.seconds:.1f}", each.outcome) for each in self.steps]
        memory = [(name, f"{used:.0f}") for name, used in sorted(self.memory.items())]
        when = time.strftime("%Y-%m-%d", time.gmtime())
        return "".join(
            (
                _HEAD,
                f"{when}, on a machine with {os.cpu_count()} cores and a load of {self.load:.1f} before the run.\n\n",
                f"{self.note}\n\n" if self.note else "",
                _table(("figure", "measured", "at most", "met"), goals),
                "\n## Steps\n\n",
                _table(("step", "seconds", "outcome"), steps),
                "\n## Memory\n\nResident, all processes of a container, under light load.\n\n",
                _table(("container", "MB"), memory),
            )
        )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    # What a command says may have bars in it.
    lines = [head, tuple("---" for _ in head), *(tuple(cell.replace("|", "/") for cell in row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
