"""Tests that need something the machine may lack say so, are skipped without it, and are counted at the end.

@pytest.mark.needs("docker", "root")
"""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, and no verdict by the clock: a busy machine must not turn a test red. Other examples
# are for `HYPOTHESIS_PROFILE=explore make pytest`.
settings.register_profile("repeat", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

SKIPPED = pytest.StashKey[Counter[str]]()


def _program(name: str) -> Callable[[], str | None]:
    return lambda: None if shutil.which(name) else f"{name} is not on the PATH"


def _docker() -> str | None:
    # The client alone proves nothing: only its engine can run a container.
    if shutil.which("docker") is None:
        return "docker is not on the PATH"
    asked = subprocess.run(["docker", "info"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30)
    return None if asked.returncode == 0 else "no Docker engine answers"


def _root() -> str | None:
    return None if os.geteuid() == 0 else "not running as root"


# What a test may need -> why it cannot have it, or None if it can.
NEEDS: dict[str, Callable[[], str | None]] = {
    "docker": _docker,
    "git": _program("git"),
    "java": _program("java"),
    "kcat": _program("kcat"),
    "make": _program("make"),
    "maven": _program("mvn"),
    "root": _root,
}


@cache
def lacking(name: str) -> str | None:
    """Why the machine cannot serve a need, or None if it can. Asked once per run."""
    if name not in NEEDS:
        raise pytest.UsageError(f"a test needs '{name}', which tests/conftest.py does not know")
    return NEEDS[name]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SKIPPED] = Counter()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        needs = {name for mark in item.iter_markers("needs") for name in mark.args}
        reasons = sorted(f"needs {name}: {reason}" for name in needs if (reason := lacking(name)) is not None)
        if reasons:
            item.add_marker(pytest.mark.skip(reason="; ".join(reasons)))
            config.stash[SKIPPED].update(reasons)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = config.stash[SKIPPED]
    if skipped:
        terminalreporter.section("not run on this machine")
        for reason, count in sorted(skipped.items()):
            terminalreporter.line(f"{count:5} {'test' if count == 1 else 'tests'} {reason}")
