"""The command on the shared cluster."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from tests.client.cli.calling import Cli
from tests.compat.clients.topics import named_after


@pytest.fixture
def cli(bootstrap: str) -> Cli:
    return Cli(bootstrap)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Names that nobody has."""
    return lambda: f"{named_after(request.node.name)}-{uuid.uuid4().hex[:8]}"
