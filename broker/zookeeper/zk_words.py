"""ZooKeeper's four letter words: a question to one server, on a connection of its own.

A server accepts connections before it can serve, and a session that is asked for in between is never answered. `srvr`
tells, and servers answer it unless told not to. Blocking calls, for threads.
"""

from __future__ import annotations

import socket
from typing import Final

_ANSWER_BYTES_MAX: Final = 1 << 16
_NOT_SERVING: Final = "not currently serving"
_SERVING: Final = "Mode:"


def ask_word(host: str, port: int, word: str, timeout_seconds: float) -> str:
    """The server's answer; empty if it closes the connection without one."""
    with socket.create_connection((host, port), timeout_seconds) as connection:
        connection.sendall(word.encode())
        answer = b""
        while len(answer) < _ANSWER_BYTES_MAX and (more := connection.recv(_ANSWER_BYTES_MAX)):
            answer += more
        return answer.decode(errors="replace")


def is_serving(host: str, port: int, timeout_seconds: float) -> bool:
    """Whether the server says that it is. One that nobody can talk to does not."""
    try:
        return _SERVING in ask_word(host, port, "srvr", timeout_seconds)
    except OSError:
        return False


def refuse_unready(host: str, port: int, timeout_seconds: float) -> None:
    """Raise an OSError if the server cannot open a session now. One that may not answer the question is trusted."""
    if _NOT_SERVING in ask_word(host, port, "srvr", timeout_seconds):
        raise ConnectionRefusedError("it is up, but not serving: it is starting, or the ensemble has no quorum")
