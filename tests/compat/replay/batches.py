"""Record batches of magic 2 from their recorded description, and back.

Written by hand, since most of these batches have a defect that no proper builder would make.
"""

import gzip
import re
import struct
import time
from typing import Any, Final

from crc32c import crc32c

from minikafka.protocol.records import BatchView, iter_records, read_marker, read_whole_batches
from minikafka.protocol.varint import Buffer

_HEADER: Final = struct.Struct(">qiibI")
_COVERED: Final = struct.Struct(">hiqqqhii")
_LENGTH_AT: Final = 8
_GZIP: Final = 1
_LONG_VALUE: Final = re.compile(r"(\d+) bytes")
_LONG_VALUE_BYTES_MIN: Final = 200


def build_batch(told: dict[str, Any]) -> bytes:
    """A batch as described; what the description leaves out is right and usual."""
    records = [record if isinstance(record, list) else [None, record] for record in told["records"]]
    base_timestamp = now_ms() if told.get("timestamp", "now") == "now" else told["timestamp"]
    timestamp_deltas = [told.get("timestamp_step_ms", 0) * i for i in range(len(records))]
    attributes, payload = _payload(told, records, timestamp_deltas)
    covered = payload_header(told, attributes, len(records), base_timestamp, timestamp_deltas) + payload
    crc = crc32c(covered) ^ told.get("crc_xor", 0)
    length = _HEADER.size - _LENGTH_AT - 4 + len(covered)
    length = told.get("length_field", length + told.get("length_field_add", 0))
    batch = _HEADER.pack(0, length, told.get("leader_epoch", -1), 2, crc) + covered
    return batch[: len(batch) - told.get("bytes_cut_from_the_end", 0)]


def payload_header(told: dict[str, Any], attributes: int, count: int, base: int, deltas: list[int]) -> bytes:
    return _COVERED.pack(
        attributes,
        told.get("last_offset_delta", count - 1),
        base,
        base + max(deltas, default=0),
        told.get("producer_id", -1),
        told.get("producer_epoch", -1),
        told.get("base_sequence", -1),
        told.get("record_count_field", count),
    )


def _payload(told: dict[str, Any], records: list[Any], timestamp_deltas: list[int]) -> tuple[int, bytes]:
    offset_deltas = told.get("offset_deltas", range(len(records)))
    rows = zip(timestamp_deltas, offset_deltas, records, strict=True)
    plain = b"".join(_record(told.get("record_attributes", 0), *row) for row in rows)
    attributes = told.get("attributes", 0)
    if isinstance(attributes, str):  # "1 (gzip), but the body is not compressed"
        return int(attributes.split()[0]), plain
    return attributes, gzip.compress(plain) if attributes == _GZIP else plain


def _record(attributes: int, timestamp_delta: int, offset_delta: int, record: list[str | None]) -> bytes:
    body = bytes([attributes]) + _varint(timestamp_delta) + _varint(offset_delta)
    for part in record:
        data = None if part is None else _value(part)
        body += _varint(-1) if data is None else _varint(len(data)) + data
    body += _varint(0)
    return _varint(len(body)) + body


def _value(told: str) -> bytes:
    long = _LONG_VALUE.fullmatch(told)
    return b"x" * int(long[1]) if long else told.encode()


def _varint(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def now_ms() -> int:
    return int(time.time() * 1000)


def shown_batches(records: Buffer) -> list[dict[str, Any]]:
    """The batches of an answer in the recorded notation."""
    return [_shown(batch) for batch in read_whole_batches(records)[0]]


def _shown(batch: BatchView) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "base_offset": batch.base_offset,
        "last_offset_delta": batch.last_offset_delta,
        "attributes": batch.attributes,
        "base_timestamp": batch.base_timestamp,
        "max_timestamp": batch.max_timestamp,
        "partition_leader_epoch": batch.leader_epoch,
    }
    if batch.producer_id >= 0:
        shown |= {
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
        }
    marker = read_marker(batch) if batch.is_control else None
    if marker is not None:
        return shown | {"records": [[batch.base_offset, f"marker {marker.type.name}"]]}
    return shown | {"records": [[r.offset, _text(r.key), _text(r.value)] for r in iter_records(batch)]}


def _text(data: Buffer | None) -> str | None:
    if data is None:
        return None
    if len(data) >= _LONG_VALUE_BYTES_MIN:
        return f"{len(data)} bytes"
    return bytes(data).decode()
