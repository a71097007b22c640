"""`storage/FORMAT.md`: its hexdumps are Kafka's recorded files, and our code says of them what the page says.

A block of bytes is named by a recorded file, or by a part of it; what a dump of these bytes prints is the next block:

    ```hexdump txn-0/00000000000000000000.log 176+78
    00000000: 0000 0000 ...
    ```

    ```text
    txn-0/00000000000000000000.log: 78 bytes
      ...
    ```
"""

import re
from typing import NamedTuple

import pytest

from minikafka.storage.dump import dump
from minikafka.storage.dump_text import as_text
from minikafka.storage.finding import LOG_DIR_FILES, OFFSET_CHECKPOINTS, PARTITION_FILES, find
from tests.sim.memory_disk import MemoryDisk
from tests.storage.recorded import lay_out, recorded_files
from tests.tree import ROOT

PAGE = (ROOT / "storage" / "FORMAT.md").read_text()
BLOCK = re.compile(r"^```hexdump (\S+)(?: (\d+)\+(\d+))?\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """One block of bytes and what is said about it."""

    name: str
    start: int
    size: int | None
    data: bytes
    says: str

    def __str__(self) -> str:
        return f"{self.name} {self.start}"


def examples() -> list[Example]:
    found = []
    for name, start, size, block, says in BLOCK.findall(PAGE):
        data = b"".join(bytes.fromhex(line[10:49]) for line in block.splitlines())
        assert [int(line[:8], 16) for line in block.splitlines()] == [*range(0, len(data), 16)]
        found.append(Example(name, int(start or 0), int(size) if size else None, data, says))
    return found


@pytest.mark.parametrize("example", examples(), ids=str)
def test_the_bytes_are_kafkas(example: Example) -> None:
    stop = None if example.size is None else example.start + example.size
    assert recorded_files()[example.name][example.start : stop] == example.data


@pytest.mark.parametrize("example", examples(), ids=str)
def test_our_code_says_the_same(example: Example) -> None:
    disk = MemoryDisk()
    lay_out(disk, "data", {example.name: example.data})
    items = dump(disk, find(disk, f"data/{example.name}"), records=True)
    lines = [as_text(item).removeprefix("/data/") for item in items]
    assert "".join(line + "\n" for line in lines) == example.says


def test_every_kind_of_file_has_an_example() -> None:
    names = {example.name.rpartition("/")[2] for example in examples()}
    kinds = {re.sub(r"^\d{20}", "", name) for name in names}
    assert kinds == {".log", ".index", ".timeindex", ".txnindex", ".snapshot"} | {
        *PARTITION_FILES,
        *(set(LOG_DIR_FILES) - set(OFFSET_CHECKPOINTS)),
        "cleaner-offset-checkpoint",
    }


def test_no_other_hexdumps() -> None:
    assert len(examples()) == PAGE.count("```hexdump ") == len(re.findall(r"^00000000: ", PAGE, re.MULTILINE))


@pytest.mark.parametrize("name", [*LOG_DIR_FILES, *PARTITION_FILES])
def test_every_file_is_named(name: str) -> None:
    assert f"{name}  " in PAGE
