"""What people write, and what it means."""

from __future__ import annotations

import click
import pytest

from minikafka.client.cli.parsing import (
    parse_bytes,
    parse_escapes,
    parse_numbers,
    parse_pairs,
    parse_time_ms,
    show_bytes,
    show_time,
)

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("15m", NOW_MS - 900_000),
        ("-2h", NOW_MS - 7_200_000),
        ("1.5s", NOW_MS - 1500),
        ("250ms", NOW_MS - 250),
        ("1600000000", 1_600_000_000_000),
        ("1600000000123", 1_600_000_000_123),
        ("2026-01-31T12:00:00Z", 1_769_860_800_000),
        ("2026-01-31T13:00:00.5+01:00", 1_769_860_800_500),
    ],
)
def test_times(text: str, expected: int) -> None:
    assert parse_time_ms(text, NOW_MS) == expected


def test_times_are_shown_as_they_can_be_written() -> None:
    assert show_time(1_769_860_800_500) == "2026-01-31T12:00:00.500Z"
    assert parse_time_ms(show_time(1_769_860_800_500), NOW_MS) == 1_769_860_800_500
    assert (show_time(-1), show_time(1 << 62)) == ("-", str(1 << 62))


@pytest.mark.parametrize(
    ("text", "expected"), [("500", 500), ("10k", 10_000), ("64Ki", 65_536), ("1.5MB", 1_500_000), ("2gib/s", 1 << 31)]
)
def test_sizes(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    ("size", "shown"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (1 << 41, "2048.0 GiB")]
)
def test_sizes_as_they_are_shown(size: int, shown: str) -> None:
    assert show_bytes(size) == shown


def test_pairs() -> None:
    assert parse_pairs(["a=1", "b=x=y", "a=2", "c="]) == {"a": "2", "b": "x=y", "c": ""}


def test_numbers() -> None:
    assert parse_numbers("3,1,5-7,6", "brokers") == [3, 1, 5, 6, 7]


def test_escapes() -> None:
    assert parse_escapes(r"\t|\x00é\n") == "\t|\0é\n".encode()


@pytest.mark.parametrize("text", ["", "tomorrow", "h", "2026-13-01", "1x"])
def test_no_times(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_time_ms(text, NOW_MS)


@pytest.mark.parametrize("text", ["", "much", "-5", "0", "5 apples", "1e9"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["", ",", "1-", "-1", "3-1", "one"])
def test_no_numbers(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_numbers(text, "brokers")


@pytest.mark.parametrize("text", ["a", "=1", " =1", ""])
def test_no_pairs(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_pairs([text])


@pytest.mark.parametrize("text", [r"\xZZ", r"\u1234", "\\"])
def test_no_escapes(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_escapes(text)
