r"""How `consume` prints a record: by a template such as `%t %o %k: %s\n`, or as one JSON object a line.

A template is cut into pieces once; each piece is text, or a function of the record.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from minikafka.client.cli.parsing import parse_escapes, show_time
from minikafka.client.cli.running import WrongUse
from minikafka.client.consumer import ConsumerRecord

Formatter: TypeAlias = Callable[[ConsumerRecord], bytes]

DEFAULT: Final = r"%s\n"

_NULL: Final = b"NULL"
_PIECES: Final = re.compile(r"%(.)", re.DOTALL)


def _part(data: bytes | None) -> bytes:
    return _NULL if data is None else data


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join(name.encode() + b"=" + _part(value) for name, value in record.headers)


_FIELDS: Final[dict[str, Formatter]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "k": lambda record: _part(record.key),
    "s": lambda record: _part(record.value),
    "h": _headers,
    "T": lambda record: b"%d" % record.timestamp,
    "D": lambda record: show_time(record.timestamp).encode(),
    "K": lambda record: b"%d" % record.serialized_key_size,
    "S": lambda record: b"%d" % record.serialized_value_size,
    "%": lambda record: b"%",
}


def make_formatter(template: str | None, as_json: bool) -> Formatter:
    """What turns records into bytes to print."""
    if as_json:
        if template is not None:
            raise WrongUse("name --json or --format, not both")
        return to_json
    if template is None or template == DEFAULT:
        return lambda record: _part(record.value) + b"\n"
    pieces: list[bytes | Formatter] = []
    # Every second piece is the letter after a per cent sign.
    for number, piece in enumerate(_PIECES.split(template)):
        if number % 2 == 0:
            pieces.append(_unescaped(piece, template))
        elif piece in _FIELDS:
            pieces.append(_FIELDS[piece])
        else:
            raise WrongUse(f"%{piece} in the format {template!r} means nothing; --help lists what does")
    return lambda record: b"".join(piece if isinstance(piece, bytes) else piece(record) for piece in pieces)


def _unescaped(piece: str, template: str) -> bytes:
    if piece.endswith("%"):
        raise WrongUse(f"the format {template!r} ends in the middle of a field; %% is a per cent sign")
    return parse_escapes(piece)


def to_json(record: ConsumerRecord) -> bytes:
    """One object a line; bytes that are no text are in base64, under a name that says so."""
    data: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_text("key", record.key),
        **_text("value", record.value),
        "headers": [{"name": name, **_text("value", value)} for name, value in record.headers],
    }
    return json.dumps(data, ensure_ascii=False).encode() + b"\n"


def _text(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
