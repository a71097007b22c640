"""An admin of the shared cluster, and names for what a test makes there."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable

import pytest

from minikafka.client.admin import Admin
from tests.compat.clients.topics import named_after


@pytest.fixture
async def admin(bootstrap: str) -> AsyncIterator[Admin]:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        yield admin


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Names that nobody has."""
    return lambda: f"{named_after(request.node.name)}-{uuid.uuid4().hex[:8]}"
