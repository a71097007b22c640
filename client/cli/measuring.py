"""Measuring: how many, how fast, how late; and showing it as text. Pure, apart from the clock it is given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_BAR: Final = "█"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
PERCENTILES: Final = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}


@dataclass(slots=True)
class Measured:
    """What was counted since `started_s`; each step is so many records at a time, and how long they took."""

    started_s: float
    records: int = 0
    bytes: int = 0
    ended_s: float = 0.0
    steps: list[tuple[float, float, int]] = field(default_factory=list)
    """When, how long in seconds, how many records."""

    def add(self, now_s: float, took_s: float, records: int, size: int) -> None:
        self.steps.append((now_s, took_s, records))
        self.records += records
        self.bytes += size
        self.ended_s = now_s

    @property
    def seconds(self) -> float:
        # Two readings of a clock may be the same.
        return max(self.ended_s - self.started_s, 1e-9)

    def percentile_ms(self, percent: float) -> float:
        """How long it took for so many per cent of the records, at most."""
        ordered = sorted((took, count) for _, took, count in self.steps)
        if not ordered:
            return math.nan
        left = self.records * percent / 100
        for took, count in ordered:
            left -= count
            if left <= 0:
                return took * 1000
        return ordered[-1][0] * 1000

    def rates(self, columns: int) -> list[float]:
        """Records a second over time, in so many equal parts of it."""
        counts = [0] * columns
        for at, _, count in self.steps:
            counts[min(int((at - self.started_s) / self.seconds * columns), columns - 1)] += count
        return [count * columns / self.seconds for count in counts]

    def data(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "records_per_s": round(self.records / self.seconds, 1),
            "mb_per_s": round(self.bytes / self.seconds / 1e6, 3),
            **{f"{name}_ms": round(self.percentile_ms(percent), 3) for name, percent in PERCENTILES.items()},
        }


def sparkline(values: Sequence[float]) -> str:
    """A line of blocks, the highest for the largest value."""
    top = max(values, default=0)
    if top <= 0:
        return _BLOCKS[0] * len(values)
    return "".join(_BLOCKS[min(int(value / top * len(_BLOCKS)), len(_BLOCKS) - 1)] for value in values)


def bar(part: float, width: int) -> str:
    """A bar for a part of 1, to an eighth of a character."""
    eighths = round(part * width * 8)
    return _BAR * (eighths // 8) + (_EIGHTHS[eighths % 8].strip() if eighths % 8 else "")


def histogram(measured: Measured, rows: int = 8, width: int = 40) -> list[str]:
    """How many records took how long: a bar for each range of times, from one to the next always by the same factor."""
    times = [(took * 1000, count) for _, took, count in measured.steps]
    low, high = min(took for took, _ in times), max(took for took, _ in times)
    low = max(low, 1e-3)
    factor = max((high / low) ** (1 / rows), 1.0001)
    counts = [0] * rows
    for took, count in times:
        counts[min(max(int(math.log(max(took, low) / low, factor)), 0), rows - 1)] += count
    most = max(counts)
    edges = [low * factor**row for row in range(rows + 1)]
    return [
        f"{edges[row]:10.2f} - {edges[row + 1]:8.2f} ms  {counts[row]:>9,}  {bar(counts[row] / most, width)}".rstrip()
        for row in range(rows)
    ]


def describe(measured: Measured, what: str) -> list[str]:
    """The figures as lines."""
    data = measured.data()
    late = "  ".join(f"{name} {data[f'{name}_ms']:.2f} ms" for name in PERCENTILES)
    return [
        f"{data['records']:,} records in {data['seconds']:.2f} s",
        f"{data['records_per_s']:,.0f} msg/s  {data['mb_per_s']:.2f} MB/s",
        f"{what}: {late}",
    ]
