"""What a directory says of itself: whose it is, and whether its broker was stopped in good order.

partition.metadata      the topic id; no newline at the end
meta.properties         a Java properties file: broker.id, cluster.id, version
.kafka_cleanshutdown    JSON; that it is there counts, and Kafka before 3.7 left it empty
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from minikafka.protocol.varint import INT64_MAX, INT64_MIN, Buffer
from minikafka.storage.formats.bad_file import BadFile

_UUID_TEXT_BYTES: Final = 22
_ZERO_UUID: Final = bytes(16)
_partition_metadata = re.compile(rb"version:[ \t]+([0-9]{1,9})\r?\ntopic_id:[ \t]+([^\s]+)\s*")

_NO_EPOCH: Final = -1

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ESCAPES: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", **{each: f"\\{each}" for each in "\\=:#!"}}
_UNESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_entry = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_escaped = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)


def uuid_text(uuid: bytes) -> str:
    """A 16-byte id as Kafka writes it: base64 for URLs, without padding."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()


def parse_uuid(text: str, position: int = 0) -> bytes:
    """The id that stands at a position of a file."""
    try:
        uuid = urlsafe_b64decode(text + "==") if len(text) == _UUID_TEXT_BYTES else b""
    except (Error, ValueError):
        uuid = b""
    # base64 skips characters it does not know and ignores the last four bits: only the one true form is an id.
    if uuid_text(uuid) != text or not uuid:
        raise BadFile(f"{text[:40]!r} is not an id", position)
    return uuid


def encode_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def parse_partition_metadata(data: Buffer) -> bytes:
    """The topic id; later versions are read alike, as in Kafka."""
    found = _partition_metadata.fullmatch(bytes(data))
    if found is None:
        raise BadFile("not a version and a topic id")
    topic_id = parse_uuid(found[2].decode("latin-1"), found.start(2))
    if topic_id == _ZERO_UUID:
        raise BadFile("a topic cannot have the id zero", found.start(2))
    return topic_id


def encode_clean_shutdown(broker_epoch: int = _NO_EPOCH) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def parse_clean_shutdown(data: Buffer) -> int:
    """The epoch of the broker that was stopped, -1 if it is not known."""
    if not data:
        return _NO_EPOCH
    try:
        content = json.loads(bytes(data))
    except (ValueError, RecursionError):
        raise BadFile("not JSON") from None
    epoch = content.get("brokerEpoch", _NO_EPOCH) if isinstance(content, dict) else None
    if type(epoch) is not int or not INT64_MIN <= epoch <= INT64_MAX:
        raise BadFile("no broker epoch")
    return epoch


def encode_properties(properties: Mapping[str, str], now_ms: int) -> bytes:
    """A properties file as Java writes it, in the order of the mapping, with the time in UTC as a comment."""
    lines = ["#", f"#{_java_date(now_ms)}"]
    for key, value in properties.items():
        # Spaces matter everywhere in a key, and at the start of a value.
        bare = value.lstrip(" ")
        spaces = "\\ " * (len(value) - len(bare))
        lines.append(f"{_escape(key).replace(' ', chr(92) + ' ')}={spaces}{_escape(bare)}")
    return "\n".join([*lines, ""]).encode("ascii")


def _java_date(now_ms: int) -> str:
    at = datetime.fromtimestamp(now_ms // 1000, UTC)
    return f"{_DAYS[at.weekday()]} {_MONTHS[at.month - 1]} {at:%d %H:%M:%S} UTC {at.year}"


def _escape(text: str) -> str:
    return "".join(_ESCAPES.get(each) or (each if " " <= each <= "~" else _escape_units(each)) for each in text)


def _escape_units(character: str) -> str:
    # Java counts in UTF-16, where characters beyond 0xFFFF are two.
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))


def parse_properties(data: Buffer) -> dict[str, str]:
    """A Java properties file; of a key that comes twice the last value counts."""
    properties = {}
    for line in _logical_lines(bytes(data).decode("latin-1")):
        key, value = _split(line)
        properties[key] = value
    return properties


def _logical_lines(text: str) -> list[str]:
    """The lines without comments, those that end in a backslash joined with the next."""
    lines: list[str] = []
    pending: str | None = None
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if pending is None and (not line or line[0] in "#!"):
            continue
        pending = (pending or "") + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = pending[:-1]
        else:
            lines.append(pending)
            pending = None
    return [*lines, pending] if pending else lines


def _split(line: str) -> tuple[str, str]:
    """Key and value: the first unescaped `=`, `:` or white space separates them, with white space around it."""
    found = _entry.fullmatch(line)
    assert found is not None, "any line matches"
    return _unescape(found[1]), _unescape(found[2])


def _unescape(text: str) -> str:
    units = _escaped.sub(_unescape_one, text)
    # Pairs of surrogates become the characters that they stand for.
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape_one(found: re.Match[str]) -> str:
    escaped = found[1]
    if escaped[0] != "u":
        return _UNESCAPES.get(escaped, escaped)
    if len(escaped) == 1:
        raise BadFile("\\u without four digits in a properties file")
    return chr(int(escaped[1:], 16))
