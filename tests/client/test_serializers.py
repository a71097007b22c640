"""Values to bytes and back."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.client.errors import ConfigError, SerializationFailed
from minikafka.client.serializers import deserialize, find_deserializer, find_serializer, serialize


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("bytes", b"x", b"x"),
        ("str", "zwölf", "zwölf".encode()),
        ("json", {"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}'.encode()),
        ("msgpack", {"a": [1, None, b"x"]}, b"\x81\xa1a\x93\x01\xc0\xc4\x01x"),
        (None, b"x", b"x"),
    ],
)
def test_there_and_back(name: str | None, value: Any, data: bytes) -> None:
    assert serialize(find_serializer(name), value) == data
    assert deserialize(find_deserializer(name), data) == value


def test_without_a_serializer_bytes_and_text_will_do() -> None:
    assert [serialize(None, value) for value in (b"a", "b", bytearray(b"c"), memoryview(b"d"))] == [
        b"a",
        b"b",
        b"c",
        b"d",
    ]
    with pytest.raises(SerializationFailed, match="int is neither bytes nor text"):
        serialize(None, 5)


def test_null_stays_null() -> None:
    assert serialize(find_serializer("json"), None) is None
    assert deserialize(find_deserializer("json"), None) is None


def test_any_callable_and_what_it_raises() -> None:
    assert serialize(lambda value: bytearray(value), b"ab") == b"ab"  # type: ignore[arg-type, return-value]
    assert serialize(lambda _: None, b"ab") is None
    with pytest.raises(SerializationFailed, match="list was refused by the serializer"):
        serialize(find_serializer("json"), [object()])
    with pytest.raises(SerializationFailed, match="3 bytes were refused by the deserializer"):
        deserialize(find_deserializer("json"), b"{x}")


def test_a_name_that_is_not_known() -> None:
    with pytest.raises(ConfigError, match="'xml' is no deserializer"):
        find_deserializer("xml")
