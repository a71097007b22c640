"""`@pytest.mark.needs`: a test without what it needs is skipped, and the summary says why."""

import subprocess
import sys
from pathlib import Path

from tests.tree import ROOT

TESTS = """
import pytest

@pytest.mark.needs("nothing")
def test_served() -> None:
    assert True is not False

@pytest.mark.needs("moon")
@pytest.mark.needs("nothing")
def test_not_served() -> None:
    raise AssertionError("ran without what it needs")
"""

PLUGIN = """
from tests.conftest import *
from tests.conftest import NEEDS
NEEDS["nothing"] = lambda: None
NEEDS["moon"] = lambda: "it has set"
"""


def run(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Run tests of their own, with the hooks of this folder's conftest."""
    (folder / "test_it.py").write_text(tests)
    (folder / "conftest.py").write_text(PLUGIN)
    config = ROOT / "pyproject.toml"
    command = [sys.executable, "-m", "pytest", "-c", str(config), "--rootdir", str(folder), "-p", "no:cacheprovider"]
    return subprocess.run([*command, str(folder)], cwd=ROOT, capture_output=True, text=True)


def test_skips_and_tells(tmp_path: Path) -> None:
    result = run(tmp_path, TESTS)
    assert result.returncode == 0, result.stdout
    assert "1 passed, 1 skipped" in result.stdout
    assert "test_it.py:8: needs moon: it has set" in result.stdout
    assert "    1 test needs moon: it has set" in result.stdout


def test_a_need_nobody_knows_is_an_error(tmp_path: Path) -> None:
    result = run(tmp_path, TESTS.replace("moon", "mooon"))
    assert result.returncode != 0
    assert "a test needs 'mooon', which tests/conftest.py does not know" in result.stderr + result.stdout
