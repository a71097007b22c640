"""The levels of this process' loggers, by the names that Kafka has for levels: what admin tools show and change.

A logger without a level of its own has that of the next one above it; the root of all always has one.
"""

from __future__ import annotations

import logging
from typing import Final

from minikafka.broker.config.alter import Change, Op
from minikafka.broker.config.errors import quoted
from minikafka.protocol.errors import InvalidConfigError, InvalidRequestError

ROOT: Final = "root"

_TRACE: Final = 5
_LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": _TRACE,
}


def levels() -> dict[str, str]:
    """The level of every logger."""
    named = logging.Logger.manager.loggerDict.items()
    loggers = {name: each for name, each in named if isinstance(each, logging.Logger)}
    return {name: _name_of(each.getEffectiveLevel()) for name, each in {ROOT: logging.root, **loggers}.items()}


def check_changes(changes: list[Change]) -> None:
    """Raise the error that Kafka gives if any of these cannot be made."""
    if len({each.name for each in changes}) < len(changes):
        raise InvalidRequestError("a logger is there twice")
    known = levels()
    for each in changes:
        if each.op not in (Op.SET, Op.DELETE):
            raise InvalidRequestError(f"{quoted(each.name)}: a level can be set and deleted, nothing else")
        if each.op == Op.SET and each.value is None:
            raise InvalidRequestError(f"{quoted(each.name)}: without a level")
        if each.op == Op.DELETE and each.name == ROOT:
            raise InvalidRequestError("the root of all loggers needs a level")
        if each.name not in known:
            raise InvalidConfigError(f"there is no logger {quoted(each.name)}")
        if each.op == Op.SET and each.value not in _LEVELS:
            raise InvalidConfigError(f"{quoted(each.name)}: the level has to be one of {', '.join(_LEVELS)}")


def make_changes(changes: list[Change]) -> None:
    """Take over levels that have been checked."""
    for each in changes:
        level = logging.NOTSET if each.op == Op.DELETE else _LEVELS[each.value or ""]
        logging.getLogger(None if each.name == ROOT else each.name).setLevel(level)


def _name_of(level: int) -> str:
    """Kafka's name for a level; levels in between count as the more verbose one."""
    return next((name for name, value in _LEVELS.items() if level >= value), "TRACE")
