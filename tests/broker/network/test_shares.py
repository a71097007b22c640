"""Memory and turns: what one connection may take, and that everybody gets on all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from minikafka.broker.clock import SystemClock
from minikafka.broker.limits import server_limits
from minikafka.broker.network.connection import ConnectionLimits
from minikafka.broker.network.dispatch import Call, Dispatcher, Operation, Resource, Route
from minikafka.broker.network.server import Listener, Server
from minikafka.broker.network.shares import MEMORY_BYTES, SMALL_BYTES, TURN_REQUESTS, Shares
from minikafka.protocol.apis import APIS
from minikafka.protocol.frame import SIZE_BYTES
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.config.recorded import config_of
from tests.broker.network.test_admission import stop_sweeping
from tests.broker.network.test_server import LIMITS, Gate, Peer, Service, served, versions, wait_until


class FakeMember:
    """A connection that notes its turns, and may want more of them."""

    def __init__(
        self, shares: Shares, name: str, log: list[str], turns: int = 1, *, is_of_broker: bool = False
    ) -> None:
        self.is_of_broker = is_of_broker
        self.wants_bytes = False
        self._shares, self._name, self._log, self._turns = shares, name, log, turns

    def take_turn(self) -> None:
        self._log.append(self._name)
        self._turns -= 1
        if self._turns:
            self._shares.enter(self)

    def regulate(self) -> None:
        self._log.append(f"{self._name} looks again")
        if self.wants_bytes:
            self._shares.admits(self)


class StoppedClock(SystemClock):
    """No turn takes any time."""

    def monotonic_ms(self) -> int:
        return 0


class LateClock(SystemClock):
    """Every turn takes as long as all may take."""

    now_ms = 0

    def monotonic_ms(self) -> int:
        self.now_ms += 10
        return self.now_ms


async def _turns_of_the_loop(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_brokers_have_their_turns_first_and_clients_go_round() -> None:
    log: list[str] = []
    shares = Shares(clock=StoppedClock())
    for name in ("a", "b"):
        shares.enter(FakeMember(shares, name, log, turns=2))
    shares.enter(FakeMember(shares, "broker", log, turns=2, is_of_broker=True))
    await _turns_of_the_loop(4)
    assert log == ["broker", "a", "b", "broker", "a", "b"]


async def test_client_has_a_turn_however_much_brokers_send() -> None:
    log: list[str] = []
    shares = Shares(clock=LateClock())
    for _ in range(2):
        shares.enter(FakeMember(shares, "broker", log, turns=100, is_of_broker=True))
    shares.enter(FakeMember(shares, "client", log, turns=3))
    await _turns_of_the_loop(4)
    assert log[:6] == ["broker", "client"] * 3


async def test_large_requests_are_admitted_alone_one_after_the_other_while_memory_is_short() -> None:
    log: list[str] = []
    shares = Shares(1000)
    one, two, three = (FakeMember(shares, name, log) for name in ("one", "two", "three"))
    assert shares.admits(one)
    assert shares.admits(two)
    shares.change(1000)
    assert shares.admits(one)
    assert [shares.admits(each) for each in (two, three, one)] == [False, False, True]
    two.wants_bytes = three.wants_bytes = True
    shares.leave(one)
    # It has more to do, and is not admitted before those that waited.
    assert not shares.admits(one)
    await _turns_of_the_loop(1)
    assert log == ["two looks again"] and shares.alone is two
    # It goes away before its request has come.
    shares.leave(two)
    await _turns_of_the_loop(1)
    assert log == ["two looks again", "three looks again"] and shares.alone is three


async def test_who_cannot_go_on_does_not_keep_the_next_from_being_admitted() -> None:
    log: list[str] = []
    shares = Shares(1000)
    shares.change(1000)
    members = [FakeMember(shares, name, log) for name in ("one", "two", "three", "four")]
    assert [shares.admits(each) for each in members] == [True, False, False, False]
    shares.leave(members[0])
    # None of those that are called takes the place: their peers do not read, or they are being closed.
    await _turns_of_the_loop(4)
    assert log == ["two looks again", "three looks again", "four looks again"]
    assert shares.admits(members[2])


async def test_all_that_wait_look_again_when_there_is_memory() -> None:
    log: list[str] = []
    shares = Shares(1000)
    members = [FakeMember(shares, name, log) for name in ("one", "two", "three")]
    shares.change(2000)
    assert [shares.admits(each) for each in members] == [True, False, False]
    shares.change(-500)
    await _turns_of_the_loop(1)
    assert log == []
    shares.change(-501)
    await _turns_of_the_loop(1)
    assert log == ["two looks again", "three looks again"]
    assert shares.left_bytes == 1
    # Whoever was alone is so no longer, also if it never says that it has got what it wanted.
    shares.change(500)
    assert shares.admits(members[2])


def test_memory_has_a_default_and_room_for_the_largest_request() -> None:
    assert server_limits(config_of({})).memory_bytes == MEMORY_BYTES
    own = {"queued.max.request.bytes": "5000000", "socket.request.max.bytes": "4000000"}
    assert server_limits(config_of(own)).memory_bytes == 5_000_000
    large = {"socket.request.max.bytes": str(1 << 30)}
    assert server_limits(config_of(large)).memory_bytes == 1 << 30


async def test_one_read_of_many_requests_is_begun_in_many_turns_of_the_loop() -> None:
    gate, largest, before = Gate(), 0, 0
    async with served(gate) as service:
        greedy = await service.connect()
        greedy.ask(*["at-once"] * 1000)
        while len(gate.begun) < 1000:
            await asyncio.sleep(0)
            largest, before = max(largest, len(gate.begun) - before), len(gate.begun)
        assert [await greedy.answer() for _ in range(1000)] == [("at-once", "at-once")] * 1000
    assert largest <= 2 * TURN_REQUESTS


async def test_requests_that_wait_for_a_turn_are_dropped_with_their_connection() -> None:
    gate = Gate()
    async with served(gate) as service:
        greedy = await service.connect()
        greedy.ask(*["at-once"] * 1000)
        await wait_until(lambda: bool(gate.begun))
        greedy.writer.transport.abort()
        await wait_until(lambda: not service.server.connections)
        assert service.server.shares.used_bytes == 0


async def test_responses_that_wait_for_an_earlier_one_are_counted() -> None:
    gate = Gate()
    names = ["slow", *(f"large-{number}" for number in range(100))]
    async with served(gate) as service:
        peer = await service.connect()
        peer.ask(*names)
        # Of 30,000 bytes each; a mebibyte may be in flight.
        await wait_until(lambda: service.server.shares.used_bytes > 1 << 20)
        await _turns_of_the_loop(10)
        assert len(gate.begun) <= 40
        gate.open("slow")
        assert [(await peer.answer())[0] for _ in names] == names
        await wait_until(lambda: service.server.shares.used_bytes == 0)


@asynccontextmanager
async def counting(memory_bytes: int) -> AsyncIterator[Service]:
    """A server that answers Metadata by the number of topics, with little memory."""

    def count(call: Call) -> MetadataResponse:
        return MetadataResponse(brokers=[], cluster_id=str(len(call.request.topics)), topics=[])

    routes = [
        Route(APIS[3], count, Operation.DESCRIBE, Resource.TOPIC),
        Route(APIS[18], versions, Operation.NONE, Resource.NONE),
    ]
    connection = ConnectionLimits(frame_bytes_max=1 << 20, in_flight_bytes_max=1 << 20)
    server = Server(
        Dispatcher(routes), LIMITS._replace(connection=connection, memory_bytes=memory_bytes), SystemClock()
    )
    (listener,) = await server.bind([Listener("PLAINTEXT", "127.0.0.1", 0)])
    await server.listen()
    service = Service(server, listener.port, [])
    try:
        yield service
    finally:
        for peer in service.peers:
            peer.writer.close()
        await server.stop(grace_seconds=0.1)


def _large(peer: Peer) -> tuple[bytes, bytes]:
    """Half of a large request, and the rest."""
    topics = [MetadataRequestTopic(name=f"topic-{number:010}") for number in range(20_000)]
    data = b"".join(peer.pipeline.send(MetadataRequest(topics=topics), 9, "large"))
    assert len(data) > 10 * SMALL_BYTES
    return data[: len(data) // 2], data[len(data) // 2 :]


async def test_large_requests_that_came_in_part_are_finished_one_after_the_other() -> None:
    async with counting(memory_bytes=200_000) as service:
        shares, peers, rests = service.server.shares, [await service.connect() for _ in range(3)], []
        for peer in peers:
            half, rest = _large(peer)
            peer.writer.write(half)
            rests.append(rest)
        await wait_until(lambda: shares.is_short and shares.alone is not None)
        for peer, rest in zip(peers, rests, strict=True):
            peer.writer.write(rest)
        # Small ones are served meanwhile, and all large ones in the end.
        small = await service.connect()
        small.ask("a")
        assert (await small.answer())[1] == "1"
        assert [await peer.answer() for peer in peers] == [("large", "20000")] * 3
        await wait_until(lambda: shares.used_bytes == 0 and shares.alone is None)


async def test_part_of_a_request_behind_a_whole_one_is_counted() -> None:
    async with counting(memory_bytes=200_000) as service:
        shares, peer = service.server.shares, await service.connect()
        small = b"".join(peer.pipeline.send(MetadataRequest(topics=[]), 9, "small"))
        half, _ = _large(peer)
        (own,) = service.server.connections
        data = small + half[:20_000]
        own.get_buffer(-1)[: len(data)] = data
        own.buffer_updated(len(data))
        assert shares.used_bytes == 20_000 - SIZE_BYTES


async def test_large_request_waits_for_one_that_has_come_further_and_for_its_end() -> None:
    async with counting(memory_bytes=200_000) as service:
        shares, first, second = service.server.shares, await service.connect(), await service.connect()
        (half, _), (other_half, rest) = _large(first), _large(second)
        first.writer.write(half)
        await wait_until(lambda: shares.used_bytes >= len(half) - 4)
        second.writer.write(other_half)
        await wait_until(lambda: shares.alone is not None)
        second.writer.write(rest)
        connections = list(service.server.connections)
        if shares.alone is connections[0]:
            # It goes away, so the other gets on.
            await wait_until(lambda: connections[1]._is_paused)
            first.writer.transport.abort()
        assert await second.answer() == ("large", "20000")


async def test_broker_is_read_however_short_memory_is() -> None:
    async with counting(memory_bytes=200_000) as service:
        client, broker = await service.connect(), await service.connect()
        await wait_until(lambda: len(service.server.connections) == 2)
        own = list(service.server.connections)[1]
        own.become_brokers()
        service.server.shares.change(1 << 30)
        stuck, _ = _large(client)
        client.writer.write(stuck)
        await wait_until(lambda: service.server.shares.alone is not None)
        half, rest = _large(broker)
        broker.writer.write(half)
        broker.writer.write(rest)
        assert await broker.answer() == ("large", "20000")
        assert own._held_bytes == 0


async def test_peer_that_reads_nothing_is_closed_soon_while_memory_is_short() -> None:
    connection = ConnectionLimits(frame_bytes_max=1 << 20, in_flight_bytes_max=1 << 20, write_buffer_bytes=100_000)
    async with served(Gate(), LIMITS._replace(connection=connection, idle_ms_max=600_000)) as service:
        peer = await service.connect()
        stop_sweeping(service.server)
        peer.ask(*(f"large-{number}" for number in range(1000)))
        await wait_until(lambda: any(each.unsent_bytes for each in service.server.connections))
        (own,) = service.server.connections
        await wait_until(lambda: own._is_paused)
        for now_ms in (0, 1, 20_000):
            service.server._look_at(own, now_ms)
        assert own in service.server.connections
        service.server.shares.change(1 << 30)
        service.server._look_at(own, 40_000)
        await wait_until(lambda: own not in service.server.connections)


async def test_request_that_is_admitted_alone_has_to_come_in_time() -> None:
    async with counting(memory_bytes=200_000) as service:
        stop_sweeping(service.server)
        shares, peer = service.server.shares, await service.connect()
        shares.change(1 << 30)
        half, _ = _large(peer)
        peer.writer.write(half)
        await wait_until(lambda: shares.alone is not None)
        (own,) = service.server.connections
        # Something comes all the time.
        own.has_news = True
        service.server._look_at(own, shares.alone_since_ms + 1000)
        own.has_news = True
        service.server._look_at(own, shares.alone_since_ms + 61_000)
        await wait_until(lambda: shares.alone is None)


@pytest.mark.parametrize("is_short", [False, True])
async def test_room_for_a_response_is_what_is_left(is_short: bool) -> None:
    async with served(Gate(), LIMITS._replace(memory_bytes=1000)) as service:
        await service.connect()
        await wait_until(lambda: len(service.server.connections) == 1)
        (own,) = service.server.connections
        own.reserve(1000 if is_short else 400)
        assert own.room_bytes == (0 if is_short else 600)
        own.reserve(-1000 if is_short else -400)
        assert own.room_bytes == 1000
