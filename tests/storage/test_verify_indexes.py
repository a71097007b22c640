"""Verifying indexes and epochs against the batches they speak of."""

import pytest

from minikafka.storage.errors import CorruptLog
from minikafka.storage.finding import find
from minikafka.storage.formats import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    AbortedTxn,
    encode_aborted_txn,
    encode_epochs,
    parse_offset_index,
    segment_name,
)
from minikafka.storage.verify import verify_partition
from tests.sim.memory_disk import MemoryDisk
from tests.storage.batches import make_batch
from tests.storage.logs import NOW_MS
from tests.storage.recorded import lay_out, recorded_files
from tests.storage.verifying import FIRST, edit, flaw, flip, kafka_disk, put, verify


@pytest.mark.parametrize("kind", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_any_changed_byte_of_an_index_is_found(kind: str) -> None:
    disk = kafka_disk("txn-0")
    (name,) = [name for name in disk.list("data/txn-0") if name.endswith(kind)]
    partition = find(disk, "data/txn-0").partitions[0]
    # An entry that may have been made for two batches at once, and how far readers of committed data could see.
    unknown = {".index": {11}, ".txnindex": {entry + byte for entry in range(0, 136, 34) for byte in range(26, 34)}}
    for position in range(len(recorded_files()[f"txn-0/{name}"])):
        edit(disk, f"data/txn-0/{name}", flip(position))
        if position not in unknown.get(kind, ()):
            with pytest.raises(CorruptLog) as caught:
                verify_partition(disk, partition)
            assert caught.value.path == f"/data/txn-0/{name}", position
            assert caught.value.position <= position + 4
        edit(disk, f"data/txn-0/{name}", flip(position))


def test_what_kafka_appended_at_once_has_one_entry() -> None:
    disk = kafka_disk("codec-none-0")
    path = f"data/codec-none-0/{FIRST}.index"
    entries = parse_offset_index(recorded_files()[path.removeprefix("data/")], 0)
    # As if the batches of the first two entries had come in one answer to a follower.
    edit(disk, path, put(OFFSET_ENTRY.pack(entries[1][0], entries[0][1])))
    assert verify(disk, "data/codec-none-0").records == 600


def test_indexes_may_be_missing() -> None:
    disk = kafka_disk("codec-lz4-0")
    for name in disk.list("data/codec-lz4-0"):
        if not name.endswith(".log"):
            disk.unlink(f"data/codec-lz4-0/{name}")
    assert verify(disk, "data/codec-lz4-0").records == 600


def test_bad_entries() -> None:
    log = b"".join(
        make_batch(2, base_offset=2 * number, timestamps=[NOW_MS + stamp] * 2) for number, stamp in enumerate([5, 3, 9])
    )
    size = len(log) // 3
    good_index, good_times = (OFFSET_ENTRY.pack(3, size), TIME_ENTRY.pack(NOW_MS + 5, 1))
    cases: list[tuple[str, bytes, int]] = [
        (".index", good_index, -1),
        (".index", OFFSET_ENTRY.pack(3, size + 1), 0),
        (".index", OFFSET_ENTRY.pack(2, size), 0),
        (".index", OFFSET_ENTRY.pack(1, size), 0),
        (".index", good_index + OFFSET_ENTRY.pack(3, 2 * size), 8),
        (".index", good_index + OFFSET_ENTRY.pack(5, size), 8),
        (".index", good_index + OFFSET_ENTRY.pack(7, 2 * size), 8),
        (".index", good_index + OFFSET_ENTRY.pack(5, 3 * size), 8),
        (".index", good_index + bytes(8), -1),
        (".index", good_index + b"\1", 8),
        (".timeindex", good_times + TIME_ENTRY.pack(NOW_MS + 9, 5), -1),
        (".timeindex", good_times + TIME_ENTRY.pack(NOW_MS + 9, 4), -1),
        (".timeindex", TIME_ENTRY.pack(NOW_MS + 3, 3), 0),
        (".timeindex", TIME_ENTRY.pack(NOW_MS + 4, 1), 0),
        (".timeindex", TIME_ENTRY.pack(NOW_MS + 5, 3), 0),
        (".timeindex", good_times + TIME_ENTRY.pack(NOW_MS + 5, 1), 12),
        (".timeindex", good_times + TIME_ENTRY.pack(NOW_MS + 9, 0), 12),
        (".timeindex", good_times + TIME_ENTRY.pack(NOW_MS + 9, 6), 12),
        (".timeindex", good_times + b"\0\1", 12),
    ]
    for kind, data, position in cases:
        disk = MemoryDisk()
        lay_out(disk, "data", {f"t-0/{FIRST}.log": log, f"t-0/{FIRST}{kind}": data})
        if position < 0:
            assert verify(disk, "data/t-0").batches == 3
        else:
            assert flaw(disk, "data/t-0") == (f"{FIRST}{kind}", position), data


def test_aborted_transactions() -> None:
    disk = kafka_disk("txn-0")
    name, path = f"{FIRST}.txnindex", f"data/txn-0/{FIRST}.txnindex"
    recorded = recorded_files()[f"txn-0/{name}"]
    cases = [
        (recorded[34:], (name, 102)),
        (recorded[:34] + recorded[68:], (name, 102)),
        (recorded[:34] + recorded[:34], (name, 34)),
        (encode_aborted_txn(AbortedTxn(5, 22, 31, 33)), (name, 0)),
        (encode_aborted_txn(AbortedTxn(6, 22, 32, 33)), (name, 0)),
        (encode_aborted_txn(AbortedTxn(5, 23, 32, 33)), (name, 0)),
        (encode_aborted_txn(AbortedTxn(5, 33, 32, 33)), (name, 0)),
        (encode_aborted_txn(AbortedTxn(5, 0, 10, 33)), (name, 0)),
        (recorded[:-1], (name, 102)),
    ]
    for data, expected in cases:
        edit(disk, path, put(data))
        assert flaw(disk, "data/txn-0") == expected
    # The last ones may have come after the index was read: this segment may be written to right now.
    edit(disk, path, put(recorded[:68]))
    assert verify(disk, "data/txn-0").records == 132
    lay_out(disk, "data", {f"txn-0/{segment_name(132)}.log": b""})
    assert flaw(disk, "data/txn-0") == (name, 68)
    disk.unlink(path)
    assert flaw(disk, "data/txn-0") == (name, 0)


@pytest.mark.parametrize(
    ("epochs", "is_good"),
    [
        ([], True),
        ([(0, 0)], True),
        ([(0, 0), (4, 600)], True),
        ([(0, 0), (4, 599)], False),
        ([(0, 10)], False),
        ([(1, 0)], False),
        ([(0, 0), (0, 700)], False),
        ([(0, 700), (1, 700)], False),
    ],
)
def test_leader_epochs(epochs: list[tuple[int, int]], is_good: bool) -> None:
    disk = kafka_disk("codec-none-0")
    edit(disk, "data/codec-none-0/leader-epoch-checkpoint", put(encode_epochs(epochs)))
    if is_good:
        verify(disk, "data/codec-none-0")
    else:
        assert flaw(disk, "data/codec-none-0") == ("leader-epoch-checkpoint", 0)


def test_a_new_epoch_may_not_be_in_the_checkpoint_yet() -> None:
    disk = MemoryDisk()
    files = {
        "t-0/leader-epoch-checkpoint": encode_epochs([(3, 0)]),
        f"t-0/{FIRST}.log": bytes(make_batch(1, leader_epoch=3)),
        f"t-0/{segment_name(1)}.log": bytes(make_batch(1, base_offset=1, leader_epoch=4)),
    }
    lay_out(disk, "data", files)
    verify(disk, "data/t-0")
    lay_out(disk, "data", {f"t-0/{segment_name(2)}.log": b""})
    assert flaw(disk, "data/t-0") == ("leader-epoch-checkpoint", 0)


def test_entries_for_what_was_never_finished() -> None:
    disk = kafka_disk("txn-0")
    edit(disk, f"data/txn-0/{FIRST}.log", lambda data: data.__delitem__(slice(2500, None)))
    edit(disk, f"data/txn-0/{FIRST}.txnindex", lambda data: data.__delitem__(slice(102, None)))
    summary = verify(disk, "data/txn-0")
    assert summary.torn is not None
    _, start, _ = summary.torn
    edit(disk, f"data/txn-0/{FIRST}.log", lambda data: data.__delitem__(slice(start, None)))
    assert flaw(disk, "data/txn-0") == (f"{FIRST}.index", 24)
