"""A small HTTP server for the few pages that operators and their tools ask for.

GET and HEAD only, no bodies in requests, few connections, and little time for each request together with its answer. A
connection is read again when its peer has taken the answer. When all places are taken, a new connection gets that of
the one that has not asked for longest: a peer that holds many and asks nothing keeps nobody from /health.

It runs on the broker's loop, so a page that takes long has to do its work elsewhere; what a peer sends is parsed by
h11, and whatever that does not like closes the connection after an answer that says so.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, cast

import h11

from minikafka.broker.network.net import Net, Port
from minikafka.broker.work import Work

log: Final = logging.getLogger(__name__)

_REASONS: Final = {
    200: "OK",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_HEAD_BYTES_MAX: Final = 8 * 1024
_CONNECTIONS_MAX: Final = 64
_BACKLOG: Final = 64
# To send a request, to read its answer, and to think of the next one.
_PATIENCE_SECONDS: Final = 15.0


class Answer(NamedTuple):
    """What a page says."""

    status: int
    content_type: str
    body: bytes

    @classmethod
    def of_json(cls, status: int, content: Mapping[str, Any]) -> Answer:
        return cls(status, "application/json", json.dumps(content).encode() + b"\n")

    @classmethod
    def of_text(cls, status: int, text: str) -> Answer:
        return cls(status, "text/plain; charset=utf-8", text.encode() + b"\n")


Page = Callable[[], Awaitable[Answer]]


class HttpServer:
    """See the module's description. Pages are found by their path."""

    def __init__(
        self, pages: Mapping[str, Page], net: Net, work: Work, patience_seconds: float = _PATIENCE_SECONDS
    ) -> None:
        self.pages = pages
        self.work = work
        self.patience_seconds = patience_seconds
        self._net = net
        self._port: Port | None = None
        # In the order in which they have come, or asked last.
        self.connections: dict[_Connection, None] = {}

    async def start(self, host: str | None, port: int) -> int:
        """Listen, and return the port, which is a free one if it was 0. OSError if it is taken."""
        self._port = await self._net.bind(partial(_Connection, self), host, port, _BACKLOG)
        await self._port.listen()
        return self._port.number

    def stop(self) -> None:
        """Close everything at once: whoever asks how a broker is does not mind being told that it is gone."""
        if self._port is not None:
            self._port.close()
        for connection in list(self.connections):
            connection.abort()

    def make_room(self) -> None:
        """Close who has not asked for longest, if there are too many."""
        while len(self.connections) >= _CONNECTIONS_MAX:
            idlest = next((each for each in self.connections if not each.is_answered), next(iter(self.connections)))
            del self.connections[idlest]
            idlest.abort()

    async def answer(self, method: str, target: str) -> Answer:
        if method not in ("GET", "HEAD"):
            return Answer.of_text(405, "only GET and HEAD")
        page = self.pages.get(target.partition("?")[0])
        if page is None:
            return Answer.of_text(404, f"there are {', '.join(self.pages)}")
        try:
            return await page()
        except Exception:
            log.exception("%s could not be made", target.partition("?")[0])
            return Answer.of_text(500, "this page could not be made")


class _Connection(asyncio.Protocol):
    """One peer, which may ask several times."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._request: h11.Request | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._all_taken = asyncio.Event()
        self._all_taken.set()

    @property
    def is_answered(self) -> bool:
        """Whether it has asked, and its answer is being made or has not been taken."""
        return self._request is not None

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asked of it: the transports of uvloop are like asyncio's, but no subclasses of them.
        transport = self._transport = cast("asyncio.Transport", transport)
        # So that it is notified whenever anything has not been taken, and when all has.
        transport.set_write_buffer_limits(high=0)
        self._server.make_room()
        self._server.connections[self] = None
        self._wait_again()

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._advance()

    def eof_received(self) -> bool:
        self._http.receive_data(b"")
        self._advance()
        # Who has asked and then shut down its side still wants the answer.
        return self._request is not None

    def pause_writing(self) -> None:
        self._all_taken.clear()

    def resume_writing(self) -> None:
        self._all_taken.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._all_taken.set()
        self._server.connections.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _wait_again(self) -> None:
        """A new deadline. Single bytes do not move it, so nobody can hold a connection by sending slowly."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(self._server.patience_seconds, self.abort)

    # Requests

    def _advance(self) -> None:
        try:
            while self._request is None and not self._is_closing():
                event = self._http.next_event()
                if event in (h11.NEED_DATA, h11.PAUSED):
                    return
                self._take(event)
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, str(error))

    def _take(self, event: object) -> None:
        if isinstance(event, h11.Request):
            if _has_body(event):
                self._refuse(413, "a request has no body here")
                return
            self._request = event
            if self in self._server.connections:
                # It is the last of those that have asked.
                del self._server.connections[self]
                self._server.connections[self] = None
            assert self._transport is not None
            # Until it is answered nothing else is read, or there would be no end to what is kept for later.
            self._transport.pause_reading()
            self._server.work.spawn(self._reply(event), "http answer")
        elif isinstance(event, h11.ConnectionClosed):
            self._close()

    async def _reply(self, request: h11.Request) -> None:
        method = request.method.decode("ascii")
        answer = await self._server.answer(method, request.target.decode("ascii"))
        if self._transport is None:
            return
        self._write(answer, with_body=method != "HEAD")
        # Within the time of its request: who does not read is closed, and is read no more until then.
        await self._all_taken.wait()
        if self._transport is None:
            return
        self._request = None
        self._wait_again()
        try:
            # The end of the request, which h11 does not give away before it is asked.
            while self._http.their_state is h11.SEND_BODY:
                self._http.next_event()
            if self._http.our_state is not h11.DONE:
                self._close()
                return
            self._http.start_next_cycle()
        except h11.ProtocolError:
            self._close()
            return
        self._transport.resume_reading()
        self._advance()

    def _write(self, answer: Answer, *, with_body: bool) -> None:
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            ("Cache-Control", "no-store"),
        ]
        if answer.status == 405:
            headers.append(("Allow", "GET, HEAD"))
        reason = _REASONS.get(answer.status, "Bad Request")
        self._send(h11.Response(status_code=answer.status, headers=headers, reason=reason))
        if with_body:
            self._send(h11.Data(data=answer.body))
        self._send(h11.EndOfMessage())

    def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if self._transport is not None and data:
            self._transport.write(data)

    def _refuse(self, status: int, reason: str) -> None:
        """Say what is wrong, if it is our turn to speak, and close."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._write(Answer.of_text(status, reason), with_body=True)
        self._close()

    def _is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _has_body(request: h11.Request) -> bool:
    lengths = [value for name, value in request.headers if name == b"content-length"]
    is_chunked = any(name == b"transfer-encoding" for name, _ in request.headers)
    return is_chunked or any(value != b"0" for value in lengths)
