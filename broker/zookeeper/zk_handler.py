"""How kazoo reaches threads, sockets and callbacks. It has one thread, which reads and writes, and we add none.

Callbacks run on that thread and only post to the event loop, in the order in which things happened: an operation that
failed for lack of a connection is known to have failed before the connection is known to be gone.

Kazoo's own handler is bent in these places:
- Waking kazoo's thread must not block the loop. It is done by a byte per request through a socket pair that has room
  for some 270; the bytes of requests that were dropped stay in it until kazoo reads, which it does when connected.
- A server is asked whether it serves before a session is asked for (see `zk_words`).
- When the event loop hangs, so does the broker, and its session has to end like that of one that died.
- Kazoo makes an epoll object for every wait, five times per request. With plain poll a request takes half the time.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Iterable
from typing import Any, Final

from kazoo.handlers.threading import SequentialThreadingHandler

from minikafka.broker.zookeeper.zk_words import refuse_unready

_PROBE_SECONDS: Final = 2.0


class WakeSocket:
    """The end of the pair that the loop writes to. A byte for which there is no room is not needed."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end

    def send(self, data: bytes) -> int:
        # No room: more bytes wait there than requests, and kazoo looks for a request at each of them.
        with contextlib.suppress(BlockingIOError):
            self._end.send(data)
        return len(data)

    def close(self) -> None:
        self._end.close()


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """See the module's description. Most of it is called by kazoo, on its thread."""

    def __init__(self, is_hanging: Callable[[], bool]) -> None:
        super().__init__()
        self._is_hanging = is_hanging
        # How the last attempt at each server went, by "host:port", for the message if there is no session at all.
        self.attempts: dict[str, str] = {}
        self._connection: Any = None

    def start(self) -> None:
        """No worker threads: kazoo then runs callbacks where it is."""

    def stop(self) -> None:
        """There is nothing to stop."""

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def create_socket_pair(self) -> tuple[socket.socket, WakeSocket]:
        ours, theirs = socket.socketpair()
        return theirs, WakeSocket(ours)

    def create_connection(self, address: tuple[str, int], hostname: str, timeout: float, **options: Any) -> Any:
        name = f"{hostname}:{address[1]}"
        try:
            self._refuse_if_hanging()
            if not options.get("use_ssl"):
                # A port that speaks TLS takes no such questions.
                refuse_unready(*address, timeout_seconds=min(timeout, _PROBE_SECONDS))
            connection = super().create_connection(address=address, hostname=hostname, timeout=timeout, **options)
        except OSError as error:
            self.attempts[name] = error.strerror or str(error)
            raise
        self.attempts[name] = "it took the connection, but opened no session"
        self._connection = connection
        return connection

    def hang_up(self) -> None:
        """On any thread: break the connection, so that kazoo does not wait for the other side any longer."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def select(
        self, readable: Iterable[Any], writable: Iterable[Any], exceptional: Iterable[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        self._refuse_if_hanging()
        poll = select.poll()
        for each in readable:
            poll.register(each, select.POLLIN)
        for each in writable:
            poll.register(each, select.POLLOUT)
        ready = {number for number, _ in poll.poll(None if timeout is None else timeout * 1000)}
        return (
            [each for each in readable if each.fileno() in ready],
            [each for each in writable if each.fileno() in ready],
            [],
        )

    def _refuse_if_hanging(self) -> None:
        if self._is_hanging():
            raise OSError("the event loop hangs")
