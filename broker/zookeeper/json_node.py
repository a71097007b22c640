"""Nodes as JSON objects, to the byte as Kafka writes them, and one error for whatever cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from minikafka.broker.zookeeper.coord import CoordError

_T = TypeVar("_T")


class BadNode(CoordError):
    """A node holds what nobody should have written there."""


def encode_fields(fields: Mapping[str, object]) -> bytes:
    """Fields in the order in which they come, without blanks."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def decode_fields(path: str, data: bytes, make: Callable[[dict[str, Any]], _T], *, secret: bool = False) -> _T:
    """What is made of a JSON object; whatever is wrong with it is one error, which tells no secrets."""
    try:
        return make(dict(json.loads(data)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = f"{data[:200]!r}, which makes no sense: {error!r}"
        raise BadNode(f"{path} holds {'something that makes no sense' if secret else why}") from None
