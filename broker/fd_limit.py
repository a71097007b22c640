"""How many files and connections the operating system lets this process have open at a time.

Most systems start a program with a low limit that it may raise by itself, up to a hard one that only an
administrator can raise. A broker takes all it can get, and says so in one line if that is not enough: later it
would show as refused connections or as a log that cannot be opened.
"""

from __future__ import annotations

import resource
import sys
from typing import Final

_CONNECTIONS_USUAL: Final = 1000
"""What has to fit where the number of connections is not limited by the configuration."""

_UNLIMITED: Final = 1 << 30
"""From here on a configured number means as many as possible."""

_FILES_PER_SEGMENT: Final = 1 if sys.version_info >= (3, 13) else 3
"""The log, and its two indexes: before 3.13 a mapped file stays open."""

_OTHERS: Final = 64
"""Neither connections nor logs: ZooKeeper, the HTTP port, locks and checkpoints, files that are being cleaned."""


def raise_fd_limit() -> int:
    """Take as much as we may; returns the limit that holds from now on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        # Some systems state a hard limit and do not grant it.
        hard = soft
    return _UNLIMITED if hard == resource.RLIM_INFINITY else hard


def fd_shortage(limit: int, connections_max: int, segments: int) -> str | None:
    """Why the limit is too low, in one line for people; None if it is not."""
    connections = _CONNECTIONS_USUAL if connections_max >= _UNLIMITED else connections_max
    log_files = segments * _FILES_PER_SEGMENT
    needed = connections + log_files + _OTHERS
    if needed <= limit:
        return None
    left = max(0, limit - log_files - _OTHERS)
    return (
        f"at most {limit} files and connections can be open, and {needed} may be needed: {connections} connections, "
        f"{log_files} files of {segments} segments and {_OTHERS} others; about {left} connections will fit; "
        f"raise the hard limit of open files (ulimit -Hn, LimitNOFILE= of systemd, --ulimit nofile= of docker)"
    )
