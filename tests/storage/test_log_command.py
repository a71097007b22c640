"""The command `minikafka log`, on real files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from minikafka.__main__ import main
from minikafka.storage.disk import RealDisk
from tests.storage.recorded import lay_out

FIRST = "00000000000000000000"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kafka")
    lay_out(RealDisk(), str(path))
    return path


@pytest.fixture
def one(tmp_path: Path, recorded: Path) -> Path:
    """A partition to break."""
    target = tmp_path / "txn-0"
    target.mkdir()
    for file in (recorded / "txn-0").iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["log", *map(str, arguments)], catch_exceptions=False)


def test_verify_a_log_directory(recorded: Path) -> None:
    result = run("verify", "--records", recorded)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 13
    assert "codec-lz4-0: ok, 4 segments, 30 batches, 600 records, offsets 0-599, 49792 bytes" in lines
    assert "__consumer_offsets-0: ok, 1 segment, 0 batches, 0 records, no offsets, 0 bytes" in lines


def test_verify_names_the_first_bad_byte(one: Path) -> None:
    path = one / f"{FIRST}.log"
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.write_bytes(data)
    result = run("verify", one)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"txn-0: BAD, {path.resolve()} at byte 684: ")
    assert result.stdout.count("\n") == 1


def test_verify_goes_on_with_the_others(one: Path) -> None:
    (one.parent / "cleaner-offset-checkpoint").write_bytes(b"7\n0\n")
    (one / "partition.metadata").write_bytes(b"")
    other = one.parent / "txn-1"
    other.mkdir()
    (other / f"{FIRST}.log").touch()
    result = run("verify", one.parent)
    assert result.exit_code == 1
    assert [line.split(",")[0] for line in result.stdout.splitlines()] == [
        "cleaner-offset-checkpoint: BAD",
        "txn-0: BAD",
        "txn-1: ok",
    ]


def test_an_unfinished_end_is_no_error(one: Path) -> None:
    path = one / f"{FIRST}.log"
    path.write_bytes(path.read_bytes() + b"\0\0\0")
    result = run("verify", one)
    assert result.exit_code == 0
    assert result.stdout.endswith(f"; unfinished: {path.resolve()}, 3 bytes from byte 3068\n")


def test_dump(recorded: Path) -> None:
    result = run("dump", recorded / "txn-0", recorded / "meta.properties")
    assert result.exit_code == 0
    assert "offsets 0-9, 10 records in 176 bytes none" in result.stdout
    assert '"t0-0"' not in result.stdout
    assert 'key null value "t0-0"' in run("dump", "--records", recorded / "txn-0" / f"{FIRST}.log").stdout


def test_dump_json(recorded: Path) -> None:
    lines = run("dump", "--json", "--records", recorded).stdout.splitlines()
    assert sum(json.loads(line)["item"] == "record" for line in lines) == 3845


def test_dump_of_something_bad(one: Path) -> None:
    (one / f"{FIRST}.txnindex").write_bytes(b"x")
    result = run("dump", one)
    assert result.exit_code == 1
    assert "BAD at byte 0" in result.stdout
    assert "offsets 131-131" in result.stdout


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_called_wrongly(command: str, one: Path) -> None:
    (one / "notes.txt").touch()
    for path in (one / "none", one / "notes.txt", one.parent / "x", Path("/proc/self/fd")):
        result = run(command, path)
        assert result.exit_code == 2, path
        assert result.stderr.startswith("Error: ")
        assert not result.stdout
    # Nothing is printed of the good ones either.
    assert (run(command, one, one / "none").exit_code, run(command, one, one / "none").stdout) == (2, "")
    assert run(command).exit_code == 2


def test_links(one: Path) -> None:
    link = one.parent / "link"
    link.symlink_to(one)
    assert run("verify", link).exit_code == 0
    (one / "00000000000000000132.log").symlink_to(one / f"{FIRST}.log")
    result = run("verify", one)
    assert result.exit_code == 1
    assert "Too many levels of symbolic links" in result.stdout


def test_names_that_are_no_characters(one: Path) -> None:
    strange = one.parent / "log\udcff"
    strange.mkdir()
    one.rename(strange / "txn-0")
    result = run("dump", strange)
    assert result.exit_code == 0
    assert "log\\udcff/txn-0/partition.metadata: 43 bytes" in result.stdout


def test_nobody_reads_on(recorded: Path) -> None:
    """As with `| head`: the rest is not written, and nothing is said about it."""
    command = [sys.executable, "-m", "minikafka", "log", "dump", "--records", str(recorded)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().endswith(b"meta.properties: 88 bytes\n")
        process.stdout.close()
        assert process.stderr.read() == b""
