"""Connections over real sockets: order, back-pressure, limits, and stopping."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from minikafka.broker.clock import SystemClock
from minikafka.broker.network.connection import ConnectionLimits
from minikafka.broker.network.dispatch import Call, Dispatcher, Operation, Resource, Route
from minikafka.broker.network.server import Listener, Server, ServerLimits
from minikafka.protocol.apis import APIS
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.headers import decode_correlation_id
from minikafka.protocol.message import Response
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from minikafka.protocol.pipeline import Pipeline
from minikafka.protocol.varint import Buffer

LIMITS = ServerLimits(
    connection=ConnectionLimits(frame_bytes_max=1 << 20, in_flight_bytes_max=1 << 20),
    connections_max=20,
    connections_per_ip_max=10,
    idle_ms_max=60_000,
    unfinished_frame_ms_max=60_000,
)


class Gate:
    """Answers Metadata when it is opened: the topic's name says which gate a request waits for."""

    def __init__(self) -> None:
        self.events: dict[str, asyncio.Event] = {}
        self.begun: list[str] = []

    def metadata(self, call: Call) -> MetadataResponse | asyncio.Future[Response | None]:
        (topic,) = call.request.topics
        self.begun.append(topic.name)
        if topic.name == "at-once":
            return MetadataResponse(brokers=[], cluster_id=topic.name, topics=[])
        if topic.name.startswith("large"):
            return MetadataResponse(brokers=[], cluster_id=topic.name.ljust(30_000), topics=[])
        if topic.name == "closing":
            call.connection.close()
            return MetadataResponse(brokers=[], cluster_id=topic.name, topics=[])
        if topic.name == "broken":
            raise RuntimeError("a handler of ours is broken")
        return asyncio.ensure_future(self._wait(topic.name))

    async def _wait(self, name: str) -> Response | None:
        await self.events.setdefault(name, asyncio.Event()).wait()
        return MetadataResponse(brokers=[], cluster_id=name, topics=[])

    def open(self, name: str) -> None:
        self.events.setdefault(name, asyncio.Event()).set()


def versions(call: Call) -> ApiVersionsResponse:
    return ApiVersionsResponse(api_keys=[])


class Service(NamedTuple):
    """A server and the peers that were connected to it."""

    server: Server
    port: int
    peers: list[Peer]

    async def connect(self) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port))
        self.peers.append(peer)
        return peer


@asynccontextmanager
async def served(gate: Gate, limits: ServerLimits = LIMITS) -> AsyncIterator[Service]:
    routes = [
        Route(APIS[3], gate.metadata, Operation.DESCRIBE, Resource.TOPIC),
        Route(APIS[18], versions, Operation.NONE, Resource.NONE),
    ]
    server = Server(Dispatcher(routes), limits, SystemClock())
    (listener,) = await server.bind([Listener("PLAINTEXT", "127.0.0.1", 0)])
    await server.listen()
    service = Service(server, listener.port, [])
    try:
        yield service
    finally:
        for peer in service.peers:
            peer.writer.close()
        await server.stop(grace_seconds=0.1)


class Peer:
    """A raw client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.frames = FrameReader(1 << 24)
        self.pipeline = Pipeline[str]("test")
        self.ready: list[bytes | bytearray] = []

    def write(self, parts: list[Buffer]) -> None:
        self.writer.write(b"".join(parts))

    def ask(self, *topics: str) -> None:
        """One request for each, all of them in one piece."""
        requests = [(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), topic) for topic in topics]
        self.write([part for request, topic in requests for part in self.pipeline.send(request, 9, topic)])

    async def frame(self) -> bytes | bytearray:
        while not self.ready:
            data = await self.reader.read(1 << 16)
            if not data:
                raise ConnectionError("closed")
            self.ready += self.frames.receive_data(data)
        return self.ready.pop(0)

    async def answer(self) -> tuple[str, str | None]:
        asked, response = self.pipeline.receive(await self.frame())
        return asked, response.cluster_id


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.001)


async def wait_until_refused(port: int) -> None:
    """Closing a port takes a few turns of the loop."""
    async with asyncio.timeout(10):
        while True:
            try:
                (await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port), 1)).close()
            except OSError:
                return
            await asyncio.sleep(0.001)


async def test_answers_leave_in_the_order_of_the_requests() -> None:
    gate = Gate()
    async with served(gate) as service:
        peer = await service.connect()
        for topic in ("slow", "slower", "at-once"):
            peer.ask(topic)
        await wait_until(lambda: gate.begun == ["slow", "slower", "at-once"])
        gate.open("slower")
        gate.open("slow")
        assert [await peer.answer() for _ in range(3)] == [
            ("slow", "slow"),
            ("slower", "slower"),
            ("at-once", "at-once"),
        ]


async def test_connections_do_not_wait_for_each_other() -> None:
    gate = Gate()
    async with served(gate) as service:
        one, two = await service.connect(), await service.connect()
        one.ask("slow")
        two.ask("at-once")
        assert await two.answer() == ("at-once", "at-once")


async def test_an_unknown_version_of_api_versions_is_answered_in_the_oldest() -> None:
    async with served(Gate()) as service:
        peer = await service.connect()
        peer.writer.write(bytes.fromhex("0000001d001200630000004d00066f7261636c6500076f7261636c6504312e3000"))
        frame = await peer.frame()
        assert decode_correlation_id(frame) == 77
        response = ApiVersionsResponse.decode(frame, 0, 4)
        assert response.error_code == 35
        assert [(row.api_key, row.min_version, row.max_version) for row in response.api_keys] == [(18, 0, 4)]
        peer.write(peer.pipeline.send(ApiVersionsRequest(), 0, "again"))
        assert decode_correlation_id(await peer.frame()) == 0


@pytest.mark.parametrize(
    "sent",
    [
        "ffffffff",  # a negative size
        "7fffffff",  # a size beyond the limit
        "0000000400120000",  # no header
        "0000001000c800000000000500066f7261636c65",  # an api that does not exist
        "00000010000300630000000500066f7261636c65",  # a version that does not exist
        "00000014000300010000000900066f7261636c657fffffff",  # 2**31 topics
    ],
)
async def test_a_bad_frame_closes_its_connection_and_no_other(sent: str) -> None:
    async with served(Gate()) as service:
        good, bad = await service.connect(), await service.connect()
        bad.writer.write(bytes.fromhex(sent))
        with pytest.raises(ConnectionError):
            await bad.frame()
        good.ask("at-once")
        assert await good.answer() == ("at-once", "at-once")
        assert len(service.server.connections) == 1


async def test_a_fault_of_ours_is_logged_and_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with served(Gate()) as service:
        peer = await service.connect()
        peer.ask("broken")
        with pytest.raises(ConnectionError):
            await peer.frame()
        assert "a handler of ours is broken" in caplog.text


async def test_a_peer_that_sends_too_much_waits() -> None:
    gate = Gate()
    limits = LIMITS._replace(connection=ConnectionLimits(frame_bytes_max=1 << 20, in_flight_bytes_max=2000))
    async with served(gate, limits) as service:
        peer = await service.connect()
        for number in range(5000):
            peer.ask(f"gate-{number}")
        await wait_until(lambda: len(gate.begun) > 20)
        settled = -1
        while settled != len(gate.begun):
            settled = len(gate.begun)
            await asyncio.sleep(0.05)
        assert settled < 5000
        for number in range(5000):
            gate.open(f"gate-{number}")
        assert [(await peer.answer())[0] for _ in range(5000)] == [f"gate-{number}" for number in range(5000)]


@pytest.mark.parametrize("is_over", [False, True])
async def test_a_peer_that_does_not_read_waits(is_over: bool) -> None:
    """Also with requests that have all arrived at once, and with nothing to come after them."""
    gate = Gate()
    connection = ConnectionLimits(frame_bytes_max=1 << 20, in_flight_bytes_max=1 << 20, write_buffer_bytes=100_000)
    names = [f"large-{number}" for number in range(1000)]
    async with served(gate, LIMITS._replace(connection=connection)) as service:
        peer = await service.connect()
        peer.ask(*names)
        if is_over:
            peer.writer.write_eof()
        await wait_until(lambda: bool(gate.begun))
        settled = -1
        while settled != len(gate.begun):
            settled = len(gate.begun)
            await asyncio.sleep(0.05)
        assert settled < 1000
        assert [(await peer.answer())[0] for _ in names] == names


async def test_nothing_is_begun_after_the_request_that_closes_the_connection() -> None:
    gate = Gate()
    async with served(gate) as service:
        peer = await service.connect()
        peer.ask("at-once", "closing", "slow")
        assert (await peer.answer())[1] == "at-once"
        with pytest.raises(ConnectionError):
            await peer.frame()
        assert gate.begun == ["at-once", "closing"]


async def test_a_peer_that_stops_sending_still_gets_its_answers() -> None:
    gate = Gate()
    async with served(gate) as service:
        peer = await service.connect()
        peer.ask("slow")
        peer.writer.write_eof()
        await wait_until(lambda: gate.begun == ["slow"])
        gate.open("slow")
        assert await peer.answer() == ("slow", "slow")
        with pytest.raises(ConnectionError):
            await peer.frame()


async def test_too_many_connections_are_refused() -> None:
    async with served(Gate()) as service:
        peers = [await service.connect() for _ in range(10)]
        await wait_until(lambda: len(service.server.connections) == 10)
        one_more = await service.connect()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await one_more.frame()
        peers[0].writer.close()
        await wait_until(lambda: len(service.server.connections) == 9)
        again = await service.connect()
        again.ask("at-once")
        assert await again.answer() == ("at-once", "at-once")


async def test_an_unfinished_frame_has_a_deadline() -> None:
    limits = LIMITS._replace(unfinished_frame_ms_max=50)
    async with served(Gate(), limits) as service:
        idle, stuck = await service.connect(), await service.connect()
        stuck.writer.write(b"\x00\x00\x00\x64abc")
        with pytest.raises(ConnectionError):
            await stuck.frame()
        idle.ask("at-once")
        assert await idle.answer() == ("at-once", "at-once")


async def test_stopping_lets_answers_out_first() -> None:
    gate = Gate()
    async with served(gate) as service:
        peer = await service.connect()
        peer.ask("slow")
        await wait_until(lambda: gate.begun == ["slow"])
        stopping = asyncio.create_task(service.server.stop(grace_seconds=10))
        await wait_until_refused(service.port)
        gate.open("slow")
        assert await peer.answer() == ("slow", "slow")
        await stopping


async def test_bound_port_serves_nobody_until_it_listens() -> None:
    """Its number is known before anybody is served: a broker registers in between."""
    server = Server(Dispatcher([]), LIMITS, SystemClock())
    (listener,) = await server.bind([Listener("PLAINTEXT", "127.0.0.1", 0)])
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert not server.connections
        await server.listen()
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        await wait_until(lambda: len(server.connections) == 1)
        writer.close()
    finally:
        await server.stop(grace_seconds=0.1)


async def test_port_that_is_bound_is_taken() -> None:
    """Of two brokers on one address, the second fails before it registers."""
    first, second = (Server(Dispatcher([]), LIMITS, SystemClock()) for _ in range(2))
    (listener,) = await first.bind([Listener("PLAINTEXT", "127.0.0.1", 0)])
    try:
        with pytest.raises(OSError, match="address already in use"):
            await second.bind([listener])
        await first.listen()
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        await wait_until(lambda: len(first.connections) == 1)
        writer.close()
    finally:
        await first.stop(grace_seconds=0.1)
