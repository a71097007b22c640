"""The small files: Kafka's own are read and written back byte for byte, and bad ones are refused with a position."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.storage.formats import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    TXN_ENTRY,
    AbortedTxn,
    BadFile,
    ProducerSnapshotEntry,
    encode_aborted_txn,
    encode_clean_shutdown,
    encode_epochs,
    encode_offsets,
    encode_partition_metadata,
    encode_properties,
    encode_snapshot,
    parse_aborted_txns,
    parse_clean_shutdown,
    parse_epochs,
    parse_offset_index,
    parse_offsets,
    parse_partition_dir,
    parse_partition_metadata,
    parse_properties,
    parse_segment_name,
    parse_snapshot,
    parse_time_index,
    parse_uuid,
    uuid_text,
)
from tests.storage.recorded import recorded_files

INT16, INT32, INT64 = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (16, 32, 64))
# When the recorded meta.properties was written.
RECORDED_MS = int(datetime(2026, 11, 16, 6, 24, 32, tzinfo=UTC).timestamp() * 1000)


def recode(name: str, data: bytes) -> bytes | None:
    """A recorded file taken apart and put together again; None for the segments themselves."""
    last = name.rpartition("/")[2]
    base_offset, suffix = parse_segment_name(last) or (0, last)
    match suffix:
        case ".log":
            return None
        case ".index":
            entries = parse_offset_index(data, base_offset)
            return b"".join(OFFSET_ENTRY.pack(offset - base_offset, position) for offset, position in entries)
        case ".timeindex":
            stamps = parse_time_index(data, base_offset)
            return b"".join(TIME_ENTRY.pack(timestamp, offset - base_offset) for timestamp, offset in stamps)
        case ".txnindex":
            return b"".join(map(encode_aborted_txn, parse_aborted_txns(data)))
        case ".snapshot":
            return encode_snapshot(parse_snapshot(data))
        case "leader-epoch-checkpoint":
            return encode_epochs(parse_epochs(data))
        case "partition.metadata":
            return encode_partition_metadata(parse_partition_metadata(data))
        case "meta.properties":
            return encode_properties(parse_properties(data), RECORDED_MS)
        case ".kafka_cleanshutdown":
            return encode_clean_shutdown(parse_clean_shutdown(data))
        case _:
            assert suffix.endswith("-offset-checkpoint")
            return encode_offsets(parse_offsets(data))


def test_kafkas_own_files() -> None:
    done = 0
    for name, data in recorded_files().items():
        again = recode(name, data)
        assert again is None or again == data, name
        done += again is not None
    assert done == len(recorded_files()) - sum(name.endswith(".log") for name in recorded_files()) > 100


def test_what_they_say() -> None:
    files = recorded_files()
    assert parse_offsets(files["recovery-point-offset-checkpoint"])["__transaction_state", 0] == 37
    assert parse_epochs(files["txn-0/leader-epoch-checkpoint"]) == [(0, 0)]
    assert uuid_text(parse_partition_metadata(files["txn-0/partition.metadata"])) == "D0HMQH8bQ7qTBBfSs3TCow"
    assert parse_properties(files["meta.properties"])["cluster.id"] == "sH7gnb5IQTqIGQveoWctog"
    assert parse_clean_shutdown(files[".kafka_cleanshutdown"]) == -1
    assert parse_aborted_txns(files["txn-0/00000000000000000000.txnindex"])[0] == AbortedTxn(5, 22, 32, 33)
    assert parse_offset_index(files["codec-none-0/00000000000000000120.index"], 120)[0][0] > 120
    (entry,) = parse_snapshot(files["txn-0/00000000000000000132.snapshot"])
    assert entry == ProducerSnapshotEntry(5, 0, 119, 130, 9, 1794810296804, 0, -1)


def test_imports_nothing_else_of_the_storage() -> None:
    code = (
        "import sys, minikafka.storage.formats; "
        "print([name for name in sys.modules if name.startswith('minikafka.storage.') and '.formats' not in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# Indexes


def test_zeros_after_the_entries() -> None:
    entries = [OFFSET_ENTRY.pack(5, 0x100), OFFSET_ENTRY.pack(9, 0x01000000)]
    assert parse_offset_index(b"".join(entries) + bytes(800), 100) == [(105, 0x100), (109, 0x01000000)]
    stamps = [TIME_ENTRY.pack(1 << 32, 1), TIME_ENTRY.pack(1 << 33, 1 << 24)]
    assert parse_time_index(b"".join(stamps) + bytes(1200), 0) == [(1 << 32, 1), (1 << 33, 1 << 24)]
    # Space that was set aside need not be a whole number of entries.
    assert parse_time_index(b"".join(stamps) + bytes(1201), 0) == parse_time_index(b"".join(stamps), 0)
    assert parse_offset_index(b"", 0) == parse_time_index(bytes(17), 0) == []


def test_half_entries() -> None:
    with pytest.raises(BadFile) as caught:
        parse_offset_index(OFFSET_ENTRY.pack(1, 2) + b"\0\0\1", 0)
    assert caught.value.position == 8
    with pytest.raises(BadFile) as caught:
        parse_aborted_txns(encode_aborted_txn(AbortedTxn(1, 2, 3, 4)) + b"\0")
    assert caught.value.position == TXN_ENTRY.size == 34
    with pytest.raises(BadFile, match="version 1 of an aborted transaction") as caught:
        parse_aborted_txns(encode_aborted_txn(AbortedTxn(1, 2, 3, 4)) + TXN_ENTRY.pack(1, 1, 2, 3, 4))
    assert caught.value.position == 34


@given(st.lists(st.builds(AbortedTxn, INT64, INT64, INT64, INT64)))
def test_aborted_txns(txns: list[AbortedTxn]) -> None:
    assert parse_aborted_txns(b"".join(map(encode_aborted_txn, txns))) == txns


# Checkpoints


TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=20)


@given(st.dictionaries(st.tuples(TOPICS, st.integers(0, 2**31 - 1)), INT64))
def test_offsets(offsets: dict[tuple[str, int], int]) -> None:
    assert parse_offsets(encode_offsets(offsets)) == offsets


@given(st.lists(st.tuples(INT32, INT64)))
def test_epochs(epochs: list[tuple[int, int]]) -> None:
    assert parse_epochs(encode_epochs(epochs)) == epochs


def test_no_entries() -> None:
    assert parse_offsets(b"") == parse_offsets(b"0\n") == parse_offsets(b"0\n0\n") == {}
    assert parse_epochs(b"") == parse_epochs(b"0\n") == parse_epochs(b"0\n0\n") == []
    assert encode_epochs([]) == b"0\n0\n"


@pytest.mark.parametrize(
    ("data", "position"),
    [
        (b"1\n0\n", 0),
        (b"x\n0\n", 0),
        (b"0\n1\n", 2),
        (b"0\n1\na 0 1\nb 0 2\n", 2),
        (b"0\n1\na 0\n", 4),
        (b"0\n1\na 0 1 2\n", 4),
        (b"0\n2\na 0 1\na x 1\n", 10),
        (b"0\n1\na 0 1", 4),
        (b"0\n1\na 0 9223372036854775808\n", 4),
        (b"0\n1\na 2147483648 1\n", 4),
        (b"0\n1\na 0 1_0\n", 4),
        (b"0\n1\na 0 \xd9\xa1\n", 8),
        (b"0\n1\n\n", 4),
        (b"0", 0),
        (bytes(10), 0),
    ],
)
def test_bad_checkpoints(data: bytes, position: int) -> None:
    with pytest.raises(BadFile) as caught:
        parse_offsets(data)
    assert caught.value.position == position
    assert str(caught.value).endswith(f"at byte {position}")


def test_a_checkpoint_that_lost_its_tail() -> None:
    whole = encode_epochs([(0, 0), (5, 1200), (7, 3000)])
    for size in range(3, len(whole)):
        with pytest.raises(BadFile):
            parse_epochs(whole[:size])


# Snapshots


ENTRIES = st.builds(ProducerSnapshotEntry, INT64, INT16, INT32, INT64, INT32, INT64, INT32, INT64)


@given(st.lists(ENTRIES))
def test_snapshots(entries: list[ProducerSnapshotEntry]) -> None:
    data = encode_snapshot(entries)
    assert parse_snapshot(data) == entries
    assert parse_snapshot(memoryview(data)) == entries


def test_any_flipped_bit_or_lost_byte_of_a_snapshot_shows() -> None:
    data = encode_snapshot(
        [ProducerSnapshotEntry(1, 2, 3, 4, 5, 6, 7, 8), ProducerSnapshotEntry(2, 0, 0, 0, 0, 0, 0, -1)]
    )
    for bit in range(len(data) * 8):
        bad = bytearray(data)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadFile):
            parse_snapshot(bad)
    for bad_data in (*(data[:size] for size in range(len(data))), data + b"\0"):
        with pytest.raises(BadFile):
            parse_snapshot(bad_data)


# What a directory says of itself


@given(st.binary(min_size=16, max_size=16))
def test_uuids(uuid: bytes) -> None:
    assert parse_uuid(uuid_text(uuid)) == uuid
    if any(uuid):
        assert parse_partition_metadata(encode_partition_metadata(uuid)) == uuid


@pytest.mark.parametrize(
    "text", ["", "AAAA", "A" * 21, "A" * 23, "A" * 21 + "B", "A" * 21 + "=", "A" * 20 + "+A", "ä" * 22]
)
def test_bad_uuids(text: str) -> None:
    with pytest.raises(BadFile):
        parse_uuid(text)


@pytest.mark.parametrize(
    ("data", "position"),
    [
        (b"", 0),
        (b"version: 0\n", 0),
        (b"version: -1\ntopic_id: D0HMQH8bQ7qTBBfSs3TCow", 0),
        (b"topic_id: D0HMQH8bQ7qTBBfSs3TCow\nversion: 0", 0),
        (b"version: 0\ntopic_id: D0HMQH8bQ7qTBBfSs3TCo", 21),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 21),
    ],
)
def test_bad_partition_metadata(data: bytes, position: int) -> None:
    with pytest.raises(BadFile) as caught:
        parse_partition_metadata(data)
    assert caught.value.position == position


def test_partition_metadata_of_later_versions() -> None:
    assert parse_partition_metadata(b"version: 7\r\ntopic_id:\tD0HMQH8bQ7qTBBfSs3TCow\n")[:2] == b"\x0f\x41"


def test_clean_shutdown() -> None:
    assert encode_clean_shutdown(12) == b'{"version":0,"brokerEpoch":12}'
    assert parse_clean_shutdown(encode_clean_shutdown(2**63 - 1)) == 2**63 - 1
    assert parse_clean_shutdown(b"") == parse_clean_shutdown(b'{"version":1,"more":[]}') == -1
    for bad in (
        b"{",
        b"[]",
        b'{"brokerEpoch":"1"}',
        b'{"brokerEpoch":true}',
        b'{"brokerEpoch":1e99}',
        b"\xff",
        b"[" * 100_000,
    ):
        with pytest.raises(BadFile):
            parse_clean_shutdown(bad)


@given(st.dictionaries(st.text(), st.text()))
def test_properties(properties: dict[str, str]) -> None:
    assert parse_properties(encode_properties(properties, 0)) == properties


def test_properties_as_java_writes_them() -> None:
    properties = {"a b": "  c d", "k=:": "v\\#!", "ä😀": "\t\n\r\f\x00"}
    assert encode_properties(properties, 1_000_000_000_000).decode() == (
        "#\n#Sun Sep 09 01:46:40 UTC 2001\n"
        "a\\ b=\\ \\ c d\n"
        "k\\=\\:=v\\\\\\#\\!\n"
        "\\u00E4\\uD83D\\uDE00=\\t\\n\\r\\f\\u0000\n"
    )


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\nb:2\nc 3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("  a  =  1  \n", {"a": "1  "}),
        ("# x\n! y\n\n \t\n a=b", {"a": "b"}),
        ("a=b\\\n   c\\\n#d\ne=f\\\\\ng=h", {"a": "bc#d", "e": "f\\", "g": "h"}),
        ("a\\ b=c\r\nd\\=e=f\rg=h", {"a b": "c", "d=e": "f", "g": "h"}),
        ("a==b\nc=:d\n=e", {"a": "=b", "c": ":d", "": "e"}),
        ("a=\\u0041\\z\\t", {"a": "Az\t"}),
        ("a=1\na=2\\", {"a": "2"}),
    ],
)
def test_reading_properties(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text.encode("latin-1")) == properties


def test_bad_properties() -> None:
    with pytest.raises(BadFile):
        parse_properties(b"a=\\u12g4")


PARSERS: list[Callable[[bytes], object]] = [
    parse_aborted_txns,
    parse_clean_shutdown,
    parse_epochs,
    parse_offsets,
    parse_partition_metadata,
    parse_properties,
    parse_snapshot,
    lambda data: parse_offset_index(data, 0),
    lambda data: parse_time_index(data, 0),
    lambda data: parse_segment_name(data.decode("latin-1")),
    lambda data: parse_partition_dir(data.decode("latin-1")),
]


@given(st.binary(max_size=200) | st.text('0123456789 \n-abc{}":').map(str.encode))
def test_bad_bytes_are_bad_files_and_nothing_else(data: bytes) -> None:
    for parse in PARSERS:
        try:
            parse(data)
        except BadFile as error:
            assert 0 <= error.position <= len(data)
