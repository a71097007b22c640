"""Quotas as configs: whose, which, and the numbers."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.broker.quota_configs import Names, checked_names, entity_of, quota_text, quota_values
from minikafka.protocol.errors import InvalidRequestError

USER: Names = {"user": "u"}
IP: Names = {"ip": "1.2.3.4"}


# All of these as Kafka 3.9.1 stored them.
@pytest.mark.parametrize(
    ("names", "key", "value", "text"),
    [
        (USER, "producer_byte_rate", 1000.0, "1000"),
        (USER, "producer_byte_rate", 1000.0000000001, "1000"),
        (USER, "consumer_byte_rate", 0.0, "0"),
        (USER, "request_percentage", 12.25, "12.25"),
        (USER, "request_percentage", 1e-9, "1.0E-9"),
        (USER, "controller_mutation_rate", 2.0, "2.0"),
        (IP, "connection_creation_rate", 10.0, "10"),
    ],
)
def test_a_number_as_kafka_stores_it(names: Names, key: str, value: float, text: str) -> None:
    assert quota_text(names, key, value) == text
    assert quota_values({key: text})[key] == pytest.approx(value)


@pytest.mark.parametrize(
    ("names", "key", "value"),
    [
        (USER, "no_such_quota", 1.0),
        (USER, "SCRAM-SHA-256", 1.0),
        (USER, "connection_creation_rate", 1.0),
        (IP, "producer_byte_rate", 1.0),
        (USER, "producer_byte_rate", -5.0),
        (USER, "producer_byte_rate", 1.5),
        (USER, "producer_byte_rate", 1e19),
        (USER, "producer_byte_rate", inf),
        (USER, "producer_byte_rate", nan),
        (USER, "request_percentage", nan),
        (IP, "connection_creation_rate", 10.5),
        (IP, "connection_creation_rate", 3e9),
    ],
)
def test_what_is_no_quota(names: Names, key: str, value: float) -> None:
    with pytest.raises(InvalidRequestError):
        quota_text(names, key, value)


@given(st.floats(allow_nan=True), st.sampled_from(["producer_byte_rate", "request_percentage"]))
def test_every_number_is_stored_or_refused(value: float, key: str) -> None:
    try:
        text = quota_text(USER, key, value)
    except InvalidRequestError:
        return
    assert quota_values({key: text})[key] == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(
    ("named", "path"),
    [
        ([("user", "u")], "users/u"),
        ([("user", None)], "users/<default>"),
        ([("client-id", "c"), ("user", "u")], "users/u/clients/c"),
        ([("user", None), ("client-id", None)], "users/<default>/clients/<default>"),
        ([("client-id", "<default>")], "clients/%3Cdefault%3E"),
        ([("ip", "1.2.3.4")], "ips/1.2.3.4"),
        ([("ip", "::1")], "ips/%3A%3A1"),
        ([("ip", None)], "ips/<default>"),
    ],
)
def test_where_it_is_stored(named: list[tuple[str, str | None]], path: str) -> None:
    assert entity_of(checked_names(named)).path == path


@pytest.mark.parametrize(
    "named",
    [
        [],
        [("planet", "mars")],
        [("user", "")],
        [("user", "..")],
        [("client-id", ".")],
        [("user", "a"), ("user", "b")],
        [("user", "a"), ("ip", "1.2.3.4")],
        [("ip", "nowhere at all")],
    ],
)
def test_whose_a_quota_cannot_be(named: list[tuple[str, str | None]]) -> None:
    with pytest.raises(InvalidRequestError):
        checked_names(named)


def test_what_is_beside_quotas_is_passed_over() -> None:
    texts = {"SCRAM-SHA-256": "1", "SCRAM-SHA-512": "2", "producer_byte_rate": "x", "other": "3", "more": "Infinity"}
    assert quota_values(texts) == {"other": 3.0}
