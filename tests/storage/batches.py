"""Record batches put together by hand, so that any field of them can be wrong.

Independent of the encoder under `protocol/records`: the layout is written down here once more.
"""

import gzip
import struct
from collections.abc import Sequence
from typing import Any

from crc32c import crc32c

from minikafka.protocol.records.batch import BatchView

NOW_MS = 1_750_000_000_000

Pair = tuple[bytes | None, bytes | None]


def varint(number: int) -> bytes:
    raw = (number << 1) ^ (number >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def make_record(pair: Pair, offset_delta: int, timestamp_delta: int = 0, attributes: int = 0) -> bytes:
    body = bytes([attributes]) + varint(timestamp_delta) + varint(offset_delta) + sized(pair[0]) + sized(pair[1])
    body += varint(0)
    return varint(len(body)) + body


def make_batch(
    records: Sequence[Pair] | int = 1,
    *,
    timestamps: Sequence[int] = (),
    offset_deltas: Sequence[int] = (),
    record_attributes: int = 0,
    payload: bytes | None = None,
    crc_xor: int = 0,
    **fields: Any,
) -> bytearray:
    """A batch; `fields` are those of the header. A number of records stands for as many without key."""
    pairs = [(None, b"value")] * records if isinstance(records, int) else records
    stamps = timestamps or [NOW_MS] * len(pairs) or [NOW_MS]
    deltas = offset_deltas or range(len(pairs))
    if payload is None:
        rows = zip(pairs, deltas, stamps, strict=False)
        payload = b"".join(make_record(pair, at, ms - stamps[0], record_attributes) for pair, at, ms in rows)
    checked = struct.pack(
        ">hiqqqhii",
        fields.pop("attributes", 0),
        fields.pop("last_offset_delta", len(pairs) - 1),
        fields.pop("base_timestamp", stamps[0]),
        fields.pop("max_timestamp", max(stamps)),
        fields.pop("producer_id", -1),
        fields.pop("producer_epoch", -1),
        fields.pop("base_sequence", -1),
        fields.pop("record_count", len(pairs)),
    )
    checked += payload
    head = struct.pack(
        ">qiibI",
        fields.pop("base_offset", 0),
        fields.pop("length", len(checked) + 9),
        fields.pop("leader_epoch", -1),
        fields.pop("magic", 2),
        crc32c(checked) ^ crc_xor,
    )
    assert not fields, fields
    return bytearray(head + checked)


def view(*args: Any, **fields: Any) -> BatchView:
    return BatchView(make_batch(*args, **fields))


def described(what: dict[str, Any]) -> bytearray:
    """A batch from its description in the recordings of a real Kafka."""
    what = dict(what)
    pairs = [_pair(each) for each in what.pop("records")]
    stamp = what.pop("timestamp", "now")
    if stamp != "now":
        what["timestamps"] = [stamp] * max(1, len(pairs))
    if "record_count_field" in what:
        what["record_count"] = what.pop("record_count_field")
    if isinstance(what.get("attributes"), str):
        what["attributes"] = int(what["attributes"].split()[0])
    elif what.get("attributes") == 1:
        plain = make_batch(pairs, offset_deltas=what.get("offset_deltas", ()))
        what["payload"] = gzip.compress(bytes(plain[61:]))
    if "length_field" in what:
        what["length"] = what.pop("length_field")
    add, cut = what.pop("length_field_add", 0), what.pop("bytes_cut_from_the_end", 0)
    data = make_batch(pairs, **what)
    if add:
        data[8:12] = (len(data) - 12 + add).to_bytes(4, "big")
    return data[: len(data) - cut]


def _pair(value: Any) -> Pair:
    key, text = value if isinstance(value, list) else (None, value)
    return (None if key is None else key.encode(), None if text is None else text.encode())
