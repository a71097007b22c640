"""Rows one by one, each on a cluster of its own, and the tables of results that they are entered into.

A table is kept in a file and takes its rows as they are run, each with its commit and date, so that rows of one table
may come from several runs. A row that is wrong, or slower than its promise, fails the run.
"""

from __future__ import annotations

import argparse
import datetime
import logging
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.conftest import lacking
from tests.tree import ROOT

# A row with less of either proves nothing.
ACKED_MIN = 1000
FAULTS_MIN = 5


class Outcome(Protocol):
    """What came of one row."""

    @property
    def word(self) -> str:
        """The verdict."""

    def cells(self) -> list[str]:
        """Of its line in the table, up to seed."""

    def findings(self) -> Iterator[str]: ...


class Sheet(NamedTuple):
    """One table of results."""

    path: Path
    preface: str
    head: Sequence[str]


class Entry(NamedTuple):
    """One row as `make chaos` sees it."""

    name: str
    sheet: Sheet
    run: Callable[[Path, float, int], Outcome]
    needs: Sequence[str] = ()


WELL, LATE, NOT_RUN, WRONG = "well", "late", "not run", "**wrong**"


def word(*, is_clean: bool, is_in_time: bool, is_run: bool) -> str:
    if not is_clean:
        return WRONG
    if not is_in_time:
        return LATE
    return WELL if is_run else NOT_RUN


@cache
def commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip() or "-"


def line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |\n"


def line_of(outcome: Outcome) -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return line([*outcome.cells(), commit(), today, outcome.word])


def table(sheet: Sheet, names: Sequence[str], new: str = "", earlier: str = "") -> str:
    """The lines of these rows that there are, in this order; a new line replaces an earlier one."""
    lines = {
        text.split(" | ")[0].removeprefix("| "): f"{text}\n" for text in [*earlier.splitlines(), *new.splitlines()]
    }
    head = (*sheet.head, "commit", "date", "verdict")
    return "".join([line(head), line(["---"] * len(head)), *(lines[name] for name in names if name in lines)])


def enter(entry: Entry, entries: Sequence[Entry], outcome: Outcome) -> None:
    """Write an outcome into the file of its table."""
    sheet = entry.sheet
    names = [other.name for other in entries if other.sheet is sheet]
    earlier = sheet.path.read_text() if sheet.path.exists() else ""
    sheet.path.write_text(f"{sheet.preface}\n{table(sheet, names, line_of(outcome), earlier)}")


def main(entries: Sequence[Entry]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--only", action="append", choices=[entry.name for entry in entries])
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--folder", type=Path, help="keep everything there")
    parser.add_argument("--record", action="store_true", help="enter the results into the tables of the project")
    options = parser.parse_args()
    # It logs every connection that is lost here on purpose.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="minikafka-chaos-"))
    bad = []
    for number, entry in enumerate(entries):
        if options.only and entry.name not in options.only:
            continue
        if reasons := [f"{name}: {reason}" for name in entry.needs if (reason := lacking(name)) is not None]:
            print(f"{entry.name}: skipped, needs {'; '.join(reasons)}", flush=True)
            continue
        place = folder / f"row-{number}"
        outcome = entry.run(place, options.seconds, options.seed)
        print(table(entry.sheet, [entry.name], line_of(outcome)), *outcome.findings(), sep="\n", flush=True)
        if outcome.word in (WRONG, LATE):
            bad.append(f"{entry.name}: {outcome.word.strip('*')}")
        elif options.folder is None:
            shutil.rmtree(place)
        if options.record:
            enter(entry, entries, outcome)
    sys.exit(f"{', '.join(bad)}; see {folder}" if bad else 0)
