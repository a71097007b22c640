"""How the members of a group divide partitions, and finding an assignor by its name.

range               RangeAssignor                 neighbouring partitions, topic by topic
roundrobin          RoundRobinAssignor            one by one
sticky              StickyAssignor                even, with few moves
cooperative-sticky  CooperativeStickyAssignor     even, with few moves, and without stopping what stays
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from minikafka.client.consumer.assignors.base import Assignor, Member, Subscription
from minikafka.client.consumer.assignors.simple import RangeAssignor, RoundRobinAssignor
from minikafka.client.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from minikafka.client.errors import ConfigError

__all__ = [
    "ASSIGNORS",
    "Assignor",
    "CooperativeStickyAssignor",
    "Member",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
    "find_assignors",
]

_KNOWN: Final[tuple[Assignor, ...]] = (
    RangeAssignor(),
    RoundRobinAssignor(),
    StickyAssignor(),
    CooperativeStickyAssignor(),
)
ASSIGNORS: Final[dict[str, Assignor]] = {assignor.name: assignor for assignor in _KNOWN}


def find_assignors(strategies: str | Iterable[str | Assignor | type[Assignor]]) -> tuple[Assignor, ...]:
    """Assignors, by preference, out of names, objects and classes; a text may list names with commas."""
    listed = strategies.split(",") if isinstance(strategies, str) else strategies
    found = tuple(_find(each) for each in listed)
    if not found:
        raise ConfigError("partition_assignment_strategy names no assignor")
    if len({assignor.name for assignor in found}) < len(found):
        raise ConfigError("partition_assignment_strategy names an assignor twice")
    return found


def _find(given: str | Assignor | type[Assignor]) -> Assignor:
    if isinstance(given, str):
        # Java's settings have class names, with or without their package.
        name = given.strip().rpartition(".")[2]
        by_class = {type(assignor).__name__: assignor for assignor in _KNOWN}
        if (assignor := ASSIGNORS.get(name) or by_class.get(name)) is not None:
            return assignor
        raise ConfigError(f"there is no assignor {given!r}; there are {', '.join(ASSIGNORS)}")
    return given() if isinstance(given, type) else given
