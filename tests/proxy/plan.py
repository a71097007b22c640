"""Plans: which frame suffers which fault.

A plan belongs to the clients whose client id begins with its prefix, so several plans can work at the same time behind
one proxy. Frames are numbered by plan, broker, API and direction; what happens to a frame depends on nothing else
than the seed and this number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from random import Random
from typing import Any, NamedTuple, Self


class Fault(StrEnum):
    """What can happen to a frame."""

    HOLD_REQUEST = "hold request"
    """It reaches the broker late, even if the client has closed the connection meanwhile, as from a full socket."""
    DROP_REQUEST = "drop request"
    """It never reaches the broker, nor does what follows it on its connection, which stays open and silent."""
    CUT_REQUEST = "cut request"
    """Its first bytes reach the broker, then both sides are closed."""
    RESET_REQUEST = "reset request"
    """The client's connection is reset, and the request has not reached the broker."""
    HOLD_ANSWER = "hold answer"
    """The client gets it late."""
    DROP_ANSWER = "drop answer"
    """The client never gets it, nor what follows it on its connection. Requests go on reaching the broker."""
    CUT_ANSWER = "cut answer"
    """The client gets its first bytes, then both sides are closed."""
    RESET_ANSWER = "reset answer"
    """The broker has done what was asked for, and the client's connection is reset instead of an answer."""

    @property
    def is_of_requests(self) -> bool:
        return self.endswith("request")


class Rule(NamedTuple):
    """One kind of fault, and which frames suffer it."""

    fault: Fault
    apis: tuple[int, ...]
    rate: float = 0.0
    """The part of the frames, by seed."""
    burst: int = 0
    """How many frames after one that suffers by seed suffer it too, on whatever connection: a broker that stalls."""
    numbers: tuple[int, ...] = ()
    """These frames in any case, counted from 0 for each API and broker."""
    seconds: tuple[float, ...] = (0.0,)
    """How long a frame is held, one of these by seed."""
    position: int | None = None
    """How many bytes arrive of a frame that is cut, its length included; by seed if not given."""

    def to_json(self) -> dict[str, Any]:
        return self._asdict()

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        return cls(**{**fields, **lists, "fault": Fault(fields["fault"])})


class Action(NamedTuple):
    """What is done to one frame."""

    fault: Fault
    seconds: float
    position: int


class Plan:
    """The rules for some clients, and what has happened so far."""

    def __init__(self, prefix: str, seed: int, rules: Sequence[Rule]) -> None:
        self.prefix = prefix
        self.counts: Counter[str] = Counter()
        self.held = 0
        """Frames that are held back now."""
        self._seed = seed
        self._rules = list(rules)
        self._numbers: Counter[tuple[int, int, bool]] = Counter()

    def stop(self) -> None:
        """No more faults. What is held arrives when its time has come."""
        self._rules = []

    def decide(self, broker: int, api: int, size: int, *, is_request: bool) -> Action | None:
        """What happens to the next frame of this kind, of so many bytes."""
        number = self._numbers[broker, api, is_request]
        self._numbers[broker, api, is_request] += 1
        for index, rule in enumerate(self._rules):
            if rule.fault.is_of_requests != is_request or api not in rule.apis:
                continue
            numbers = range(max(number - rule.burst, 0), number + 1)
            stream = f"{self._seed}/{index}/{broker}/{api}"
            if number in rule.numbers or any(Random(f"{stream}/{n}").random() < rule.rate for n in numbers):
                rng = Random(f"{stream}/{number}/how")
                self.counts[rule.fault] += 1
                position = rng.randrange(1, size) if rule.position is None else min(rule.position, size)
                return Action(rule.fault, rng.choice(rule.seconds), position)
        return None
