"""Timing on noisy machines: rivals take turns inside one run, and the best round of each counts.

A neighbour can only make a round slower, never faster, so the minimum is the figure with the least
noise in it, and ratios of minima from one run can be compared with ratios from another.
"""

import timeit
from collections.abc import Callable, Mapping
from typing import NamedTuple

ROUNDS = 30
ROUND_SECONDS = 0.01


class Row(NamedTuple):
    """One line of a table: microseconds for each rival, ours first; None where it cannot compete."""

    name: str
    micros: dict[str, float | None]

    def ratio(self, rival: str, ours: str = "minikafka") -> float | None:
        """How many times faster we are."""
        own, other = self.micros.get(ours), self.micros.get(rival)
        return None if not own or not other else other / own


def race(name: str, rivals: Mapping[str, Callable[[], object] | None]) -> Row:
    """Time the rivals in turns."""
    timers = {rival: timeit.Timer(call) for rival, call in rivals.items() if call is not None}
    counts = {rival: _calls_per_round(timer) for rival, timer in timers.items()}
    best = dict.fromkeys(timers, float("inf"))
    for _ in range(ROUNDS):
        for rival, timer in timers.items():
            seconds = timer.timeit(counts[rival]) / counts[rival]
            best[rival] = min(best[rival], seconds)
    return Row(name, {rival: best[rival] * 1e6 if rival in best else None for rival in rivals})


def _calls_per_round(timer: timeit.Timer) -> int:
    calls, seconds = timer.autorange()
    return max(1, int(calls * ROUND_SECONDS / seconds))


def print_table(title: str, rows: list[Row], rivals: list[str], ours: str = "minikafka") -> None:
    """A table for people: microseconds, and how many times faster we are."""
    width = max([len(title), *(len(row.name) for row in rows)])
    print(f"{title:<{width}}  {ours + ' us':>14}" + "".join(f"  {rival + ' us':>16}  ratio" for rival in rivals))
    for row in rows:
        line = f"{row.name:<{width}}  {_number(row.micros[ours]):>14}"
        for rival in rivals:
            ratio = row.ratio(rival, ours)
            line += f"  {_number(row.micros.get(rival)):>16}  {'-' if ratio is None else f'{ratio:.2f}x':>5}"
        print(line)


def _number(micros: float | None) -> str:
    return "-" if micros is None else f"{micros:,.2f}"
