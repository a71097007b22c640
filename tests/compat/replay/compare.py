"""What was recorded against what was seen.

Placeholders are not compared beyond being of their kind; equal numbered ones stand for equal values, different ones
for different values. Lists of structures are in any order, except records.
"""

import re
import time
from collections.abc import Callable
from typing import Any, Final

from tests.compat.replay.cluster import Cluster

_NUMBERED: Final = re.compile(r"<(\D+) \d+>")
_IN_ORDER: Final = {"records"}
_CLOCK_TOLERANCE_MS: Final = 600_000

Bound = dict[str, Any]


def _is_time(value: Any) -> bool:
    return isinstance(value, int) and abs(value - time.time() * 1000) < _CLOCK_TOLERANCE_MS


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_anything(value: Any) -> bool:
    return True


_KINDS: Final[dict[str, Callable[[Any], bool]]] = {
    "<time>": _is_time,
    "<bytes>": _is_count,
    "<log dir>": _is_text,
    "<text>": _is_text,
    "<cluster id>": _is_text,
    "<any>": _is_anything,
    "<value>": _is_anything,
    "<epoch>": lambda value: _is_count(value) and value > 0,
    "topic id": _is_text,
    "member": _is_text,
    "producer id": _is_count,
    "session": lambda value: _is_count(value) and value > 0,
}
_EQUAL_WITHOUT_NUMBER: Final = {"<cluster id>", "<epoch>"}


class Comparison:
    """Compares within one playing; `bound` is what placeholders have stood for so far."""

    def __init__(self, cluster: Cluster) -> None:
        hosts, ports = zip(*cluster.brokers.values(), strict=True)
        self._one_of = {"<host>": set(hosts), "<port>": set(ports), "<broker>": {*cluster.ids, *map(str, cluster.ids)}}
        self.bound: Bound = {}

    def matches(self, told: Any, seen: Any) -> bool:
        """Whether they agree; if so, the placeholders keep what they stand for."""
        found = self._match(told, seen, self.bound)
        if found:
            self.bound.update(found[0])
        return bool(found)

    def differences(self, told: Any, seen: Any, path: str = "") -> list[str]:
        """Where they do not agree, for a reader."""
        if isinstance(told, dict) and isinstance(seen, dict):
            keys = [*told, *(key for key in seen if key not in told)]
            pairs = [(f"{path}.{key}", told.get(key, "nothing"), seen.get(key, "nothing")) for key in keys]
        elif isinstance(told, list) and isinstance(seen, list) and len(told) == len(seen):
            pairs = [(f"{path}[{i}]", told[i], other) for i, other in enumerate(self._aligned(told, seen))]
        else:
            return [] if self._match(told, seen, self.bound) else [f"{path or 'answer'}: recorded {told}, seen {seen}"]
        return [line for where, mine, other in pairs for line in self.differences(mine, other, where)]

    def _aligned(self, told: list[Any], seen: list[Any]) -> list[Any]:
        left = list(seen)
        return [left.pop(min(range(len(left)), key=lambda i: len(self.differences(each, left[i])))) for each in told]

    def _match(self, told: Any, seen: Any, bound: Bound, is_ordered: bool = False) -> list[Bound]:
        """All ways to agree, each as what the placeholders then stand for."""
        if isinstance(told, str) and told.startswith("<") and told.endswith(">"):
            return self._match_placeholder(told, seen, bound)
        if isinstance(told, dict):
            return self._match_struct(told, seen, bound)
        if not isinstance(told, list):
            return [bound] if told == seen and type(told) is type(seen) else []
        if not isinstance(seen, list) or len(told) != len(seen):
            return []
        if is_ordered or not any(isinstance(each, dict) for each in told):
            return self._match_in_order(told, seen, bound)
        return self._match_in_any_order(told, seen, bound)

    def _match_placeholder(self, told: str, seen: Any, bound: Bound) -> list[Bound]:
        if told in bound:
            return [bound] if bound[told] == seen else []
        if told in self._one_of:
            return [bound] if seen in self._one_of[told] else []
        numbered = _NUMBERED.fullmatch(told)
        kind = numbered[1] if numbered else told
        if not _KINDS[kind](seen):
            return []
        if numbered and any(other == seen for name, other in bound.items() if name.startswith(f"<{kind} ")):
            return []
        return [bound | {told: seen}] if numbered or told in _EQUAL_WITHOUT_NUMBER else [bound]

    def _match_struct(self, told: dict[str, Any], seen: Any, bound: Bound) -> list[Bound]:
        if not isinstance(seen, dict) or told.keys() != seen.keys():
            return []
        found = [bound]
        for key, value in told.items():
            found = [more for each in found for more in self._match(value, seen[key], each, key in _IN_ORDER)]
        return found

    def _match_in_order(self, told: list[Any], seen: list[Any], bound: Bound) -> list[Bound]:
        found = [bound]
        for mine, other in zip(told, seen, strict=True):
            found = [more for each in found for more in self._match(mine, other, each)]
        return found

    def _match_in_any_order(self, told: list[Any], seen: list[Any], bound: Bound) -> list[Bound]:
        if not told:
            return [bound]
        found: list[Bound] = []
        for i, other in enumerate(seen):
            for each in self._match(told[0], other, bound):
                for more in self._match_in_any_order(told[1:], seen[:i] + seen[i + 1 :], each):
                    if more not in found:
                        found.append(more)
            if found == [bound]:
                break  # Whichever way round: nothing was learned, so nothing else can come of it.
        return found
