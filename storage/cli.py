"""The command `minikafka log`: looking into log directories, ours and Apache Kafka's, also while a broker runs on them.

Nothing is written, locked or changed. Exit codes: 0 all is well, 1 a file is bad, 2 the command was called wrongly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import click

from minikafka.storage.disk import Disk, RealDisk
from minikafka.storage.dump import Item, dump
from minikafka.storage.dump_text import as_json, as_text
from minikafka.storage.errors import CorruptLog
from minikafka.storage.finding import Found, FoundPartition, NotALog, find
from minikafka.storage.verify import Summary, verify_file, verify_partition

_paths = click.argument("paths", nargs=-1, required=True, metavar="PATH...")


class WrongPath(click.ClickException):
    """A path that leads to no log."""

    # As for any other way of calling the program wrongly.
    exit_code = 2


@click.group("log")
def log() -> None:
    """Look into the files of a log: dump or verify them.

    PATH is a log directory, the directory of a partition, or one file of it.
    """


@log.command("dump")
@_paths
@click.option("--records", is_flag=True, help="Print the records of every batch.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object per line.")
def dump_command(paths: tuple[str, ...], records: bool, is_json: bool) -> None:
    """Print what the files say: batches, indexes, snapshots, checkpoints."""
    disk = RealDisk()
    is_bad = False
    render: Callable[[Item], str] = as_json if is_json else as_text
    for found in _find_all(disk, paths, whole_segments=False):
        for item in dump(disk, found, records=records):
            is_bad = is_bad or item["item"] == "problem"
            # A dump may have millions of lines, each of which `echo` would flush.
            sys.stdout.write(_printable(render(item)) + "\n")
    sys.exit(1 if is_bad else 0)


@log.command("verify")
@_paths
@click.option(
    "--records", is_flag=True, help="Decode every record, not only check that its batch is as it was written."
)
def verify_command(paths: tuple[str, ...], records: bool) -> None:
    """Check the files: one line per partition, and the first bad byte of each that has one.

    An unfinished batch or zeros at the end of the newest segment are reported, but are no error: a running broker may
    be writing just there, and any broker cuts them off when it starts.
    """
    disk = RealDisk()
    is_bad = False
    for found in _find_all(disk, paths, whole_segments=True):
        for line, is_good in _verify(disk, found, records):
            is_bad = is_bad or not is_good
            click.echo(_printable(line))
    sys.exit(1 if is_bad else 0)


def _printable(line: str) -> str:
    """The line as far as the terminal can show it; paths may have bytes that are no characters at all."""
    encoding = sys.stdout.encoding
    return line.encode(encoding, "backslashreplace").decode(encoding)


def _find_all(disk: Disk, paths: tuple[str, ...], *, whole_segments: bool) -> list[Found]:
    """All paths are looked at before anything is printed."""
    try:
        return [find(disk, path, whole_segments=whole_segments) for path in paths]
    except (NotALog, OSError) as error:
        raise WrongPath(str(error)) from error


def _verify(disk: Disk, found: Found, records: bool) -> Iterator[tuple[str, bool]]:
    for file in found.files:
        try:
            verify_file(disk, file)
        except (CorruptLog, OSError) as error:
            yield f"{file.name}: BAD, {error}", False
    for partition in found.partitions:
        try:
            yield _summary(partition, verify_partition(disk, partition, records=records)), True
        except (CorruptLog, OSError) as error:
            yield f"{partition.name}: BAD, {error}", False


def _summary(partition: FoundPartition, summary: Summary) -> str:
    counts = [
        _counted(summary.segments, "segment", "segments"),
        _counted(summary.batches, "batch", "batches"),
        _counted(summary.records, "record", "records"),
        "no offsets" if summary.first_offset is None else f"offsets {summary.first_offset}-{summary.last_offset}",
        _counted(summary.size, "byte", "bytes"),
    ]
    text = f"{partition.name}: ok, {', '.join(counts)}"
    if summary.torn is None:
        return text
    path, position, size = summary.torn
    return f"{text}; unfinished: {path}, {_counted(size, 'byte', 'bytes')} from byte {position}"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
