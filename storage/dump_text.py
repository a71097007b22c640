"""Items of a dump as lines: for people, or as JSON for programs.

Records hold whatever bytes their producers chose. For people, text is shown as it is and anything else escaped, so that
nothing in a record can play tricks on a terminal. In JSON a key or value that is not UTF-8 becomes `key_base64` or
`value_base64`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from minikafka.storage.dump import Item

_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def as_json(item: Item) -> str:
    """One line."""
    return json.dumps(_textual(item), ensure_ascii=True)


def _textual(value: Any) -> Any:
    """The same without bytes, of which JSON knows nothing."""
    if isinstance(value, dict):
        fields: dict[str, Any] = {}
        for name, each in value.items():
            text = _decoded(each) if isinstance(each, bytes) else _textual(each)
            if text is None and isinstance(each, bytes):
                fields[f"{name}_base64"] = b64encode(each).decode()
            else:
                fields[name] = text
        return fields
    if isinstance(value, list):
        return [_textual(each) for each in value]
    if isinstance(value, tuple):
        key, data = value
        return _textual({"key": key.encode("utf-8", "surrogateescape"), "value": data})
    return value


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def as_text(item: Item) -> str:
    """One line for a person; what belongs to a file or batch stands indented below it."""
    kind = item["item"]
    return _TEXT_OF[kind](item) if kind in _TEXT_OF else f"  {kind}: {_pairs(item)}"


def _pairs(item: Item) -> str:
    return ", ".join(f"{name} {value}" for name, value in item.items() if name != "item")


def _file(item: Item) -> str:
    return f"{item['path']}: {item['size']} bytes"


def _problem(item: Item) -> str:
    return f"  BAD at byte {item['position']}: {item['reason']}"


def _batch(item: Item) -> str:
    parts = [
        f"  @{item['position']} offsets {item['base_offset']}-{item['last_offset']}",
        f"{item['records']} record{'' if item['records'] == 1 else 's'} in {item['size']} bytes {item['codec']}",
        f"leader epoch {item['leader_epoch']}",
        *_producer(item),
        *_times(item),
        f"crc {item['crc']:08x} {'ok' if item['crc_ok'] else 'WRONG'}",
    ]
    return ", ".join(parts)


def _producer(item: Item) -> list[str]:
    if item["producer_id"] < 0:
        return []
    parts = [f"producer {item['producer_id']} epoch {item['producer_epoch']}"]
    if item["base_sequence"] >= 0:
        parts.append(f"sequence {item['base_sequence']}-{item['last_sequence']}")
    if item["is_transactional"]:
        parts.append("transactional")
    if "marker" in item:
        parts.append(f"{item['marker']} marker of coordinator epoch {item['coordinator_epoch']}")
    elif item["is_control"]:
        parts.append("control")
    return parts


def _times(item: Item) -> list[str]:
    parts = [f"{item['timestamp_type'].replace('_', ' ')} {shown_time(item['max_timestamp'])}"]
    if item["delete_horizon_ms"] is not None:
        parts.append(f"delete horizon {shown_time(item['delete_horizon_ms'])}")
    return parts


def _record(item: Item) -> str:
    headers = "".join(f" {_shown_header(key)}={shown(value)}" for key, value in item["headers"])
    time = shown_time(item["timestamp"])
    return f"    {item['offset']} {time} key {shown(item['key'])} value {shown(item['value'])}{headers}"


def _shown_header(key: str) -> str:
    return shown(key.encode("utf-8", "surrogateescape"))


def _time_entry(item: Item) -> str:
    return f"  time index entry: {shown_time(item['timestamp'])} ({item['timestamp']}), offset {item['offset']}"


def _offset(item: Item) -> str:
    return f"  {item['topic']}-{item['partition']}: {item['offset']}"


_TEXT_OF: Final[dict[str, Callable[[Item], str]]] = {
    "file": _file,
    "problem": _problem,
    "batch": _batch,
    "record": _record,
    "time index entry": _time_entry,
    "offset": _offset,
}


def shown(value: Any) -> str:
    """Bytes in quotes as far as they are text, fields of an internal topic by name."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return '"' + "".join(map(_shown_character, value.decode("utf-8", "surrogateescape"))) + '"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {shown(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    return shown(value.encode()) if isinstance(value, str) else str(value)


def _shown_character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    # Bytes that are not UTF-8 are 0xDC80 to 0xDCFF here.
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\U{code:08x}"


def shown_time(timestamp_ms: int) -> str:
    """The time in UTC, or the plain number where no calendar reaches."""
    if timestamp_ms < 0:
        return "no time" if timestamp_ms == -1 else str(timestamp_ms)
    try:
        at = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"
