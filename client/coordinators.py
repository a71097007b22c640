"""Finding the broker that coordinates a group or a transactional id."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from minikafka.protocol.errors import (
    FencedInstanceIdError,
    IllegalGenerationError,
    UnknownMemberIdError,
    error_for,
)
from minikafka.protocol.message import Request
from minikafka.protocol.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse

LEFT_BEHIND: Final = (IllegalGenerationError, UnknownMemberIdError, FencedInstanceIdError)
"""After these the group has gone on without the member that is named."""


class CoordinatorKind(IntEnum):
    """What is coordinated, by the numbers of the protocol."""

    GROUP = 0
    TRANSACTION = 1


class Found(NamedTuple):
    """A coordinator and where it is."""

    node_id: int
    host: str
    port: int


class _Asks(Protocol):
    async def request_any(self, message: Request) -> FindCoordinatorResponse: ...


async def find_coordinator(cluster: _Asks, kind: CoordinatorKind, key: str) -> Found:
    """Ask once; CoordinatorNotAvailableError while there is none."""
    # Both forms in one: versions up to 3 have the single key, later ones the list.
    request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
    answer = await cluster.request_any(request)
    found = answer.coordinators[0] if answer.coordinators else answer
    if found.error_code:
        raise error_for(found.error_code, found.error_message)
    return Found(found.node_id, found.host, found.port)
