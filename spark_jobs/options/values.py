"""Options one by one: from text to a value, or a `BadOption` that names the option.

Spark hands options over with lower-case names. Errors spell them as Spark's documentation does, so every option is
asked for by that spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from minikafka.spark_jobs.errors import BadOption

INT64_MAX: Final = (1 << 63) - 1

_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")
_UNITS_MS: Final = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), 0.001),
    **dict.fromkeys(("", "ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


class OptionValues:
    """The options that were given, by their spelling in the documentation."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def names(self) -> set[str]:
        """All that were given, in lower case."""
        return {*self._given}

    def text(self, name: str, default: str | None = None) -> str | None:
        """The text of an option; one that is empty is an error, as it is nearly always a variable that was not set."""
        value = self._given.get(name.lower())
        if value is None:
            return default
        if not value.strip():
            raise BadOption(f"{name} is empty")
        return value.strip()

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Options whose names start so, without it."""
        return {name[len(prefix) :]: value for name, value in self._given.items() if name.startswith(prefix)}

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise BadOption(f"{name} must be true or false, not {text!r}")
        return text.lower() == "true"

    def number(self, name: str, default: int | None = None, *, low: int = 1) -> int | None:
        text = self.text(name)
        if text is None:
            return default
        if not re.fullmatch(r"[+-]?\d{1,19}", text) or not low <= int(text) <= INT64_MAX:
            raise BadOption(f"{name} must be a whole number of {low} or more, not {text!r}")
        return int(text)

    def whole(self, name: str, default: int, *, low: int = 1) -> int:
        number = self.number(name, default, low=low)
        assert number is not None
        return number

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in choices:
            raise BadOption(f"{name} must be one of {', '.join(choices)}, not {text!r}")
        return text.lower()

    def duration_ms(self, name: str, default_ms: int) -> int:
        """`15m`, `30 seconds`, `500ms`; a number alone is in milliseconds."""
        text = self.text(name)
        if text is None:
            return default_ms
        found = _DURATION.fullmatch(text.lower())
        if found is None or found[2] not in _UNITS_MS:
            raise BadOption(f"{name} must be a duration such as 500ms, 30s or 15m, not {text!r}")
        return int(int(found[1]) * _UNITS_MS[found[2]])

    def first_of(self, names: Iterable[str]) -> str | None:
        """Which of several options counts, the most important first."""
        return next((name for name in names if name.lower() in self._given), None)

    def one_of(self, names: Iterable[str]) -> str | None:
        """Which of several options that exclude each other was given."""
        given = [name for name in names if name.lower() in self._given]
        if len(given) > 1:
            raise BadOption(f"only one of {', '.join(given)} can be given")
        return given[0] if given else None
