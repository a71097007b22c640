"""Who is let in when there is no room, and who is closed for doing nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from minikafka.broker.clock import SystemClock
from minikafka.broker.limits import server_limits
from minikafka.broker.network.connection import Connection, ConnectionLimits
from minikafka.broker.network.dispatch import Dispatcher, Operation, Resource, Route
from minikafka.broker.network.server import Listener, Server, ServerLimits
from minikafka.protocol.apis import APIS
from tests.broker.config.recorded import config_of
from tests.broker.network.test_server import LIMITS, Gate, Peer, Service, served, versions, wait_until

_IDLE_MS = 10_000
_UNFINISHED_MS = 1_000


class Two:
    """A server with a listener for clients and one for brokers."""

    def __init__(self, server: Server, ports: dict[str, int]) -> None:
        self.server = server
        self.ports = ports
        self.peers: list[Peer] = []

    async def connect(self, listener: str, *, is_admitted: bool = True) -> Peer:
        count = len(self.server.connections)
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.ports[listener]))
        self.peers.append(peer)
        if is_admitted and count < self.server.limits.connections_max:
            await wait_until(lambda: len(self.server.connections) > count)
        return peer


@asynccontextmanager
async def two_listeners(limits: ServerLimits) -> AsyncIterator[Two]:
    routes = [
        Route(APIS[3], Gate().metadata, Operation.DESCRIBE, Resource.TOPIC),
        Route(APIS[18], versions, Operation.NONE, Resource.NONE),
    ]
    server = Server(
        Dispatcher([*routes, Route(APIS[18], versions, Operation.NONE, Resource.NONE)]), limits, SystemClock()
    )
    bound = await server.bind([Listener(name, "127.0.0.1", 0) for name in ("CLIENT", "INTERNAL")])
    await server.listen()
    two = Two(server, {each.name: each.port for each in bound})
    try:
        yield two
    finally:
        for peer in two.peers:
            peer.writer.close()
        await server.stop(grace_seconds=0.1)


async def test_broker_gets_the_place_of_the_client_that_was_silent_for_longest() -> None:
    limits = LIMITS._replace(connections_max=3, protected=frozenset({"INTERNAL"}))
    async with two_listeners(limits) as two:
        clients = [await two.connect("CLIENT") for _ in range(3)]
        # The first one is the only one that says anything.
        for connection in two.server.connections:
            connection.has_news = False
        clients[0].ask("at-once")
        assert await clients[0].answer() == ("at-once", "at-once")
        broker = await two.connect("INTERNAL")
        broker.ask("at-once")
        assert await broker.answer() == ("at-once", "at-once")
        with pytest.raises(ConnectionError):
            await clients[1].frame()
        assert [each.listener for each in two.server.connections] == ["CLIENT", "CLIENT", "INTERNAL"]
        # A client is refused all the same.
        late = await two.connect("CLIENT")
        with pytest.raises(ConnectionError):
            await late.frame()


async def test_broker_is_let_in_although_brokers_use_up_the_limit() -> None:
    limits = LIMITS._replace(connections_max=1, protected=frozenset({"INTERNAL"}))
    async with two_listeners(limits) as two:
        brokers = [await two.connect("INTERNAL") for _ in range(3)]
        for broker in brokers:
            broker.ask("at-once")
            assert await broker.answer() == ("at-once", "at-once")


def test_listener_of_brokers_is_protected_where_clients_have_another() -> None:
    one = config_of({"listeners": "PLAINTEXT://:9092"})
    assert server_limits(one).protected == frozenset()
    two = config_of(
        {
            "listeners": "CLIENT://:9092,INTERNAL://:9093",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
        }
    )
    assert "INTERNAL" in server_limits(two).protected
    assert "CLIENT" not in server_limits(two).protected


def stop_sweeping(server: Server) -> None:
    """The test looks at connections itself, by its own clock."""
    assert server._sweeper is not None
    server._sweeper.cancel()


def _transport(peer: Peer) -> asyncio.Transport:
    return cast("asyncio.Transport", peer.writer.transport)


@asynccontextmanager
async def deaf_peer(
    write_buffer_bytes: int = 1 << 20, tail: bytes = b""
) -> AsyncIterator[tuple[Service, Peer, Connection]]:
    """A peer that has asked for more than the buffers of the operating system hold, and reads nothing yet."""
    connection = ConnectionLimits(
        frame_bytes_max=1 << 20, in_flight_bytes_max=1 << 20, write_buffer_bytes=write_buffer_bytes
    )
    async with served(
        Gate(), LIMITS._replace(connection=connection, idle_ms_max=_IDLE_MS, unfinished_frame_ms_max=_UNFINISHED_MS)
    ) as service:
        peer = await service.connect()
        stop_sweeping(service.server)
        # Not even the stream of the test takes anything.
        _transport(peer).pause_reading()
        peer.ask(*(f"large-{number}" for number in range(1000)))
        peer.writer.write(tail)
        await wait_until(lambda: any(each.unsent_bytes > 1 << 20 for each in service.server.connections))
        (own,) = service.server.connections
        yield service, peer, own


async def test_peer_that_reads_slowly_is_not_idle() -> None:
    async with deaf_peer(write_buffer_bytes=1 << 30) as (service, peer, own):
        await wait_until(lambda: not own.is_busy)
        service.server._look_at(own, 0)
        for look in range(1, 4):
            before = own.unsent_bytes
            _transport(peer).resume_reading()
            while own.unsent_bytes >= before:
                await peer.reader.read(1 << 16)
                own.count_unsent()
            _transport(peer).pause_reading()
            # Not by what it asks for.
            own.has_news = False
            service.server._look_at(own, 2 * look * _IDLE_MS)
            assert own in service.server.connections


async def test_peer_that_takes_nothing_of_what_it_asked_for_is_idle() -> None:
    async with deaf_peer() as (service, _, own):
        assert own.is_busy
        service.server._look_at(own, 0)
        service.server._look_at(own, _IDLE_MS)
        assert own in service.server.connections
        service.server._look_at(own, 2 * _IDLE_MS)
        await wait_until(lambda: own not in service.server.connections)


async def test_peer_that_waits_for_its_answer_is_not_idle() -> None:
    gate = Gate()
    async with served(gate, LIMITS._replace(idle_ms_max=_IDLE_MS)) as service:
        peer = await service.connect()
        peer.ask("slow")
        stop_sweeping(service.server)
        await wait_until(lambda: gate.begun == ["slow"])
        (own,) = service.server.connections
        service.server._look_at(own, 0)
        service.server._look_at(own, 2 * _IDLE_MS)
        gate.open("slow")
        assert await peer.answer() == ("slow", "slow")


async def test_unfinished_frame_of_a_peer_that_is_not_read_is_not_late() -> None:
    """It may have been sent long ago: it is this broker that does not read it."""
    async with deaf_peer(tail=b"\x00\x00\x00\x64abc") as (service, _, own):
        service.server._look_at(own, 0)
        service.server._look_at(own, 2 * _UNFINISHED_MS)
        await asyncio.sleep(0)
        assert own in service.server.connections
