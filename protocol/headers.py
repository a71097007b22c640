"""What stands before every request and response body.

A request header has version 1 for classic bodies and 2 for flexible ones, a response header 0 and 1.
Two oddities of Kafka:

- the client id is a classic string even in the flexible header;
- ApiVersions is answered with response header 0 always, as the client may not know any better.
"""

import struct
from typing import Final, NamedTuple

from minikafka.protocol.compiler.runtime import skip_tags
from minikafka.protocol.errors import DecodeError

API_VERSIONS_KEY: Final = 18

TAGS_MAX: Final = 1 << 10
"""Kafka defines none in headers; a frame full of them would keep the reader busy for seconds."""

_FIXED: Final = struct.Struct(">hhi")
_FIXED_AND_LENGTH: Final = struct.Struct(">hhih")
_CORRELATION_ID: Final = struct.Struct(">i")
_unpack_fixed: Final = _FIXED.unpack_from
_unpack_length: Final = struct.Struct(">h").unpack_from


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_prefix(frame: bytes | bytearray) -> tuple[int, int, int]:
    """Api key, version and correlation id, which every request header opens with.

    Enough to answer or refuse a request whose version, and so whose header, nobody here knows.
    """
    try:
        prefix: tuple[int, int, int] = _unpack_fixed(frame)
    except struct.error:
        raise DecodeError(f"request of {len(frame)} bytes, its header takes at least {_FIXED.size}") from None
    return prefix


def decode_client_id(frame: bytes | bytearray, flexible: bool) -> tuple[str | None, int]:
    """What follows the prefix: the client id, and the position of the body."""
    try:
        (length,) = _unpack_length(frame, _FIXED.size)
        pos = _FIXED_AND_LENGTH.size
        client_id = None
        if length >= 0:
            client_id = frame[pos : pos + length].decode()
            pos += length
        if flexible:
            pos = skip_tags(frame, pos, TAGS_MAX)[0] if frame[pos] else pos + 1
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise DecodeError(f"request header: {error}") from error
    if pos > len(frame):
        raise DecodeError(f"request header needs {pos} bytes, the frame has {len(frame)}")
    return client_id, pos


def decode_request_header(frame: bytes | bytearray, flexible: bool) -> tuple[RequestHeader, int]:
    """The header and the position of the body; `flexible` is a property of the request's version."""
    key, version, correlation_id = decode_request_prefix(frame)
    client_id, pos = decode_client_id(frame, flexible)
    return RequestHeader(key, version, correlation_id, client_id), pos


def encode_request_header(header: RequestHeader, flexible: bool) -> bytes:
    client_id = b"" if header.client_id is None else header.client_id.encode()
    length = -1 if header.client_id is None else len(client_id)
    fixed = _FIXED_AND_LENGTH.pack(header.api_key, header.api_version, header.correlation_id, length)
    return fixed + client_id + (b"\0" if flexible else b"")


def response_header_is_flexible(api_key: int, flexible: bool) -> bool:
    return flexible and api_key != API_VERSIONS_KEY


def encode_response_header(correlation_id: int, flexible: bool) -> bytes:
    fixed = _CORRELATION_ID.pack(correlation_id)
    return fixed + b"\0" if flexible else fixed


def decode_correlation_id(frame: bytes | bytearray) -> int:
    if len(frame) < _CORRELATION_ID.size:
        raise DecodeError(f"response of {len(frame)} bytes has no correlation id")
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    return int(correlation_id)


def response_body_position(frame: bytes | bytearray, flexible: bool) -> int:
    """Where the body of a response starts, after the correlation id and the header's tags."""
    if not flexible:
        return _CORRELATION_ID.size
    try:
        return skip_tags(frame, _CORRELATION_ID.size, TAGS_MAX)[0]
    except IndexError as error:
        raise DecodeError(f"response header: {error}") from error
