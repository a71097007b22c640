"""The results of mutants as a table: of each the newest, and the tree it was found in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from tests.mutants.mutant import Mutant

SURVIVED: Final = "survived"

_HEAD: Final = """# Mutants

Each row removes one rule of the product (the table is in this folder). A cell names the first test that noticed, and
the commit on which that was; `make mutants` writes this file. Written on {date}.

| mutant | rule that is removed | {stages} |
| --- | --- |{rule}
"""


class Key(NamedTuple):
    mutant: str
    stage: str
    tree: str


Results: TypeAlias = dict[Key, str]
"""The killer, or SURVIVED; in the order in which they were found."""


def table(mutants: Iterable[Mutant], stages: Sequence[str], results: Results) -> str:
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    rows = [_row(each, stages, results) for each in mutants]
    return _HEAD.format(date=date, stages=" | ".join(stages), rule=" --- |" * len(stages)) + "".join(rows)


def _row(mutant: Mutant, stages: Sequence[str], results: Results) -> str:
    cells = [_cell(mutant, stage, results) for stage in stages]
    notes = [f" Second fence: {mutant.redundant}"] if mutant.redundant else []
    notes += [f" Not by seeds: {mutant.unseen}"] if mutant.unseen else []
    return f"| {mutant.title} | {mutant.rule}{''.join(notes)} | {' | '.join(cells)} |\n"


def _cell(mutant: Mutant, stage: str, results: Results) -> str:
    if stage == "seeds" and not mutant.simulated:
        return "not reached"
    found = [
        (key, killer) for key, killer in results.items() if (key.mutant, key.stage.split()[0]) == (mutant.title, stage)
    ]
    if not found:
        return "not run"
    key, killer = found[-1]
    shown = "**survived**" if killer == SURVIVED else f"`{killer.rpartition('/')[2]}`"
    seeds = f", seeds {key.stage.split()[1]}" if stage == "seeds" else ""
    return f"{shown}{seeds} ({key.tree})"
