"""What is wrong with the configuration, in one line that says where, and how values are shown in such lines."""

from typing import Final

_SHOWN_MAX: Final = 100


class ConfigError(Exception):
    """The configuration cannot be used; the text is one line for whoever wrote it."""


class BadValue(ValueError):
    """A text is no value of its key; the message says what would be, and never repeats the text."""


def quoted(text: str) -> str:
    """A text on one line, of bearable length."""
    return repr(text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "...")


def assignment(name: str, text: str | None, secret: bool) -> str:
    """`name='text'` for a message, without the text if it is nobody's business."""
    if text is None:
        return f"{name} is not set"
    return name if secret else f"{name}={quoted(text)}"
