"""What a leader accepts: parsing, header rules, sizes, timestamps, keys, codecs."""

import gzip
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.compression import Compression, compress
from minikafka.protocol.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    MessageTooLargeError,
    RecordListTooLargeError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import ControlType, build_marker
from minikafka.protocol.records.layout import TimestampType
from minikafka.protocol.records.reader import iter_records
from minikafka.storage.producers import Origin
from minikafka.storage.validation import Limits, RejectedRecords, parse_produced, validate
from tests.storage.batches import NOW_MS, make_batch, view

VERSION = 9
DEFAULTS = Limits()
APPEND_TIME = Limits(timestamp_type=TimestampType.LOG_APPEND_TIME)
COMPACTED = Limits(is_compacted=True)


def accept(data: bytearray, limits: Limits = DEFAULTS, origin: Origin = Origin.CLIENT) -> BatchView:
    """Through both steps; what comes out must be a good batch."""
    batch = validate(parse_produced(data, VERSION), limits, NOW_MS, origin)
    # Not only the fields, also the bytes.
    again = BatchView(batch.data)
    again.check_crc()
    for field in set(BatchView.__slots__) - {"data"}:
        assert getattr(again, field) == getattr(batch, field), field
    return batch


def refusal(data: bytearray, limits: Limits = DEFAULTS) -> RejectedRecords:
    with pytest.raises(RejectedRecords) as caught:
        accept(data, limits)
    return caught.value


def old_message(magic: int) -> bytearray:
    """A message of a format before 2: offset, length, CRC, magic, attributes, (timestamp,) key, value."""
    body = struct.pack(">bb", magic, 0) + (bytes(8) if magic else b"") + struct.pack(">ii", -1, -1)
    return bytearray(struct.pack(">qiI", 0, len(body) + 4, 0) + body)


# -------------------------------------------------------------------------------------- parsing


def test_a_good_batch_is_taken_as_it_is() -> None:
    data = make_batch(3)
    before = bytes(data)
    batch = accept(data)
    assert batch.data.obj is data and bytes(data) == before


@pytest.mark.parametrize("length", range(130))
def test_cut_off_anywhere(length: int) -> None:
    whole = make_batch([(None, b"x" * 61)])
    assert len(whole) == 130
    with pytest.raises(InvalidRecordError):
        parse_produced(whole[:length], VERSION)


@pytest.mark.parametrize("rest", [b"", b"\xff" * 11, bytes(8) + b"\x00\x00\x00\x20", make_batch(1)[:-1]])
def test_the_start_of_a_second_batch_is_ignored(rest: bytes) -> None:
    first = make_batch(2)
    batch = accept(first + rest)
    assert bytes(batch.data) == first


@pytest.mark.parametrize(
    ("rest", "error"),
    [
        (bytes(make_batch(1)), InvalidRecordError),
        (bytes(old_message(1)), InvalidRecordError),
        (bytes(12), CorruptMessageError),  # a length of 0
        (bytes(make_batch(1, magic=3)), CorruptMessageError),
    ],
)
def test_a_second_batch(rest: bytes, error: type[KafkaError]) -> None:
    with pytest.raises(error):
        parse_produced(make_batch(1) + rest, VERSION)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"magic": 3}, CorruptMessageError),
        ({"magic": -1}, CorruptMessageError),
        ({"length": 13}, CorruptMessageError),
        ({"length": -(2**31)}, CorruptMessageError),
        ({"length": 48}, CorruptMessageError),  # a byte less than an empty batch
        ({"length": 2**31 - 1}, InvalidRecordError),
        ({"attributes": 5}, UnsupportedCompressionTypeError),
        ({"attributes": 7}, UnsupportedCompressionTypeError),
    ],
)
def test_headers_that_are_none(fields: dict[str, int], error: type[KafkaError]) -> None:
    with pytest.raises(error):
        parse_produced(make_batch(1, **fields), VERSION)  # type: ignore[arg-type]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats(magic: int) -> None:
    with pytest.raises(UnsupportedForMessageFormatError):
        parse_produced(old_message(magic), 2)
    with pytest.raises(InvalidRecordError):
        parse_produced(old_message(magic), 3)


def test_zstd_needs_version_7() -> None:
    data = make_batch(1, attributes=4)
    for version in range(7):
        with pytest.raises(UnsupportedCompressionTypeError):
            parse_produced(data, version)
    parse_produced(data, 7)
    for codec in range(4):
        parse_produced(make_batch(1, attributes=codec), 0)


@given(st.binary(max_size=200), st.integers(0, 11))
def test_any_bytes(data: bytes, version: int) -> None:
    try:
        validate(parse_produced(bytearray(data), version), Limits(), NOW_MS, Origin.CLIENT)
    except KafkaError as error:
        assert error.code.name in {"INVALID_RECORD", "CORRUPT_MESSAGE", "UNSUPPORTED_FOR_MESSAGE_FORMAT"}


@given(st.integers(0, 96), st.binary(min_size=1, max_size=8), st.booleans())
def test_any_damage(at: int, damage: bytes, is_compacted: bool) -> None:
    good = make_batch([(b"key", b"value" * 3)] * 2)
    bad = bytearray(good)
    bad[at : at + len(damage)] = damage
    limits = Limits(is_compacted=is_compacted, timestamp_before_max_ms=1000)
    try:
        stored = validate(parse_produced(bad, VERSION), limits, NOW_MS, Origin.CLIENT)
    except (KafkaError, RejectedRecords):
        return
    # Only what is not under the CRC, and what follows the batch, can be different.
    assert stored.data[17:] == good[17:]


# -------------------------------------------------------------------------------------- headers


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"base_offset": 1}, "base offset is 1"),
        ({"base_offset": -1}, "base offset is -1"),
        ({"record_count": 0, "last_offset_delta": -1}, "0 records"),
        ({"record_count": -5, "last_offset_delta": -6}, "-5 records"),
        ({"record_count": 3}, "3 records"),
        ({"last_offset_delta": 2}, "offsets 0 to 2"),
        ({"record_count": -(2**31), "last_offset_delta": 2**31 - 1}, "records"),
        ({"attributes": 0x20}, "control"),
        ({"producer_id": 5, "producer_epoch": 0, "base_sequence": -1}, "sequence -1 of producer 5"),
        ({"producer_id": 0, "producer_epoch": 0, "base_sequence": -7}, "sequence -7"),
    ],
)
def test_rules_for_clients(fields: dict[str, int], reason: str) -> None:
    with pytest.raises(InvalidRecordError, match=reason):
        accept(make_batch(2, **fields))  # type: ignore[arg-type]
    accept(make_batch(2, **fields), origin=Origin.COORDINATOR)  # type: ignore[arg-type]


def test_a_wrong_crc() -> None:
    for origin in (Origin.CLIENT, Origin.COORDINATOR):
        with pytest.raises(CorruptMessageError):
            accept(make_batch(1, crc_xor=1), origin=origin)


def test_sizes() -> None:
    size = len(make_batch(4))
    accept(make_batch(4), Limits(max_message_bytes=size, segment_bytes=size))
    with pytest.raises(MessageTooLargeError):
        accept(make_batch(4, crc_xor=1), Limits(max_message_bytes=size - 1, segment_bytes=size - 1))
    with pytest.raises(RecordListTooLargeError):
        accept(make_batch(4), Limits(segment_bytes=size - 1))


# -------------------------------------------------------------------------------------- timestamps


def test_log_append_time_is_set_in_place() -> None:
    data = make_batch(3, timestamps=[5, 6, 7], attributes=0x10)
    batch = accept(data, APPEND_TIME)
    assert batch.data.obj is data
    assert (batch.max_timestamp, batch.base_timestamp, batch.attributes) == (NOW_MS, 5, 0x18)
    assert {record.timestamp_ms for record in iter_records(batch)} == {NOW_MS}


def test_a_producer_cannot_claim_log_append_time() -> None:
    rejected = refusal(make_batch(2, attributes=8), APPEND_TIME)
    assert isinstance(rejected.error, InvalidTimestampError)
    assert [each.batch_index for each in rejected.record_errors] == [0, 1]


def test_the_claim_is_dropped_where_the_producers_clock_counts() -> None:
    batch = accept(make_batch(2, attributes=0x18, timestamps=[NOW_MS - 9, NOW_MS]))
    assert (batch.attributes, batch.max_timestamp) == (0x10, NOW_MS)


def test_no_limit_by_default() -> None:
    for timestamp in (-5, -1, 0, 2**62):
        assert accept(make_batch(1, timestamps=[timestamp])).max_timestamp == timestamp


@pytest.mark.parametrize(
    ("limits", "bad"),
    [
        (Limits(timestamp_before_max_ms=1000), [2]),
        (Limits(timestamp_after_max_ms=1000), [4]),
        (Limits(timestamp_before_max_ms=1000, timestamp_after_max_ms=1000), [2, 4]),
        (Limits(timestamp_before_max_ms=999, timestamp_after_max_ms=999), [1, 2, 3, 4]),
    ],
)
def test_timestamps_out_of_range_are_named(limits: Limits, bad: list[int]) -> None:
    # The last record has no timestamp, which is always allowed.
    stamps = [NOW_MS, NOW_MS - 1000, NOW_MS - 1001, NOW_MS + 1000, NOW_MS + 1001, -1]
    rejected = refusal(make_batch(6, timestamps=stamps), limits)
    assert isinstance(rejected.error, InvalidTimestampError)
    assert [each.batch_index for each in rejected.record_errors] == bad


def test_a_limit_does_not_matter_where_the_brokers_clock_counts() -> None:
    accept(make_batch(1, timestamps=[5]), APPEND_TIME._replace(timestamp_before_max_ms=1, timestamp_after_max_ms=1))


def test_timestamps_within_the_limits() -> None:
    limits = Limits(timestamp_before_max_ms=1000, timestamp_after_max_ms=1000)
    accept(make_batch(3, timestamps=[NOW_MS, NOW_MS - 1000, NOW_MS + 1000]), limits)


@pytest.mark.parametrize("stated", [-1, 0, NOW_MS - 1])
def test_an_impossible_largest_timestamp_is_put_right(stated: int) -> None:
    batch = accept(make_batch(2, timestamps=[NOW_MS, NOW_MS + 4], max_timestamp=stated))
    assert batch.max_timestamp == NOW_MS + 4


def test_a_largest_timestamp_that_only_claims_to_be_out_of_range() -> None:
    batch = accept(make_batch(1, max_timestamp=NOW_MS + 10**9), Limits(timestamp_after_max_ms=1000))
    assert batch.max_timestamp == NOW_MS


# -------------------------------------------------------------------------------------- records


def test_compacted_topics_need_keys() -> None:
    pairs = [(b"k", b"v"), (None, b"v"), (b"", None), (None, None)]
    accept(make_batch(pairs))
    accept(make_batch([pairs[0], pairs[2]]), COMPACTED)
    rejected = refusal(make_batch(pairs), COMPACTED)
    assert isinstance(rejected.error, InvalidRecordError)
    assert [each.batch_index for each in rejected.record_errors] == [1, 3]


def test_a_bad_timestamp_decides_the_code() -> None:
    limits = COMPACTED._replace(timestamp_before_max_ms=1000)
    rejected = refusal(make_batch([(None, b"v"), (b"k", b"v")], timestamps=[NOW_MS, 5]), limits)
    assert isinstance(rejected.error, InvalidTimestampError)
    assert [each.batch_index for each in rejected.record_errors] == [0, 1]
    assert "key" in rejected.record_errors[0].message and "5" in rejected.record_errors[1].message


def test_odd_offset_deltas_are_named_where_records_are_looked_at() -> None:
    pairs = [(b"k", b"v")] * 3
    rejected = refusal(make_batch(pairs, offset_deltas=[0, 5, 2]), COMPACTED)
    assert isinstance(rejected.error, InvalidRecordError)
    assert [each.batch_index for each in rejected.record_errors] == [1]


@pytest.mark.parametrize(
    ("fields", "limits"),
    [
        ({"payload": b"no records"}, COMPACTED),
        ({"payload": b"no records"}, Limits(timestamp_before_max_ms=1)),
        ({"payload": b"not gzip", "attributes": 1}, COMPACTED),
        ({"payload": b"not gzip", "attributes": 1}, Limits(compression=Compression.LZ4)),
        ({"payload": gzip.compress(bytes(5000)), "attributes": 1}, Limits(is_compacted=True, inflated_bytes_max=4999)),
        (
            {"payload": gzip.compress(bytes(5000)), "attributes": 1},
            Limits(compression=Compression.NONE, inflated_bytes_max=4999),
        ),
    ],
)
def test_records_that_are_none(fields: dict[str, Any], limits: Limits) -> None:
    with pytest.raises(InvalidRecordError):
        accept(make_batch(1, **fields), limits)
    accept(make_batch(1, **fields))


def test_the_coordinators_records_are_not_looked_at() -> None:
    accept(make_batch(1), COMPACTED, Origin.COORDINATOR)


# -------------------------------------------------------------------------------------- codecs


def test_recompression() -> None:
    plain = make_batch([(b"k", b"v" * 100)] * 20, producer_id=1, producer_epoch=0, base_sequence=0)
    for codec in Compression:
        batch = accept(make_batch([(b"k", b"v" * 100)] * 20), Limits(compression=codec))
        assert batch.compression is codec
        assert [*iter_records(batch)] == [*iter_records(BatchView(plain))]


def test_recompression_with_the_brokers_clock() -> None:
    batch = accept(make_batch(3), APPEND_TIME._replace(compression=Compression.ZSTD, compression_level=5))
    assert (batch.attributes, batch.max_timestamp) == (8 | 4, NOW_MS)


def test_limits_count_after_recompression_too() -> None:
    pairs = [(b"k", b"v" * 1000)]
    small = make_batch(pairs, attributes=3, payload=compress(Compression.LZ4, make_batch(pairs)[61:]))
    with pytest.raises(MessageTooLargeError):
        accept(bytearray(small), Limits(compression=Compression.NONE, max_message_bytes=1000))
    with pytest.raises(RecordListTooLargeError):
        accept(bytearray(small), Limits(compression=Compression.NONE, segment_bytes=1000))
    size = len(make_batch(pairs))
    accept(bytearray(small), Limits(compression=Compression.NONE, max_message_bytes=size, segment_bytes=size))


def test_a_marker() -> None:
    marker = build_marker(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=3, timestamp_ms=NOW_MS - 5
    )
    limits = APPEND_TIME._replace(compression=Compression.LZ4, is_compacted=True)
    batch = accept(marker, limits, Origin.COORDINATOR)
    assert batch.compression is Compression.NONE and batch.max_timestamp == NOW_MS
    with pytest.raises(InvalidRecordError):
        accept(marker)


def test_delete_horizons_of_clients_change_nothing() -> None:
    assert view(1, attributes=0x40).has_delete_horizon
    accept(make_batch(1, attributes=0x40))


def test_refusals_say_how_many_records_are_bad() -> None:
    rejected = refusal(make_batch(2), COMPACTED)
    assert "INVALID_RECORD" in str(rejected) and "2 records" in str(rejected)
