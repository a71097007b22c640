"""What came of a row, and how it is told: one line of a table, and what was found."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from tests.chaos.checker import Anomaly
from tests.tree import ROOT

# A row with less of either proves nothing.
ACKED_MIN = 1000
FAULTS_MIN = 5
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
    *("longest outage, s", "offsets compared", "seed", "commit", "verdict"),
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
        if not self.is_clean:
            return "**wrong**"
        return "well" if self.committed >= ACKED_MIN and self.faults >= FAULTS_MIN else "not run"

    def cells(self) -> list[str]:
        numbers = [self.faults, self.attempted, self.committed, self.unknown, *map(self.count, KINDS), self.others]
        return [
            *(self.row, f"{self.seconds:.0f}"),
            *map(str, numbers),
            *(f"{self.longest_outage:.2f}", str(self.offsets_compared), str(self.seed), commit(), self.word),
        ]

    def findings(self) -> Iterator[str]:
        for anomaly in self.anomalies[:_SHOWN]:
            yield f"{anomaly.kind} in {anomaly.partition}: {anomaly.text}"
        yield from self.troubles[:_SHOWN]


@cache
def commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip() or "-"


def _line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |\n"


def table(results: Sequence[Result], earlier: str = "") -> str:
    """Of these, and of rows that were run earlier and not now."""
    rows = [text for text in earlier.splitlines() if text.startswith("| ") and not text.startswith(("| row ", "| ---"))]
    lines = {text.split(" | ")[0].removeprefix("| "): f"{text}\n" for text in rows}
    lines |= {result.row: _line(result.cells()) for result in results}
    return _line(HEAD) + _line(["---"] * len(HEAD)) + "".join(lines.values())
