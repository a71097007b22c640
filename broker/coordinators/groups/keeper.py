"""What a group needs of the world: a seam, so that the state machine runs without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from minikafka.protocol.errors import KafkaError

if TYPE_CHECKING:
    from minikafka.broker.coordinators.groups.group import Group

Stored: TypeAlias = Callable[[KafkaError | None, int], None]
"""Called with what went wrong, if anything, and the time."""


class Settings(NamedTuple):
    """What is configured for all groups."""

    initial_delay_ms: int
    size_max: int


class Keeper(Protocol):
    """See the module's description."""

    def settings(self) -> Settings: ...

    def new_member_id(self, prefix: str) -> str: ...

    def wall_ms(self) -> int: ...

    def store(self, group: Group, assignments: Mapping[str, bytes], stored: Stored) -> None:
        """Write down a group as it is, with these assignments; calls back when that is known, never at once."""
