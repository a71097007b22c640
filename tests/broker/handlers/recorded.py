"""Recorded cases, asked of one broker: the requests, and the answers without what differs from run to run."""

from __future__ import annotations

from typing import Any

from minikafka.protocol.apis import api_named
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.message import Request
from minikafka.protocol.schema import Struct
from tests.broker.handlers.station import Station
from tests.protocol.recordings import cases, from_kafka, snake

_LEFT_OUT = {"throttle_time_ms", "error_message"}

BROKERS = {"<that broker>": "1", "<another broker>": "2"}


def names_of(*beginnings: str) -> list[str]:
    found = [name for name in cases() if name.startswith(beginnings)]
    assert found
    return found


def filled_in(value: Any) -> Any:
    """A recorded body with broker 1 as the one that is asked."""
    if isinstance(value, list):
        return [filled_in(each) for each in value]
    if isinstance(value, dict):
        return {key: filled_in(each) for key, each in value.items()}
    return BROKERS.get(value, value) if isinstance(value, str) else value


def request_of(step: dict[str, Any]) -> tuple[Request, int]:
    asked = step["request"]
    kind = api_named(asked["api"]).request
    assert issubclass(kind, Request)
    request = from_kafka(kind, filled_in(asked["body"]))
    assert isinstance(request, Request)
    return request, asked["version"]


def shown(struct: Struct, version: int) -> dict[str, Any]:
    """An answer in the notation of the recordings."""
    fields = [each for each in type(struct).fields if each.exists(version) and each.name not in _LEFT_OUT]
    return {each.name: _shown(each.name, getattr(struct, each.name), version) for each in fields}


def _shown(name: str, value: Any, version: int) -> Any:
    if isinstance(value, list):
        return [_shown(name, each, version) for each in value]
    if isinstance(value, Struct):
        return shown(value, version)
    if isinstance(value, bytes):
        return value.decode()
    return ErrorCode(value).name if name.endswith("error_code") else value


def agrees(told: Any, seen: Any) -> bool:
    """Whether an answer is as recorded: placeholders stand for anything, structures come in any order."""
    if isinstance(told, dict):
        fields = {snake(key): value for key, value in told.items()}
        return (
            isinstance(seen, dict)
            and fields.keys() == seen.keys()
            and all(agrees(fields[key], seen[key]) for key in fields)
        )
    if isinstance(told, list):
        if not isinstance(seen, list) or len(told) != len(seen):
            return False
        left = list(seen)
        for each in told:
            found = next((at for at, other in enumerate(left) if agrees(each, other)), None)
            if found is None:
                return False
            left.pop(found)
        return True
    if isinstance(told, str) and told.startswith("<"):
        return bool(BROKERS.get(told, seen) == seen)
    return bool(told == seen)


async def play(station: Station, step: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Ask what a step asks: the answer, and how the recordings would show it."""
    request, version = request_of(step)
    answer = await station.ask(request, version)
    return answer, shown(answer, version)
