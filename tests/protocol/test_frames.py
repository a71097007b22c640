"""Frames and headers: bytes in any portions in, whole requests out."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.errors import DecodeError
from minikafka.protocol.frame import FrameReader, finish_frame, start_frame, total_bytes
from minikafka.protocol.headers import (
    RequestHeader,
    decode_correlation_id,
    decode_request_header,
    decode_request_prefix,
    encode_request_header,
    encode_response_header,
    response_body_position,
    response_header_is_flexible,
)

LIMIT = 1 << 20


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def read_in_pieces(reader: FrameReader, data: bytes, sizes: list[int]) -> list[bytes]:
    """Feed as a BufferedProtocol does: the transport fills what `get_buffer` gives, or less."""
    frames: list[bytes] = []
    pos, turn = 0, 0
    while pos < len(data):
        buffer = reader.get_buffer()
        count = min(len(buffer), sizes[turn % len(sizes)], len(data) - pos)
        buffer[:count] = data[pos : pos + count]
        del buffer  # as a transport lets go of it
        frames += map(bytes, reader.buffer_updated(count))
        pos, turn = pos + count, turn + 1
    return frames


@given(st.lists(st.binary(max_size=400), max_size=6), st.lists(st.integers(1, 300), min_size=1, max_size=8))
def test_frames_come_out_whole_however_they_arrive(bodies: list[bytes], sizes: list[int]) -> None:
    scratch = bytearray(64)
    assert read_in_pieces(FrameReader(LIMIT, scratch), framed(*bodies), sizes) == bodies


def test_byte_by_byte() -> None:
    reader = FrameReader(LIMIT)
    bodies = [b"", b"a", bytes(range(256)) * 3, b"z" * 5]
    seen = [frame for byte in framed(*bodies) for frame in reader.receive_data(bytes([byte]))]
    assert seen == bodies
    assert reader.is_between_frames


def test_many_frames_at_once_and_a_rest() -> None:
    reader = FrameReader(LIMIT)
    assert reader.receive_data(framed(b"one", b"two") + b"\x00\x00\x00\x05thr") == [b"one", b"two"]
    assert not reader.is_between_frames
    assert reader.receive_data(b"ee") == [b"three"]


def test_large_frames_are_read_into_their_own_buffer() -> None:
    reader = FrameReader(1 << 24)
    body = random.Random(1).randbytes(3_000_000)
    assert read_in_pieces(reader, framed(body, b"next"), [70_001, 13, 1_000_000]) == [body, b"next"]


def test_memory_follows_the_bytes_that_came_not_the_size_announced() -> None:
    reader = FrameReader(100 << 20)
    reader.receive_data((100 << 20).to_bytes(4, "big") + b"x" * 10)
    assert len(reader.get_buffer()) < 100_000


def test_readers_may_share_their_scratch() -> None:
    scratch = bytearray(16)
    one, two = FrameReader(LIMIT, scratch), FrameReader(LIMIT, scratch)
    assert one.receive_data(b"\x00\x00\x00\x04ab") == []
    assert two.receive_data(framed(b"other")) == [b"other"]
    assert one.receive_data(b"cd") == [b"abcd"]


@pytest.mark.parametrize("size", [-1, -(1 << 31), LIMIT + 1, (1 << 31) - 1])
def test_sizes_out_of_bounds(size: int) -> None:
    with pytest.raises(DecodeError, match="frame of"):
        FrameReader(LIMIT).receive_data(size.to_bytes(4, "big", signed=True))


def test_the_largest_frame_is_accepted() -> None:
    assert FrameReader(10).receive_data(framed(b"0123456789")) == [b"0123456789"]


def test_finishing_a_frame_counts_all_its_parts() -> None:
    parts = finish_frame([start_frame(b"head"), b"x" * 300, memoryview(b"tail")])
    assert total_bytes(parts) == 4 + 4 + 300 + 4
    assert FrameReader(LIMIT).receive_data(b"".join(parts)) == [b"head" + b"x" * 300 + b"tail"]


# ----------------------------------------------------------------------------------------- headers

HEADERS = [
    RequestHeader(3, 12, 7, "some-client"),
    RequestHeader(18, 0, -7, None),
    RequestHeader(0, 9, (1 << 31) - 1, ""),
    RequestHeader(1, 4, 0, "\u00fc" * 1000),
]


@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("header", HEADERS)
def test_request_headers(header: RequestHeader, flexible: bool) -> None:
    wire = encode_request_header(header, flexible)
    assert decode_request_header(wire + b"body", flexible) == (header, len(wire))
    assert decode_request_prefix(wire) == header[:3]
    for length in range(len(wire)):
        with pytest.raises(DecodeError):
            decode_request_header(wire[:length], flexible)


def test_request_header_tags_are_skipped() -> None:
    wire = encode_request_header(HEADERS[0], flexible=False) + b"\x02\x00\x01x\x09\x00" + b"body"
    assert decode_request_header(wire, flexible=True) == (HEADERS[0], len(wire) - 4)


def test_a_header_may_not_be_full_of_tags() -> None:
    tags = b"\xff\xff\x03" + b"\x63\x00" * 0xFFFF
    with pytest.raises(DecodeError, match="tags"):
        decode_request_header(encode_request_header(HEADERS[0], flexible=False) + tags, flexible=True)
    with pytest.raises(DecodeError, match="tags"):
        response_body_position(b"\x00\x00\x00\x05" + tags, flexible=True)


def test_client_id_beyond_the_frame_or_not_text() -> None:
    for tail in (b"\x03\xe8ab", b"\x00\x02\xc3\x28"):
        with pytest.raises(DecodeError):
            decode_request_header(bytes(8) + tail, flexible=False)


def test_a_prefix_takes_eight_bytes() -> None:
    with pytest.raises(DecodeError):
        decode_request_prefix(bytes(7))


def test_response_headers() -> None:
    assert encode_response_header(5, flexible=False) == b"\x00\x00\x00\x05"
    assert encode_response_header(5, flexible=True) == b"\x00\x00\x00\x05\x00"
    assert decode_correlation_id(b"\xff\xff\xff\xf9") == -7
    assert response_body_position(b"\x00\x00\x00\x05body", flexible=False) == 4
    assert response_body_position(b"\x00\x00\x00\x05\x01\x63\x02xxbody", flexible=True) == 9
    for short in (b"\x00\x00\x00", b""):
        with pytest.raises(DecodeError):
            decode_correlation_id(short)
    with pytest.raises(DecodeError):
        response_body_position(b"\x00\x00\x00\x05", flexible=True)


def test_api_versions_is_answered_with_the_oldest_header() -> None:
    assert not response_header_is_flexible(18, flexible=True)
    assert response_header_is_flexible(3, flexible=True)
    assert not response_header_is_flexible(3, flexible=False)
