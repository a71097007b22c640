"""Bytes that no peer should send: a decoder answers with the message or with DecodeError, nothing else."""

import random
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.errors import DecodeError
from minikafka.protocol.message import Message
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from minikafka.protocol.messages.coordinator_records import GroupMetadataValue, OffsetCommitKey
from minikafka.protocol.messages.fetch import FetchRequest, FetchResponse
from minikafka.protocol.messages.groups import DescribeGroupsRequest, JoinGroupRequest, SyncGroupRequest
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import ProduceRequest
from tests.protocol.samples import all_versions, full, messages, version_id

VERSIONS = all_versions()


def decodes(cls: type[Message], wire: bytes, version: int) -> bool:
    """Whether it is a message; anything but DecodeError escapes and fails the test."""
    try:
        cls.decode(wire, version)
    except DecodeError:
        return False
    return True


@contextmanager
def memory_below(limit_bytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit_bytes


@pytest.mark.parametrize(("cls", "version"), VERSIONS, ids=version_id)
def test_cut_off_anywhere(cls: type[Message], version: int) -> None:
    wire = b"".join(full(cls, version).encode(version))
    for length in range(len(wire)):
        assert not decodes(cls, wire[:length], version)


@pytest.mark.parametrize(("cls", "version"), VERSIONS, ids=version_id)
def test_changed_bytes(cls: type[Message], version: int) -> None:
    rng = random.Random(f"{cls.__name__} {version}")
    wire = b"".join(full(cls, version).encode(version))
    for _ in range(50 if wire else 0):
        changed = bytearray(wire)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        decodes(cls, bytes(changed), version)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_message_survives_the_round_trip(data: st.DataObject) -> None:
    cls, version = data.draw(st.sampled_from(VERSIONS))
    message = data.draw(messages(cls, version))
    assert cls.decode(b"".join(message.encode(version)), version) == message


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(VERSIONS), st.data())
def test_flipped_bits(target: tuple[type[Message], int], data: st.DataObject) -> None:
    cls, version = target
    wire = bytearray(b"".join(full(cls, version).encode(version)))
    if wire:
        for bit in data.draw(st.lists(st.integers(0, 8 * len(wire) - 1), min_size=1, max_size=8)):
            wire[bit // 8] ^= 1 << bit % 8
    decodes(cls, bytes(wire), version)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(VERSIONS), st.binary(max_size=300))
def test_noise(target: tuple[type[Message], int], noise: bytes) -> None:
    cls, version = target
    decodes(cls, noise, version)


# -------------------------------------------------------------------------------- lengths and counts


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\x10\x00\x00", b"\x00\x00\x00\x05"])
def test_a_count_beyond_the_message(count: bytes) -> None:
    with memory_below(100_000), pytest.raises(DecodeError, match="topics"):
        MetadataRequest.decode(count, 1)


def test_a_negative_count_is_null_where_null_is_allowed_and_an_error_elsewhere() -> None:
    assert MetadataRequest.decode(b"\xff\xff\xff\xfb", 1).topics is None
    with pytest.raises(DecodeError, match="topics may not be null"):
        MetadataRequest.decode(b"\xff\xff\xff\xff", 0)
    with pytest.raises(DecodeError, match="topic_data may not be null"):
        ProduceRequest.decode(b"\xff\xff\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff", 3)


def test_null_hidden_in_padding_is_refused() -> None:
    # 0x80 0x00 is a padded zero: null, and a length of -1 if nobody looked.
    with pytest.raises(DecodeError, match="client_software_name"):
        ApiVersionsRequest.decode(b"\x80\x00\x02a\x00", 3)
    with pytest.raises(DecodeError, match="topics"):
        MetadataRequest.decode(b"\x80\x00\x01\x00\x00\x00", 12)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08", b"\xff\x7f"])
def test_a_length_beyond_the_message(length: bytes) -> None:
    with memory_below(100_000), pytest.raises(DecodeError):
        ApiVersionsRequest.decode(length + b"abc", 3)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x01", b"\xff" * 10])
def test_varints_with_too_many_bits_or_bytes(length: bytes) -> None:
    with pytest.raises(DecodeError, match="varint"):
        ApiVersionsRequest.decode(length + bytes(20), 3)


def test_text_that_is_not_utf_8() -> None:
    with pytest.raises(DecodeError, match="utf-8"):
        ApiVersionsRequest.decode(b"\x03\xc3\x28\x02a\x00", 3)
    with pytest.raises(DecodeError, match="utf-8"):
        DescribeGroupsRequest.decode(b"\x00\x00\x00\x01\x00\x03\xed\xa0\x80", 0)


def test_unknown_tags_are_skipped_and_checked() -> None:
    assert ApiVersionsRequest.decode(b"\x02a\x02b\x02\x07\x03xyz\x63\x00", 3).client_software_version == "b"
    for bad in (b"\x01\x07\x7fxyz", b"\xff\xff\xff\xff\x0f", b"\x05\x07\x00"):
        with pytest.raises(DecodeError):
            ApiVersionsRequest.decode(b"\x02a\x02b" + bad, 3)


def test_a_known_tag_must_have_the_size_it_claims() -> None:
    request = FetchRequest(cluster_id="abc", max_wait_ms=1, min_bytes=1, topics=[])
    wire = b"".join(request.encode(12))
    assert wire.endswith(b"\x01\x00\x04\x04abc")
    for size in (0, 3, 5, 127):
        changed = wire.replace(b"\x01\x00\x04\x04abc", bytes([1, 0, size]) + b"\x04abc\x00")
        with pytest.raises(DecodeError):
            FetchRequest.decode(changed, 12)


def test_a_known_tag_may_come_twice_and_in_any_order() -> None:
    # As Kafka's own classes read it: the last one counts.
    epoch = b"\x01\x08" + bytes(7)
    wire = b"\x00\x00\x01\x00\x00\x00\x00\x03" + epoch + b"\x01" + b"\x03\x01\x01" + epoch + b"\x02"
    response = ApiVersionsResponse.decode(wire, 3)
    assert response.zk_migration_ready
    assert response.finalized_features_epoch == 2


def test_strings_are_never_longer_than_a_classic_length_can_say() -> None:
    longest = "x" * 0x7FFF
    request = ApiVersionsRequest(client_software_name=longest, client_software_version="1")
    wire = b"".join(request.encode(3))
    assert ApiVersionsRequest.decode(wire, 3) == request
    too_long = _uvarint(0x8001) + b"x" + wire[3:]
    with pytest.raises(DecodeError, match="client_software_name is a string of 32768 bytes"):
        ApiVersionsRequest.decode(too_long, 3)
    group = JoinGroupRequest(
        group_id="g", session_timeout_ms=1, member_id="", protocol_type="", protocols=[], reason="x"
    )
    nullable = b"".join(group.encode(8)).replace(b"\x02x\x00", _uvarint(0x8001) + b"x" * 0x8000 + b"\x00")
    with pytest.raises(DecodeError, match="reason is a string of 32768 bytes"):
        JoinGroupRequest.decode(nullable, 8)


@pytest.mark.parametrize("version", [3, 6])
def test_too_long_a_string_is_not_written_either(version: int) -> None:
    group = JoinGroupRequest(group_id="x" * 0x8000, session_timeout_ms=1, member_id="", protocol_type="", protocols=[])
    with pytest.raises(struct.error):
        group.encode(version)


def test_an_error_names_the_message_and_its_version() -> None:
    with pytest.raises(DecodeError, match=r"^MetadataRequest v0: topics may not be null"):
        MetadataRequest.decode(b"\xff\xff\xff\xff", 0)


# ------------------------------------------------------------------------------------------- bombs


def test_tags_are_counted_like_elements() -> None:
    # Two bytes and one turn of a loop each: a frame of 100 MB would have 50 million.
    count = ApiVersionsRequest.max_elements + 1
    unknown = _uvarint(count) + b"\x63\x00" * count
    with pytest.raises(DecodeError, match="tags claims"):
        ApiVersionsRequest.decode(b"\x02a\x02b" + unknown, 3)
    fixed = bytes(4 + 4 + 4 + 4 + 1 + 4 + 4) + b"\x01\x01\x01"  # a Fetch v12 up to its tags, of which it knows one
    with pytest.raises(DecodeError, match="tags claims"):
        FetchRequest.decode(fixed + unknown, 12)


def test_tags_are_counted_over_all_structs() -> None:
    # A name of one letter and 1,100 tags, 1,024 times.
    assignment = b"\x02m\x01" + _uvarint(1100) + b"\x63\x00" * 1100
    fixed = b"\x02g" + bytes(4) + b"\x01\x00"  # a SyncGroup v4 up to its assignments
    bomb = fixed + _uvarint(1025) + assignment * 1024 + b"\x00"
    with pytest.raises(DecodeError, match="tags claims 1100"):
        SyncGroupRequest.decode(bomb, 4)


def test_a_frame_of_empty_strings_is_not_unfolded() -> None:
    # One byte each on the wire; a list of them would take eight times the frame.
    count = DescribeGroupsRequest.max_elements + 1
    bomb = _uvarint(count + 1) + b"\x01" * count + b"\x00\x00"
    with memory_below(1_000_000), pytest.raises(DecodeError, match="groups claims"):
        DescribeGroupsRequest.decode(bomb, 5)


def test_elements_are_counted_over_nested_arrays() -> None:
    # 1,024 topics of 1,100 partitions each: no array is long, all together are too many.
    partition = bytes(24)
    topic = b"\x00\x01t" + (1100).to_bytes(4, "big") + partition * 1100
    fixed = bytes(4 + 4 + 4) + bytes(4 + 1) + bytes(8)  # up to the topics of a Fetch v8
    bomb = fixed + (1024).to_bytes(4, "big") + topic * 1024
    with pytest.raises(DecodeError, match="partitions claims"):
        FetchRequest.decode(bomb, 8)


def test_a_million_of_numbers_is_not_unfolded() -> None:
    count = FetchRequest.max_elements + 1
    numbers = bytes(4 * count)
    fixed = bytes(4 + 4 + 4) + bytes(4 + 1) + bytes(8) + bytes(4)
    bomb = fixed + b"\x00\x00\x00\x01\x00\x01t" + count.to_bytes(4, "big") + numbers
    with memory_below(1_000_000), pytest.raises(DecodeError, match="partitions claims"):
        FetchRequest.decode(bomb, 8)


def test_answers_may_be_larger_than_requests() -> None:
    assert FetchResponse.max_elements > FetchRequest.max_elements


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


# --------------------------------------------------------------------------------- version prefixes


def test_version_prefix_of_a_record() -> None:
    for bad in (b"", b"\x00", b"\x00\x07\x00\x01g", b"\xff\xff\x00\x01g"):
        with pytest.raises(DecodeError):
            OffsetCommitKey.parse(bad)
    with pytest.raises(DecodeError, match="no version 5"):
        GroupMetadataValue.parse(b"\x00\x05")


def test_newer_subscriptions_are_read_as_our_newest() -> None:
    newest = ConsumerProtocolSubscription(topics=["t"], rack_id="r", generation_id=4)
    wire = b"\x00\x09" + newest.dump(3)[2:] + b"something new"
    assert ConsumerProtocolSubscription.parse(wire) == newest
    with pytest.raises(DecodeError):
        ConsumerProtocolSubscription.parse(b"\xff\xff" + wire[2:])


def test_member_metadata_is_opaque_bytes() -> None:
    request = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[])
    assert JoinGroupRequest.decode(b"".join(request.encode(0)), 0) == request
