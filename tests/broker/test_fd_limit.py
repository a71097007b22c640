"""The limit of open files: taken as high as it goes, and a clear word where that is not enough."""

from __future__ import annotations

import subprocess
import sys

from minikafka.broker.fd_limit import fd_shortage

UNLIMITED = 2**31 - 1
# A mapped index counts as an open file before 3.13.
PER_SEGMENT = 1 if sys.version_info >= (3, 13) else 3

# In a process of its own: a limit that was lowered cannot be raised again.
RAISE = """
import resource
from minikafka.broker.fd_limit import raise_fd_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 700))
limit = raise_fd_limit()
assert (limit, *resource.getrlimit(resource.RLIMIT_NOFILE)) == (700, 700, 700), limit
"""


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    done = subprocess.run([sys.executable, "-c", RAISE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_enough_is_not_worth_a_word() -> None:
    assert fd_shortage(20_000, 10_000, 3_000) is None
    assert fd_shortage(20_000, UNLIMITED, 6_000) is None


def test_too_few_for_the_configured_connections() -> None:
    line = fd_shortage(1024, 10_000, 100)
    assert line is not None
    assert line.startswith("at most 1024 files and connections can be open")
    assert f"{10_000 + 100 * PER_SEGMENT + 64} may be needed" in line
    assert f"about {1024 - 100 * PER_SEGMENT - 64} connections will fit" in line


def test_too_few_for_the_logs_alone() -> None:
    line = fd_shortage(1024, UNLIMITED, 5_000)
    assert line is not None
    assert "of 5000 segments" in line
    assert "about 0 connections" in line
