"""What a command prints: tables for people, JSON for programs, progress for those who wait.

Results go to stdout, everything else to stderr. Into a file or a pipe a table is as wide as its contents and has no
colours, so that it can be cut and searched.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from minikafka.client.errors import ClientError
from minikafka.protocol.errors import KafkaError

_PIPE_WIDTH: Final = 10_000


@dataclass(slots=True)
class Grid:
    """A table before it is printed. A column whose name ends in `>` is of numbers."""

    columns: Sequence[str]
    rows: list[Sequence[object]] = field(default_factory=list)
    title: str | None = None


class Waiting:
    """Progress of one thing, shown or not."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def update(self, completed: float, note: str = "") -> None:
        self._progress.update(self._task, completed=completed, note=note)


class Output:
    """See the module's description. `has_failed` turns into the exit code of the command."""

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.has_failed = False

    def show(self, data: object, *grids: Grid | str) -> None:
        """The result: the data as JSON, or tables and lines that say the same."""
        if self.as_json:
            click.echo(json.dumps(data, ensure_ascii=False, indent=2))
            return
        for grid in grids:
            if isinstance(grid, str):
                click.echo(grid)
            else:
                self._print(grid)

    def _print(self, grid: Grid) -> None:
        is_terminal = sys.stdout.isatty()
        console = Console(
            file=sys.stdout, width=None if is_terminal else _PIPE_WIDTH, highlight=False, markup=False, emoji=False
        )
        table = Table(
            box=box.SIMPLE_HEAD if is_terminal else None,
            title=grid.title if is_terminal else None,
            title_justify="left",
            pad_edge=False,
            padding=(0, 2, 0, 0),
            header_style="bold",
            show_header=any(grid.columns),
        )
        for column in grid.columns:
            is_number = column.endswith(">")
            table.add_column(Text(column.removesuffix(">")), justify="right" if is_number else "left", overflow="fold")
        for row in grid.rows:
            table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
        with console.capture() as captured:
            console.print(table)
        for line in captured.get().splitlines():
            click.echo(line.rstrip())

    def note(self, text: str) -> None:
        """A line for whoever looks at it; no part of the result."""
        click.echo(text, err=True)

    def fail(self, what: str, error: KafkaError | str) -> None:
        """One thing has failed: say so, and end with 1 after the others."""
        self.has_failed = True
        text = error if isinstance(error, str) else explain(error)
        click.echo(f"Error: {what}: {text}", err=True)

    @contextmanager
    def progress(self, what: str, total: float | None) -> Iterator[Waiting]:
        """Show how far something is, on a terminal."""
        is_shown = sys.stderr.isatty() and not self.as_json
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
        )
        console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
        with Progress(*columns, console=console, disable=not is_shown, transient=True) as progress:
            yield Waiting(progress, progress.add_task(what, total=total, note=""))


def explain(error: KafkaError) -> str:
    """One line for an error: what it says, and Kafka's name for it if a broker said it."""
    message = " ".join(error.message.split())
    return message if isinstance(error, ClientError) else f"{message} ({error.code.name})"


def error_data(error: KafkaError) -> dict[str, Any]:
    """An error for programs."""
    return {"code": error.wire_code, "name": error.code.name, "message": error.message}


def joined(numbers: Iterable[object]) -> str:
    return ",".join(map(str, numbers)) or "-"
