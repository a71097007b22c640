"""Dumping: every file of Kafka's own log directory is printed in full, and nothing in a record breaks a line."""

import json
from typing import Any

import pytest

from minikafka.storage.dump import Item, dump
from minikafka.storage.dump_text import as_json, as_text, shown, shown_time
from minikafka.storage.finding import find
from minikafka.storage.formats import OFFSET_ENTRY, segment_name
from tests.sim.memory_disk import MemoryDisk
from tests.storage.batches import NOW_MS, make_batch
from tests.storage.recorded import lay_out, recorded_files

FIRST = "00000000000000000000"


def items(path: str, files: dict[str, bytes] | None = None, *, records: bool = True) -> list[Item]:
    disk = MemoryDisk()
    lay_out(disk, "data", files)
    return [*dump(disk, find(disk, path), records=records)]


def of_kind(found: list[Item], kind: str) -> list[Item]:
    return [item for item in found if item["item"] == kind]


# Kafka's own


def test_all_of_kafkas_log_directory() -> None:
    found = items("data")
    assert {item["path"].removeprefix("/data/") for item in of_kind(found, "file")} == set(recorded_files())
    assert len(of_kind(found, "record")) == 3845
    batches = of_kind(found, "batch")
    assert len(batches) == 242
    assert all(batch["crc_ok"] for batch in batches)
    assert {batch["codec"] for batch in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {batch["timestamp_type"] for batch in batches} == {"create_time", "log_append_time"}
    assert not of_kind(found, "problem")


@pytest.mark.parametrize("render", [as_text, as_json])
def test_every_item_is_one_line(render: Any) -> None:
    for item in items("data"):
        line = render(item)
        assert line.isprintable(), line


def test_json_gives_back_what_was_dumped() -> None:
    for item in items("data"):
        again = json.loads(as_json(item))
        assert again["item"] == item["item"]
        if item["item"] == "batch":
            assert again == item
        if item["item"] == "record" and isinstance(item["value"], bytes):
            text = item["value"].decode("utf-8", "ignore")
            assert again["value"] == text if text.encode() == item["value"] else "value_base64" in again


def test_records_only_if_wanted() -> None:
    assert not of_kind(items("data/txn-0", records=False), "record")


def test_transactions() -> None:
    found = items("data/txn-0")
    batches = of_kind(found, "batch")
    markers = [batch["marker"] for batch in batches if batch["is_control"]]
    assert markers.count("abort") == 4 and markers.count("commit") == 8
    assert all(batch["is_transactional"] and batch["producer_id"] == 5 for batch in batches)
    aborted = of_kind(found, "aborted transaction")
    assert [txn["first_offset"] for txn in aborted] == [22, 55, 88, 121]
    assert as_text(batches[5]) == (
        "  @684 offsets 32-32, 1 record in 78 bytes none, leader epoch 0, producer 5 epoch 0, transactional, "
        "abort marker of coordinator epoch 0, create time 2026-11-16T06:24:55.659Z, crc 46204e01 ok"
    )


def test_compacted() -> None:
    (batch,) = of_kind(items(f"data/compacted-0/{FIRST}.log"), "batch")
    assert (batch["base_offset"], batch["last_offset"], batch["records"]) == (800, 999, 40)
    assert "delete horizon 2026-11-17T06:25:08.071Z" in as_text(batch)


def test_groups_and_offsets() -> None:
    records = of_kind(items("data/__consumer_offsets-1"), "record")
    assert records[0]["key"] == {"group": "fxg"}
    assert records[0]["value"]["members"][0]["client_id"] == "rdkafka"
    assert records[1]["key"] == {"group": "fxg", "topic": "codec-lz4", "partition": 0}
    assert records[1]["value"]["offset"] == 600
    assert 'key {group: "fxg", topic: "codec-lz4", partition: 0} value {offset: 600, ' in as_text(records[1])
    assert json.loads(as_json(records[0]))["value"]["members"][0]["client_host"] == "/127.0.0.1"


def test_transaction_state() -> None:
    records = of_kind(items("data/__transaction_state-0"), "record")
    assert all(record["key"] == {"transactional_id": "fx"} for record in records)
    assert records[1]["value"]["transaction_partitions"] == [{"topic": "txn", "partition_ids": [0, 1]}]


def test_internal_records_that_are_something_else() -> None:
    pairs = [(b"\0\1\0", b"x"), (b"\0\x09", b"x"), (b"x", b"y"), (None, b"y"), (b"\0\2\0\3fxg", None)]
    found = items("data", {f"__consumer_offsets-0/{FIRST}.log": bytes(make_batch(pairs))})
    values = [(record["key"], record["value"]) for record in of_kind(found, "record")]
    assert values == [*pairs[:4], ({"group": "fxg"}, None)]


def test_small_files() -> None:
    found = items("data")
    assert of_kind(found, "properties") == [
        {"item": "properties", "broker.id": "0", "version": "0", "cluster.id": "sH7gnb5IQTqIGQveoWctog"}
    ]
    assert of_kind(found, "clean shutdown") == [{"item": "clean shutdown", "broker_epoch": -1}]
    assert {"item": "offset", "topic": "compacted", "partition": 0, "offset": 1000} in found
    assert {"item": "leader epoch", "epoch": 0, "start_offset": 0} in found
    assert {"item": "partition metadata", "topic_id": "D0HMQH8bQ7qTBBfSs3TCow"} in found
    assert {"item": "offset index entry", "offset": 32, "position": 684} in found
    lines = [as_text(item) for item in found]
    assert "  txn-1: 132" in lines
    assert "  time index entry: 2026-11-16T06:24:55.659Z (1794810295659), offset 32" in lines
    assert lines[0] == "/data/meta.properties: 88 bytes"


# What is odd


def test_bad_files_are_said_to_be_bad() -> None:
    good, bad = make_batch(2), make_batch(1, base_offset=2, crc_xor=1)
    files = {
        f"t-0/{FIRST}.log": bytes(good + bad + b"rest"),
        f"t-0/{FIRST}.index": OFFSET_ENTRY.pack(1, 2) + b"\1",
        f"t-0/{segment_name(3)}.snapshot": b"",
        "t-0/leader-epoch-checkpoint": b"0\n1\nx y\n",
    }
    found = items("data", files)
    assert [batch["crc_ok"] for batch in of_kind(found, "batch")] == [True, False]
    assert "WRONG" in as_text(of_kind(found, "batch")[1])
    problems = {(item["path"].rpartition("/")[2], item["position"]) for item in of_kind(found, "problem")}
    assert problems == {
        (f"{FIRST}.log", len(good + bad)),
        (f"{FIRST}.index", 8),
        (f"{segment_name(3)}.snapshot", 0),
        ("leader-epoch-checkpoint", 4),
    }
    assert any(as_text(item).startswith("  BAD at byte 8: ") for item in of_kind(found, "problem"))


@pytest.mark.parametrize(
    "batch",
    [
        make_batch(1, attributes=7),
        make_batch(1, attributes=3),
        make_batch(2, record_count=5),
        make_batch(1, attributes=0x30),
    ],
)
def test_batches_that_cannot_be_read(batch: bytearray) -> None:
    found = items("data", {f"t-0/{FIRST}.log": bytes(batch + make_batch(1, base_offset=9))})
    assert len(of_kind(found, "batch")) == 2
    assert [item["offset"] for item in of_kind(found, "record")][-1] == 9
    for item in found:
        as_text(item), as_json(item)


def test_an_index_that_is_being_written() -> None:
    entries = b"".join(OFFSET_ENTRY.pack(number, number << 8) for number in range(1, 5000))
    files = {f"t-0/{FIRST}.log": b"", f"t-0/{FIRST}.index": entries + bytes(1 << 20)}
    assert len(of_kind(items("data", files), "offset index entry")) == 4999
    files[f"t-0/{segment_name(1)}.log"] = b""
    assert len(of_kind(items("data", files), "offset index entry")) == 4999


def test_a_disk_that_fails() -> None:
    disk = MemoryDisk()
    lay_out(disk, "data", {f"t-0/{FIRST}.log": bytes(make_batch(1)), f"t-0/{FIRST}.index": b""})
    found = find(disk, "data")
    disk.fail(lambda op: op.kind == "read" and op.path.endswith(".log"))
    assert len(of_kind([*dump(disk, found, records=True)], "problem")) == 1
    disk.unlink(f"data/t-0/{FIRST}.log")
    assert of_kind([*dump(disk, found, records=True)], "problem") == []


def test_one_file_that_is_on_its_way_out() -> None:
    disk = MemoryDisk()
    lay_out(disk, "data", {f"t-0/{FIRST}.log.deleted": bytes(make_batch(3))})
    assert len(of_kind([*dump(disk, find(disk, f"data/t-0/{FIRST}.log.deleted"), records=True)], "record")) == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (b"", '""'),
        ("ä€😀".encode(), '"ä€😀"'),
        (b'a"b\\c\n\r\t', '"a\\"b\\\\c\\n\\r\\t"'),
        (b"\x00\x1b[2J\x7f", '"\\x00\\x1b[2J\\x7f"'),
        ("\x9b\u202e".encode(), '"\\x9b\\U0000202e"'),
        (b"\xff\xc3", '"\\xff\\xc3"'),
        ({"a": [1, None, "x"]}, '{a: [1, null, "x"]}'),
    ],
)
def test_what_is_shown_of_bytes(value: Any, text: str) -> None:
    assert shown(value) == text


def test_times() -> None:
    assert shown_time(NOW_MS + 7) == "2025-06-15T15:06:40.007Z"
    assert shown_time(-1) == "no time"
    assert shown_time(-5) == "-5"
    assert shown_time(2**63 - 1) == "9223372036854775807"


def test_headers() -> None:
    item = {
        "item": "record",
        "offset": 1,
        "timestamp": -1,
        "key": None,
        "value": b"v",
        "headers": [("k\udcff", b"\xff")],
    }
    assert as_text(item) == '    1 no time key null value "v" "k\\xff"="\\xff"'
    assert json.loads(as_json(item))["headers"] == [{"key_base64": "a/8=", "value_base64": "/w=="}]
