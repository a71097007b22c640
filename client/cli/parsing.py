"""What people write on a command line: times, sizes, `key=value`, lists of numbers. What is wrong is a BadParameter."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import click

_UNITS_S: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_AGO: Final = re.compile(r"-?(\d+(?:\.\d+)?)(ms|[smhdw])")

_MULTIPLES: Final = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?b?(?:/s)?", re.IGNORECASE)

_SECONDS_MAX: Final = 100_000_000_000
"""Numbers below are seconds since 1970, until the year 5138; from here on milliseconds, since March 1973."""


def parse_time_ms(text: str, now_ms: int) -> int:
    """A point in time: `2026-01-31T12:00`, `2026-01-31`, seconds or milliseconds since 1970, or `15m` for that ago."""
    wanted = text.strip()
    ago = _AGO.fullmatch(wanted)
    if ago is not None:
        return now_ms - round(float(ago[1]) * _UNITS_S[ago[2]] * 1000)
    if wanted.isascii() and wanted.isdigit():
        number = int(wanted)
        return number if number >= _SECONDS_MAX else number * 1000
    try:
        moment = datetime.fromisoformat(wanted)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no time: write 2026-01-31T12:00:00Z, seconds since 1970, or 15m for that long ago"
        ) from None
    # Without a zone it is the time on the wall.
    return round(moment.timestamp() * 1000)


def show_time(timestamp_ms: int) -> str:
    """A point in time as it is shown: UTC, to the millisecond."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_bytes(text: str) -> int:
    """A size or a rate: 500000, 10k, 64Ki, 50MB/s."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or round(float(found[1]) * _MULTIPLES[(found[2] or "").lower()]) < 1:
        raise click.BadParameter(f"{text!r} is no size: write 500000, 500k or 64Ki")
    return round(float(found[1]) * _MULTIPLES[(found[2] or "").lower()])


def show_bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("the last unit takes all")


def parse_pairs(texts: Iterable[str], what: str = "KEY=VALUE") -> dict[str, str]:
    """Several `key=value`; the last of a key counts."""
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{text!r} is not of the form {what}")
        pairs[key.strip()] = value
    return pairs


def parse_escapes(text: str) -> bytes:
    r"""Text with `\t`, `\n`, `\xFF` and the like as the bytes that it means."""
    try:
        # Bytes of UTF-8 pass through the decoder as characters of Latin-1, and come out as they were.
        return text.encode().decode("unicode_escape").encode("latin-1")
    except ValueError:
        raise click.BadParameter(f"{text!r} has an escape that means nothing here") from None


def parse_numbers(text: str, what: str) -> list[int]:
    """Numbers such as `1,2,5-7`, in this order and each once."""
    found: list[int] = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        low, dash, high = part.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or (dash and int(high) < int(low)):
            raise click.BadParameter(f"{text!r} is no list of {what}: write 1,2,5-7")
        found += range(int(low), int(high if dash else low) + 1)
    if not found:
        raise click.BadParameter(f"no {what} are named")
    return [*dict.fromkeys(found)]


def as_bytes(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """The callback of an option that is a size or a rate."""
    return None if value is None else parse_bytes(value)


def as_brokers(ctx: click.Context, param: click.Parameter, value: str | None) -> list[int] | None:
    """The callback of an option that names brokers."""
    return None if value is None else parse_numbers(value, "brokers")


def as_partitions(ctx: click.Context, param: click.Parameter, value: str | None) -> list[int] | None:
    """The callback of an option that names partitions."""
    return None if value is None else parse_numbers(value, "partitions")


def as_time_ms(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """The callback of an option that is a point in time."""
    return None if value is None else parse_time_ms(value, time.time_ns() // 1_000_000)
