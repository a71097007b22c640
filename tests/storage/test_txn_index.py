"""The index of aborted transactions: Kafka's answers, and files that a crash or a disk has damaged."""

import errno
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.storage.disk import RealDisk
from minikafka.storage.formats import TXN_ENTRY, AbortedTxn, BadFile
from minikafka.storage.txn_index import TransactionIndex
from tests.sim.memory_disk import MemoryDisk

BASE = 100
# Of producers 1, 2 and 3; the second started before the first ended.
FIRST = AbortedTxn(1, 100, 110, 105)
SECOND = AbortedTxn(2, 105, 120, 121)
THIRD = AbortedTxn(3, 130, 140, 141)
ALL = [FIRST, SECOND, THIRD]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000100.txnindex"


def open_index(path: Path) -> TransactionIndex:
    return TransactionIndex(RealDisk(), str(path), BASE)


@pytest.fixture
def index(path: Path) -> TransactionIndex:
    made = open_index(path)
    for txn in ALL:
        made.append(txn)
    return made


def test_nothing_is_made_before_the_first_entry(path: Path) -> None:
    index = open_index(path)
    assert index.entries() == [] and index.collect(0, 1000) == ([], False)
    index.sanity_check()
    index.truncate_to(0)
    index.reset()
    index.sync()
    assert not path.exists()
    index.append(FIRST)
    assert path.exists() and len(index) == 1


def test_the_bytes(index: TransactionIndex, path: Path) -> None:
    assert path.read_bytes() == b"".join(TXN_ENTRY.pack(0, *txn) for txn in ALL)
    assert path.stat().st_size == 3 * 34


def test_reopened(index: TransactionIndex, path: Path) -> None:
    index.close()
    assert index.entries() == ALL
    assert open_index(path).entries() == ALL
    index.sanity_check()
    index.sync()


@pytest.mark.parametrize(
    ("start", "stop", "found", "is_complete"),
    [
        (100, 105, [FIRST], True),  # readers could see 105 when the first was aborted
        (100, 106, [FIRST, SECOND], True),
        (110, 121, [FIRST, SECOND], True),
        (111, 121, [SECOND], True),
        (111, 130, [SECOND], True),
        (121, 122, [], True),  # the third tells that nothing is unknown up to 141
        (121, 131, [THIRD], True),
        (140, 141, [THIRD], True),
        (140, 142, [THIRD], False),
        (141, 150, [], False),
        (0, 1000, ALL, False),
        (0, 50, [], True),
    ],
)
def test_what_a_fetch_overlaps(
    index: TransactionIndex, start: int, stop: int, found: list[AbortedTxn], is_complete: bool
) -> None:
    assert index.collect(start, stop) == (found, is_complete)


@pytest.mark.parametrize(("offset", "left"), [(141, 3), (140, 2), (121, 2), (120, 1), (111, 1), (110, 0), (0, 0)])
def test_truncation(index: TransactionIndex, path: Path, offset: int, left: int) -> None:
    index.truncate_to(offset)
    assert index.entries() == ALL[:left]
    assert path.stat().st_size == left * 34
    for txn in ALL[left:]:
        index.append(txn)
    assert open_index(path).entries() == ALL


def test_reset(index: TransactionIndex, path: Path) -> None:
    index.reset()
    assert index.entries() == [] and path.stat().st_size == 0
    index.append(FIRST)
    assert index.entries() == [FIRST]
    index.close()
    open_index(path).reset()
    assert path.stat().st_size == 0


def test_rename_and_delete(index: TransactionIndex, path: Path) -> None:
    index.rename(f"{path}.deleted")
    assert not path.exists()
    assert index.entries() == ALL
    index.close()
    assert index.entries() == ALL
    index.delete()
    assert not [*path.parent.iterdir()]
    assert index.entries() == []


def test_renaming_what_is_not_there(path: Path) -> None:
    index = open_index(path)
    index.rename(f"{path}.swap")
    index.append(FIRST)
    assert Path(f"{path}.swap").exists()


def test_an_empty_file_is_moved_too(path: Path) -> None:
    path.touch()
    open_index(path).rename(f"{path}.swap")
    assert Path(f"{path}.swap").exists() and not path.exists()


def test_markers_come_in_order(index: TransactionIndex) -> None:
    with pytest.raises(AssertionError):
        index.append(AbortedTxn(4, 135, 140, 141))


def test_what_a_crash_left_of_an_entry(index: TransactionIndex, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    again = open_index(path)
    assert again.entries() == [FIRST, SECOND]
    with pytest.raises(BadFile, match="whole entry"):
        again.sanity_check()
    again.append(THIRD)
    assert open_index(path).entries() == ALL


def damaged(entry: int, at: int, to: bytes) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[entry * 34 + at : entry * 34 + at + len(to)] = to

    return change


@pytest.mark.parametrize(
    "damage",
    [
        damaged(1, 0, b"\x00\x01"),  # a version that is to come
        damaged(1, 10, struct.pack(">qq", 90, 99)),  # the marker lies before the segment
        damaged(1, 10, struct.pack(">qq", 105, 110)),  # ... or where another one is
        damaged(1, 10, struct.pack(">qq", 121, 120)),  # ends before it starts
        damaged(1, 0, bytes(34)),
    ],
)
def test_bad_entries(index: TransactionIndex, path: Path, damage: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    damage(data)
    path.write_bytes(data)
    with pytest.raises(BadFile, match="txnindex") as caught:
        open_index(path).sanity_check()
    assert caught.value.position == 34


def test_a_first_entry_before_the_segment(path: Path) -> None:
    path.write_bytes(TXN_ENTRY.pack(0, 1, 99, 99, 100))
    with pytest.raises(BadFile):
        open_index(path).sanity_check()


def test_a_file_that_got_shorter(index: TransactionIndex, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(BadFile, match="shorter than"):
        index.entries()


def test_many_entries(path: Path) -> None:
    """More than are read at once."""
    index = open_index(path)
    txns = [AbortedTxn(7, BASE + 2 * number, BASE + 2 * number + 1, BASE + 2 * number + 2) for number in range(1000)]
    for txn in txns:
        index.append(txn)
    assert index.entries() == txns
    for number in (0, 239, 240, 241, 998):
        found, is_complete = index.collect(txns[number].first_offset, BASE + 1998)
        assert found == txns[number:999] and is_complete


@pytest.fixture
def memory() -> MemoryDisk:
    disk = MemoryDisk()
    disk.mkdir("/logs")
    return disk


def test_syncing_reaches_the_file(memory: MemoryDisk) -> None:
    index = TransactionIndex(memory, "/logs/i.txnindex", BASE)
    index.append(FIRST)
    index.sync()
    assert memory.ops[-1].kind == "sync"


def test_a_full_disk_leaves_no_trace(memory: MemoryDisk) -> None:
    index = TransactionIndex(memory, "/logs/i.txnindex", BASE)
    index.append(FIRST)
    memory.fail(lambda op: op.kind == "append", errno.ENOSPC, written=17)
    with pytest.raises(OSError) as caught:
        index.append(SECOND)
    assert caught.value.errno == errno.ENOSPC
    assert index.entries() == [FIRST]
    assert memory.size(index.path) == 34
    index.append(SECOND)
    index.sanity_check()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 2)), max_size=600),
    st.integers(0, 700),
    st.integers(0, 700),
)
def test_the_same_as_looking_at_every_entry(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[int, int, int]], start: int, length: int
) -> None:
    txns: list[AbortedTxn] = []
    marker = stable = BASE
    for back, step, held in shapes:
        marker += step
        # It grows and is never beyond the marker.
        stable = max(stable, marker + 1 - held)
        txns.append(AbortedTxn(len(txns), max(BASE, marker - back), marker, stable))
    index = open_index(tmp_path_factory.mktemp("txn") / "i.txnindex")
    for txn in txns:
        index.append(txn)
    index.sanity_check()
    found, is_complete = [], False
    for txn in txns:
        if txn.last_offset >= start and txn.first_offset < start + length:
            found.append(txn)
        if txn.last_stable_offset >= start + length:
            is_complete = True
            break
    if length:
        assert index.collect(start, start + length) == (found, is_complete)
    index.truncate_to(start)
    assert index.entries() == [txn for txn in txns if txn.last_offset < start]
    index.close()
