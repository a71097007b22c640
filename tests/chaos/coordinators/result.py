"""What came of a row, and how it is told: one line of a table, and what was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.chaos.checker import Anomaly
from tests.chaos.report import ACKED_MIN, FAULTS_MIN, word

_SHOWN = 8

KINDS = {
    "torn": ("torn", "torn-offset", "lost", "not-copied", "copied-twice"),
    "aborted reads": ("aborted-read", "precommitted-read"),
    "hung": ("hung",),
    "offsets back": ("offset-back", "offset-lost"),
    "double owners": ("double-owner", "stale-commit"),
}
"""Columns of what must not be, and what is counted in them."""

HEAD = (
    *("row", "s", "faults", "attempted", "committed", "unknown", *KINDS, "other"),
    *("longest outage, s", "promised", "offsets compared", "seed"),
)


class Result(NamedTuple):
    """What came of one row."""

    row: str
    seed: int
    seconds: float
    faults: int
    attempted: int
    committed: int
    unknown: int
    anomalies: list[Anomaly]
    longest_outage: float
    outage_seconds_max: float
    offsets_compared: int
    troubles: list[str]
    """What else must not be: replicas that differ, a cluster that did not become whole, tracebacks."""

    def count(self, column: str) -> int:
        return sum(anomaly.kind in KINDS[column] for anomaly in self.anomalies)

    @property
    def others(self) -> int:
        return len(self.anomalies) - sum(map(self.count, KINDS)) + len(self.troubles)

    @property
    def is_clean(self) -> bool:
        return not self.anomalies and not self.troubles

    @property
    def word(self) -> str:
        return word(
            is_clean=self.is_clean,
            is_in_time=self.longest_outage <= self.outage_seconds_max,
            is_run=self.committed >= ACKED_MIN and self.faults >= FAULTS_MIN,
        )

    def cells(self) -> list[str]:
        numbers = [self.faults, self.attempted, self.committed, self.unknown, *map(self.count, KINDS), self.others]
        return [
            *(self.row, f"{self.seconds:.0f}"),
            *map(str, numbers),
            *(f"{self.longest_outage:.2f}", f"{self.outage_seconds_max:.2f}"),
            *(str(self.offsets_compared), str(self.seed)),
        ]

    def findings(self) -> Iterator[str]:
        for anomaly in self.anomalies[:_SHOWN]:
            yield f"{anomaly.kind} in {anomaly.partition}: {anomaly.text}"
        yield from self.troubles[:_SHOWN]
