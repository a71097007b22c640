"""Pages over HTTP, by a client of the standard library and by hand."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from minikafka.broker import http as ours
from minikafka.broker.http import Answer, HttpServer
from minikafka.broker.network.net import TcpNet
from minikafka.broker.work import LoopWork
from tests.broker.eventually import eventually

HOST = "127.0.0.1"


class Site:
    """A server with some pages."""

    def __init__(self, work: LoopWork, patience_seconds: float) -> None:
        pages = {"/good": self.good, "/bad": self.bad, "/slow": self.slow, "/big": self.big}
        self.server = HttpServer(pages, TcpNet(), work, patience_seconds)
        self.port = 0
        self.may_answer = asyncio.Event()
        self.asked = asyncio.Event()
        self.big_count = 0

    async def good(self) -> Answer:
        return Answer.of_json(200, {"good": True})

    async def bad(self) -> Answer:
        raise ValueError("a fault of ours")

    async def slow(self) -> Answer:
        self.asked.set()
        await self.may_answer.wait()
        return Answer.of_text(503, "at last")

    async def big(self) -> Answer:
        self.big_count += 1
        return Answer(200, "text/plain", b"x" * 50_000_000)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(HOST, self.port, limit=1 << 12)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def raw(self, sent: bytes) -> bytes:
        async with self.connection() as (reader, writer):
            writer.write(sent)
            return await rest(reader)

    async def connections_are(self, count: int) -> None:
        await eventually(lambda: len(self.server.connections) == count)


@pytest.fixture
def patience_seconds() -> float:
    return 30.0


@pytest.fixture
async def site(patience_seconds: float) -> AsyncIterator[Site]:
    work = LoopWork()
    made = Site(work, patience_seconds)
    made.port = await made.server.start(HOST, 0)
    yield made
    made.server.stop()
    await work.stop()
    await made.connections_are(0)


async def rest(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the server closes; nothing if it does so rudely."""
    try:
        return await asyncio.wait_for(reader.read(), 30)
    except ConnectionError:
        return b""


def fetch(port: int, method: str, *paths: str) -> list[tuple[int, dict[str, str], bytes]]:
    """One connection, several requests."""
    client = http.client.HTTPConnection(HOST, port, timeout=30)
    answers = []
    for path in paths:
        client.request(method, path)
        response = client.getresponse()
        answers.append(
            (response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
        )
    client.close()
    return answers


async def test_several_requests_on_one_connection(site: Site) -> None:
    answers = await asyncio.to_thread(fetch, site.port, "GET", "/good", "/nowhere", "/good?x=1")
    assert [(status, body) for status, _, body in answers] == [
        (200, b'{"good": true}\n'),
        (404, b"there are /good, /bad, /slow, /big\n"),
        (200, b'{"good": true}\n'),
    ]
    assert answers[0][1]["content-type"] == "application/json"


async def test_head_has_no_body(site: Site) -> None:
    (first, second) = await asyncio.to_thread(fetch, site.port, "HEAD", "/good", "/good")
    assert (first[0], first[1]["content-length"], first[2]) == (200, "15", b"")
    assert second[0] == 200


async def test_other_methods(site: Site) -> None:
    (answer,) = await asyncio.to_thread(fetch, site.port, "DELETE", "/good")
    assert (answer[0], answer[1]["allow"]) == (405, "GET, HEAD")


async def test_a_page_that_fails(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    answers = await asyncio.to_thread(fetch, site.port, "GET", "/bad", "/good")
    assert [status for status, _, _ in answers] == [500, 200]
    assert "a fault of ours" in caplog.text


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x00\x00\x00\x10\x00\x12\x00\x03 a request of Kafka's\r\n\r\n", 400),
        (b"GET /good HTTP/1.1\r\n\r\n", 400),
        (b"GET /good HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 20_000, 431),
        (b"GET /good HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"POST /good HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 413),
        (b"GET /good HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200),
        (b"GET /good HTTP/1.0\r\n\r\n", 200),
    ],
)
async def test_one_answer_and_closed(site: Site, sent: bytes, status: int) -> None:
    got = await site.raw(sent)
    assert got.startswith(b"HTTP/1.1 %d " % status)
    assert got.count(b"HTTP/1.1") == 1


async def test_pipelined(site: Site) -> None:
    one = b"GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n"
    got = await site.raw(one % (b"/good", b"") * 3 + one % (b"/nowhere", b"Connection: close\r\n"))
    assert [part[:3] for part in got.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"200", b"404"]


async def test_a_slow_page_does_not_hold_up_others(site: Site) -> None:
    slow = asyncio.create_task(site.raw(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    await site.asked.wait()
    assert (await asyncio.to_thread(fetch, site.port, "GET", "/good"))[0][0] == 200
    site.may_answer.set()
    assert (await slow).endswith(b"at last\n")


async def test_nothing_is_kept_for_later_without_end(site: Site) -> None:
    async with site.connection() as (_, writer):
        writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        await site.asked.wait()
        # More than the kernel keeps for both sides.
        writer.write(b"x" * 50_000_000)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.drain(), 0.3)
        site.may_answer.set()


async def test_who_shuts_down_its_side_is_still_answered(site: Site) -> None:
    async with site.connection() as (reader, writer):
        writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        writer.write_eof()
        await site.asked.wait()
        site.may_answer.set()
        assert (await rest(reader)).endswith(b"at last\n")


async def test_who_leaves_is_forgotten(site: Site) -> None:
    async with site.connection() as (_, writer):
        writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        await site.asked.wait()
    site.may_answer.set()
    await site.connections_are(0)


@pytest.mark.parametrize("patience_seconds", [0.3])
async def test_single_bytes_do_not_hold_a_connection(site: Site) -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"G")
            await asyncio.sleep(0.01)

    async with site.connection() as (reader, writer):
        dripping = asyncio.create_task(drip(writer))
        assert await rest(reader) == b""
        dripping.cancel()
    await site.connections_are(0)


@pytest.mark.parametrize("patience_seconds", [0.3])
async def test_who_does_not_read_is_dropped(site: Site) -> None:
    async with site.connection() as (_, writer):
        writer.write(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        await site.connections_are(1)
        await site.connections_are(0)


@pytest.mark.parametrize("patience_seconds", [300.0])
async def test_health_is_answered_while_idle_connections_take_all_places(site: Site) -> None:
    async with AsyncExitStack() as stack:
        crowd = [await stack.enter_async_context(site.connection()) for _ in range(ours._CONNECTIONS_MAX)]
        await site.connections_are(ours._CONNECTIONS_MAX)
        # The first one has asked something, so it is not the one to go.
        reader, writer = crowd[0]
        writer.write(b"GET /good HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        for _, other in crowd[2:]:
            # Single bytes are no request.
            other.write(b"G")
        answer = await site.raw(b"GET /good HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")
        assert await rest(crowd[1][0]) == b""
        writer.write(b"GET /good HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await rest(reader)).count(b"HTTP/1.1 200") == 1


async def test_pipelined_requests_wait_until_their_answers_are_taken(site: Site) -> None:
    async with site.connection() as (_, writer):
        writer.write(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        await eventually(lambda: site.big_count == 1)
        await site.connections_are(1)
        (own,) = site.server.connections
        await eventually(lambda: not own._all_taken.is_set())
        for _ in range(100):
            await asyncio.sleep(0)
        assert site.big_count == 1
        assert own._transport is not None
        assert own._transport.get_write_buffer_size() <= 50_000_000 + 1000


async def test_a_taken_port(site: Site) -> None:
    other = HttpServer({}, TcpNet(), LoopWork())
    with pytest.raises(OSError, match="in use"):
        await other.start(HOST, site.port)
