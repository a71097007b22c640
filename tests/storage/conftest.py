"""What tests of logs on a real disk begin with."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Where a partition's log may be made."""
    return str(tmp_path / "orders-0")
