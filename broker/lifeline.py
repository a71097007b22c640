"""What ties a broker to the process that started it: a socket between the two.

The broker says in one line of JSON that it is ready, or why it cannot be. And it notices when the other end is gone,
however that came about, and stops: nobody would be left to stop it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

VARIABLE: Final = "MINIKAFKA_LIFELINE_FD"
"""In the environment of the broker: the number of its end."""

BROKERS_VARIABLE: Final = "MINIKAFKA_LIFELINE_BROKERS"
"""How many brokers are started together; one is ready when it knows of as many."""


class Lifeline:
    """The broker's end."""

    def __init__(self, sock: socket.socket, brokers: int) -> None:
        self._sock = sock
        self.brokers = brokers

    @classmethod
    def of_environment(cls, environ: Mapping[str, str]) -> Lifeline | None:
        """The one that this process was started with, if it was."""
        number = environ.get(VARIABLE, "")
        if not number.isdecimal():
            return None
        # Not for processes that this one starts.
        os.set_inheritable(int(number), False)
        return cls(socket.socket(fileno=int(number)), int(environ.get(BROKERS_VARIABLE, "1")))

    def tell(self, **what: Any) -> None:
        try:
            self._sock.sendall(json.dumps(what).encode() + b"\n")
        except OSError:
            # Nobody is there to be told, which is noticed elsewhere.
            return

    def watch(self, on_cut: Callable[[], None]) -> None:
        """Call a function of the running loop when the other end is gone."""
        loop = asyncio.get_running_loop()
        self._sock.setblocking(False)

        def look() -> None:
            try:
                is_cut = not self._sock.recv(4096)
            except BlockingIOError:
                return
            except OSError:
                is_cut = True
            if is_cut:
                loop.remove_reader(self._sock)
                on_cut()

        loop.add_reader(self._sock, look)

    def close(self) -> None:
        self._sock.close()
