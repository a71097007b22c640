"""The header of a batch: every field, what a broker changes, and how batches follow each other in a buffer."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.errors import CorruptRecord, UnsupportedMagic
from minikafka.protocol.records import (
    HEADER_BYTES,
    BatchBuilder,
    BatchView,
    Compression,
    TimestampType,
    iter_records,
    read_batches,
    read_whole_batches,
)
from tests.protocol.record_samples import NOW_MS

# Written out by hand: one record, null key, value "hi", with every field of the header a number of its own.
RECORDS = bytes.fromhex("10 00 00 00 01 04 6869 00")
AFTER_CRC = struct.pack(">hiqqqhii", 0x58, 6, NOW_MS, NOW_MS + 5, 77, 3, 2**31 - 2, 1) + RECORDS
GOLDEN = struct.pack(">qiibI", 1000, 49 + len(RECORDS), 4, 2, crc32c(AFTER_CRC)) + AFTER_CRC


def batch(*values: bytes, base_offset: int = 0) -> bytearray:
    builder = BatchBuilder()
    assert builder.append_many(NOW_MS, values) == len(values)
    return builder.build(base_offset=base_offset)


def test_every_field() -> None:
    view = BatchView(b"before" + GOLDEN + b"after", 6)
    assert (view.base_offset, view.batch_length, view.size) == (1000, 58, 70)
    assert (view.leader_epoch, view.magic, view.attributes) == (4, 2, 0x58)
    assert (view.last_offset_delta, view.last_offset, view.next_offset) == (6, 1006, 1007)
    assert (view.base_timestamp, view.max_timestamp) == (NOW_MS, NOW_MS + 5)
    assert (view.producer_id, view.producer_epoch, view.base_sequence, view.record_count) == (77, 3, 2**31 - 2, 1)
    # 2**31 - 2, 2**31 - 1, 0, 1, 2, 3, 4
    assert view.last_sequence == 4
    assert view.data == GOLDEN
    view.check_crc()
    assert [*iter_records(view)] == [(1000, NOW_MS + 5, None, b"hi", ())]
    assert "1000-1006" in repr(view)


@pytest.mark.parametrize("bit", range(16))
def test_attributes(bit: int) -> None:
    view = BatchView(GOLDEN)
    view.attributes = 1 << bit
    assert view.timestamp_type is TimestampType(int(bit == 3))
    assert view.is_transactional == (bit == 4)
    assert view.is_control == (bit == 5)
    assert view.has_delete_horizon == (bit == 6)
    assert view.delete_horizon_ms == (NOW_MS if bit == 6 else None)
    assert view.compression == (1 << bit if bit < 3 else 0)


def test_codecs() -> None:
    view = BatchView(GOLDEN)
    for codec in range(8):
        view.attributes = codec
        if codec < 5:
            assert view.compression is Compression(codec)
        else:
            with pytest.raises(CorruptRecord, match=f"codec {codec}"):
                _ = view.compression


def test_no_sequence() -> None:
    assert BatchView(batch(b"a", b"b")).last_sequence == -1


def test_broker_sets_offset_and_epoch_in_place() -> None:
    buf = bytearray(GOLDEN)
    view = BatchView(memoryview(buf))
    view.patch(2**40, 9)
    assert (view.base_offset, view.leader_epoch, view.last_offset) == (2**40, 9, 2**40 + 6)
    view.check_crc()
    assert buf == struct.pack(">qii", 2**40, 58, 9) + GOLDEN[16:]
    view.patch_base_offset(5)
    view.patch_leader_epoch(6)
    assert buf == struct.pack(">qii", 5, 58, 6) + GOLDEN[16:]
    assert (BatchView(buf).base_offset, BatchView(buf).leader_epoch) == (view.base_offset, view.leader_epoch) == (5, 6)


def test_broker_sets_its_time() -> None:
    buf = batch(b"a", b"b")
    view = BatchView(buf)
    view.set_log_append_time(NOW_MS + 99)
    again = BatchView(buf)
    again.check_crc()
    assert again.timestamp_type is view.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (again.max_timestamp, again.base_timestamp, again.crc) == (NOW_MS + 99, NOW_MS, view.crc)
    assert {record.timestamp_ms for record in iter_records(again)} == {NOW_MS + 99}


def test_crc_covers_all_from_the_attributes_on() -> None:
    for at in range(len(GOLDEN)):
        buf = bytearray(GOLDEN)
        buf[at] ^= 0x40
        try:
            view = BatchView(buf)
        except CorruptRecord:
            # Only the length and the magic are looked at.
            assert 8 <= at < 12 or at == 16
            continue
        if at < 8 or 12 <= at < 16:
            view.check_crc()
        else:
            with pytest.raises(CorruptRecord, match="CRC"):
                view.check_crc()


def test_batches_in_a_row() -> None:
    first, second = batch(b"a", b"b"), batch(b"c", base_offset=2)
    views = read_batches(first + second)
    assert [view.base_offset for view in views] == [0, 2]
    assert [view.data for view in views] == [first, second]
    assert [[record.value for record in iter_records(view)] for view in views] == [[b"a", b"b"], [b"c"]]


def test_views_do_not_copy() -> None:
    buf = batch(b"a") + batch(b"b", base_offset=1)
    for view in read_batches(buf):
        view.patch_base_offset(view.base_offset + 100)
    assert [view.base_offset for view in read_whole_batches(buf)[0]] == [100, 101]


@pytest.mark.parametrize("size", range(len(GOLDEN)))
def test_part_of_a_batch(size: int) -> None:
    whole = bytes(batch(b"x"))
    with pytest.raises(CorruptRecord):
        read_batches(GOLDEN[:size])
    assert read_whole_batches(GOLDEN[:size]) == ([], 0)
    if size:
        with pytest.raises(CorruptRecord):
            read_batches(whole + GOLDEN[:size])
    views, used = read_whole_batches(whole + GOLDEN[:size])
    assert (len(views), used) == (1, len(whole))


def test_whole_batches_only() -> None:
    views, used = read_whole_batches(GOLDEN * 3)
    assert (len(views), used) == (3, 3 * len(GOLDEN))


def test_nothing() -> None:
    assert read_whole_batches(b"") == ([], 0)
    with pytest.raises(CorruptRecord):
        read_batches(b"")


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_recognised(magic: int) -> None:
    # A message of the old formats, shorter than the header of a batch: offset, size, CRC, magic, attributes, null key.
    message = struct.pack(">qiIbbii", 0, 14, 0, magic, 0, -1, -1)
    for read in (read_batches, read_whole_batches):
        with pytest.raises(UnsupportedMagic) as caught:
            read(message)
        assert caught.value.magic == magic


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_unknown_formats(magic: int) -> None:
    buf = bytearray(GOLDEN)
    buf[16] = magic % 256
    for read in (read_batches, read_whole_batches):
        with pytest.raises(CorruptRecord, match=f"format {magic}") as caught:
            read(buf)
        assert not isinstance(caught.value, UnsupportedMagic)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_shorter_than_its_header(length: int) -> None:
    buf = bytearray(GOLDEN)
    buf[8:12] = struct.pack(">i", length)
    for read in (read_batches, read_whole_batches):
        for size in (17, 40, len(buf)):
            with pytest.raises(CorruptRecord, match="header"):
                read(buf[:size])


def test_a_bad_batch_after_a_good_one() -> None:
    bad = bytearray(GOLDEN)
    bad[16] = 9
    with pytest.raises(CorruptRecord):
        read_whole_batches(GOLDEN + bad)


@given(st.binary(max_size=200))
def test_anything(buf: bytes) -> None:
    for attempt in (buf, GOLDEN[:8] + buf, GOLDEN[:17] + buf):
        try:
            views, used = read_whole_batches(attempt)
        except CorruptRecord:
            continue
        assert used == sum(view.size for view in views) <= len(attempt)
        assert all(view.size >= HEADER_BYTES for view in views)
