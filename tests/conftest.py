"""Tests that need something the machine may lack say so, are skipped without it, and are counted at the end.

@pytest.mark.needs("docker", "root")

And the cluster that clients and tools are tried on. MINIKAFKA_TEST_CLUSTER names the cluster.json of a running one,
which is then used instead and left running. With that of an Apache Kafka the tests themselves are put to the test.
"""

import os
import shutil
import signal
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.compat.running import Cluster, Up, read_cluster
from tests.tree import ROOT

# The same examples in every run, and no verdict by the clock: a busy machine must not turn a test red. Other examples
# are for `HYPOTHESIS_PROFILE=explore make pytest`.
settings.register_profile("repeat", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

SKIPPED = pytest.StashKey[Counter[str]]()

# What clusters are upgraded from.
EARLIER_VERSION = "0d4d913"

# Transactions whose time is over are looked for every ten seconds by default.
CLUSTER_SETTINGS = ("transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",)


def find_program(name: str) -> str | None:
    """Where a program is: in the environment of this Python, or else on the PATH."""
    return shutil.which(name, path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]))


def _program(name: str) -> Callable[[], str | None]:
    return lambda: None if find_program(name) else f"{name} is not on the PATH"


def _docker() -> str | None:
    # The client alone proves nothing: only its engine can run a container.
    if shutil.which("docker") is None:
        return "docker is not on the PATH"
    asked = subprocess.run(["docker", "info"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30)
    return None if asked.returncode == 0 else "no Docker engine answers"


def _docker_compose() -> str | None:
    # Reading a file needs no engine.
    if shutil.which("docker") is None:
        return "docker is not on the PATH"
    asked = subprocess.run(["docker", "compose", "version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return None if asked.returncode == 0 else "docker has no command compose"


def _root() -> str | None:
    return None if os.geteuid() == 0 else "not running as root"


def _earlier_version() -> str | None:
    if find_program("git") is None:
        return "git is not on the PATH"
    asked = subprocess.run(["git", "cat-file", "-e", f"{EARLIER_VERSION}^{{commit}}"], cwd=ROOT, capture_output=True)
    return None if asked.returncode == 0 else f"commit {EARLIER_VERSION} is not in this clone"


# What a test may need -> why it cannot have it, or None if it can.
NEEDS: dict[str, Callable[[], str | None]] = {
    "cc": _program("cc"),
    "an earlier version": _earlier_version,
    "docker": _docker,
    "docker compose": _docker_compose,
    "git": _program("git"),
    "hadolint": _program("hadolint"),
    "java": _program("java"),
    "kcat": _program("kcat"),
    "kubernetes-validate": _program("kubernetes-validate"),
    "make": _program("make"),
    "maven": _program("mvn"),
    "prometheus": _program("prometheus"),
    "promtool": _program("promtool"),
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
    # A script's background job is started with SIGINT ignored, and so would be every program that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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


@pytest.fixture(scope="session")
def up_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers. They have to end well and without a complaint, whatever was done to them."""
    given = os.environ.get("MINIKAFKA_TEST_CLUSTER")
    if given is not None:
        yield read_cluster(Path(given))
        return
    process = Up(tmp_path_factory.mktemp("up"), 3, *CLUSTER_SETTINGS)
    try:
        yield process.wait_until_ready()
    finally:
        code = process.stop()
    assert code == 0, process.output
    assert not process.complaints(), process.output
