"""Relays pass everything on, fall silent and speak up again, and break; each link by itself."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.chaos.links import Links, holds_socket

LIMIT_S = 10.0
SILENCE_S = 0.3


class Echo:
    """A server that sends back what it gets."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(4096):
                connection.sendall(data)

    def close(self) -> None:
        # Or the thread would wait in `accept` for ever.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def links() -> Iterator[Links]:
    def identify(inode: int) -> str:
        return "tests" if holds_socket(os.getpid(), inode) else "a stranger"

    with Links(identify) as made:
        yield made


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), LIMIT_S)


def is_echoed(connection: socket.socket, data: bytes) -> bool:
    connection.sendall(data)
    return connection.recv(4096) == data


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(SILENCE_S)
    try:
        connection.recv(4096)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(LIMIT_S)
    return False


def is_ended(connection: socket.socket) -> bool:
    try:
        return not connection.recv(4096)
    except ConnectionResetError:
        return True


def test_an_open_link_passes_everything(echo: Echo, links: Links) -> None:
    with dial(links.open(echo.port, "echo", "me")) as connection:
        assert is_echoed(connection, b"one")
        assert is_echoed(connection, b"two")


def test_what_is_sent_in_silence_arrives_after_it(echo: Echo, links: Links) -> None:
    port = links.open(echo.port, "echo", "me")
    with dial(port) as connection:
        assert is_echoed(connection, b"one")
        links.cut(["me"], ["echo"])
        connection.sendall(b"two")
        assert is_silent(connection)
        with dial(port) as late:
            late.sendall(b"three")
            assert is_silent(late)
            links.heal()
            assert connection.recv(4096) == b"two"
            assert late.recv(4096) == b"three"


def test_a_broken_link_is_refused_until_it_heals(echo: Echo, links: Links) -> None:
    port = links.open(echo.port, "echo", "me")
    with dial(port) as connection:
        assert is_echoed(connection, b"one")
        links.cut(["me"], ["echo"], "broken")
        assert is_ended(connection)
    with dial(port) as connection:
        assert is_ended(connection)
    links.heal()
    with dial(port) as connection:
        assert is_echoed(connection, b"two")


def test_only_the_link_that_was_named_is_cut(echo: Echo, links: Links) -> None:
    with dial(links.open(echo.port, "echo", "me")) as mine, dial(links.open(echo.port, "echo", "you")) as yours:
        assert is_echoed(mine, b"one")
        assert is_echoed(yours, b"one")
        links.cut(["me"], ["echo"])
        mine.sendall(b"two")
        assert is_echoed(yours, b"two")
        assert is_silent(mine)


def test_who_dials_is_found_out(echo: Echo, links: Links) -> None:
    port = links.open(echo.port, "echo")
    links.cut(["a stranger"], ["echo"])
    with dial(port) as connection:
        assert is_echoed(connection, b"one")
        links.cut(["tests"], ["echo"])
        connection.sendall(b"two")
        assert is_silent(connection)
