"""Each fault of the proxy happens as it is described, to the frames that a plan names, and to no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.compat.running import free_ports
from tests.proxy.control import Proxy
from tests.proxy.plan import Fault, Plan, Rule

API, OTHER_API = 0, 18
PREFIX = "s1."
HOLD_SECONDS = 0.3


def request(number: int, api: int = API, client_id: str = PREFIX + "p") -> bytes:
    body = api.to_bytes(2, "big") + b"\0\0" + number.to_bytes(4, "big")
    body += len(client_id).to_bytes(2, "big") + client_id.encode() + b"payload"
    return len(body).to_bytes(4, "big") + body


def answer(number: int) -> bytes:
    return (12).to_bytes(4, "big") + number.to_bytes(4, "big") + b"answered"


class Broker:
    """Answers each whole frame by its correlation id, and keeps all bytes."""

    def __init__(self) -> None:
        self.received = b""
        self.closed = asyncio.Event()
        self.came = asyncio.Condition()

    @property
    def numbers(self) -> list[int]:
        """The correlation ids of the whole frames, in the order of coming."""
        numbers, rest = [], self.received
        while len(rest) >= 4 and len(rest) >= 4 + int.from_bytes(rest[:4], "big"):
            numbers.append(int.from_bytes(rest[8:12], "big"))
            rest = rest[4 + int.from_bytes(rest[:4], "big") :]
        return numbers

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        done = len(self.numbers)
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                async with self.came:
                    self.received += data
                    self.came.notify_all()
                for number in self.numbers[done:]:
                    writer.write(answer(number))
                done = len(self.numbers)
        self.closed.set()
        writer.close()

    async def wait_for(self, numbers: list[int]) -> None:
        async with asyncio.timeout(10), self.came:
            await self.came.wait_for(lambda: self.numbers == numbers)


@pytest.fixture(scope="module")
def ports() -> tuple[int, int]:
    first = free_ports(2)
    return first, first + 1


@pytest.fixture(scope="module")
def proxy(ports: tuple[int, int]) -> Iterator[Proxy]:
    with Proxy({ports[0]: ports[1]}) as started:
        yield started


@pytest.fixture
async def broker(ports: tuple[int, int]) -> AsyncIterator[Broker]:
    made = Broker()
    server = await asyncio.start_server(made.serve, "127.0.0.1", ports[1])
    yield made
    server.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, *frames: bytes) -> None:
        self._writer.write(b"".join(frames))

    async def receive(self) -> bytes:
        async with asyncio.timeout(10):
            return await self._reader.readexactly(len(answer(0)))

    async def rest(self) -> bytes | None:
        """Everything until the end; None if it ends by a reset."""
        try:
            async with asyncio.timeout(10):
                return await self._reader.read()
        except ConnectionResetError:
            return None

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


@asynccontextmanager
async def connected(proxy: Proxy, ports: tuple[int, int], *rules: Rule) -> AsyncIterator[Client]:
    await proxy.begin(PREFIX, 1, rules)
    client = Client(*await asyncio.open_connection("127.0.0.1", ports[0]))
    try:
        yield client
    finally:
        await client.close()
        await proxy.stop(PREFIX)
        await proxy.end(PREFIX)


def first(fault: Fault, **fields: object) -> Rule:
    """A rule that harms the first frame only."""
    return Rule.from_json({"fault": fault, "apis": [API], "numbers": [0], **fields})


async def test_proxy_passes_what_no_rule_names(proxy: Proxy, ports: tuple[int, int], broker: Broker) -> None:
    rules = [Rule(fault, (API,), rate=1.0) for fault in Fault]
    async with connected(proxy, ports, *rules) as client:
        frames = [request(1, client_id="s10.p"), request(2, client_id=""), request(3, OTHER_API)]
        client.send(*frames)
        assert [await client.receive() for _ in frames] == [answer(1), answer(2), answer(3)]
        assert broker.received == b"".join(frames)
        assert not await proxy.count(PREFIX)


async def test_proxy_holds_a_request_and_those_behind_it(proxy: Proxy, ports: tuple[int, int], broker: Broker) -> None:
    async with connected(proxy, ports, first(Fault.HOLD_REQUEST, seconds=[HOLD_SECONDS])) as client:
        client.send(request(1), request(2))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(HOLD_SECONDS / 2):
                await client.receive()
        assert broker.numbers == []
        assert [await client.receive(), await client.receive()] == [answer(1), answer(2)]
        assert await proxy.count(PREFIX) == {Fault.HOLD_REQUEST: 1}


async def test_proxy_delivers_a_held_request_of_a_client_that_has_gone(
    proxy: Proxy, ports: tuple[int, int], broker: Broker
) -> None:
    async with connected(proxy, ports, first(Fault.HOLD_REQUEST, seconds=[HOLD_SECONDS])) as client:
        client.send(request(1), request(2))
        await client.close()
        await proxy.stop(PREFIX)
        await broker.wait_for([1, 2])


async def test_proxy_drops_a_request_and_those_behind_it(proxy: Proxy, ports: tuple[int, int], broker: Broker) -> None:
    async with connected(proxy, ports, Rule(Fault.DROP_REQUEST, (API,), numbers=(1,))) as client:
        client.send(request(1), request(2), request(3))
        assert await client.receive() == answer(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(HOLD_SECONDS):
                await client.receive()
        await client.close()
        async with asyncio.timeout(10):
            await broker.closed.wait()
        assert broker.numbers == [1]


async def test_proxy_drops_an_answer_and_those_behind_it(proxy: Proxy, ports: tuple[int, int], broker: Broker) -> None:
    async with connected(proxy, ports, Rule(Fault.DROP_ANSWER, (API,), numbers=(1,))) as client:
        client.send(request(1), request(2), request(3))
        assert await client.receive() == answer(1)
        await broker.wait_for([1, 2, 3])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(HOLD_SECONDS):
                await client.receive()


async def test_proxy_answers_late(proxy: Proxy, ports: tuple[int, int], broker: Broker) -> None:
    async with connected(proxy, ports, first(Fault.HOLD_ANSWER, seconds=[HOLD_SECONDS])) as client:
        client.send(request(1))
        await broker.wait_for([1])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(HOLD_SECONDS / 2):
                await client.receive()
        assert await client.receive() == answer(1)


async def test_proxy_resets_before_a_request_is_there(proxy: Proxy, ports: tuple[int, int], broker: Broker) -> None:
    async with connected(proxy, ports, first(Fault.RESET_REQUEST)) as client:
        client.send(request(1))
        assert await client.rest() is None
        await broker.closed.wait()
        assert broker.received == b""


async def test_proxy_resets_instead_of_an_answer(proxy: Proxy, ports: tuple[int, int], broker: Broker) -> None:
    async with connected(proxy, ports, first(Fault.RESET_ANSWER)) as client:
        client.send(request(1))
        assert await client.rest() is None
        assert broker.numbers == [1]


async def test_proxy_cuts_a_request_at_every_byte(proxy: Proxy, ports: tuple[int, int], broker: Broker) -> None:
    frame = request(1)
    for position in range(1, len(frame)):
        broker.received = b""
        broker.closed.clear()
        async with connected(proxy, ports, first(Fault.CUT_REQUEST, position=position)) as client:
            client.send(frame)
            assert not await client.rest()
            async with asyncio.timeout(10):
                await broker.closed.wait()
            assert broker.received == frame[:position]


async def test_proxy_cuts_an_answer_at_every_byte(proxy: Proxy, ports: tuple[int, int], broker: Broker) -> None:
    for position in range(1, len(answer(1))):
        async with connected(proxy, ports, first(Fault.CUT_ANSWER, position=position)) as client:
            client.send(request(1))
            assert await client.rest() == answer(1)[:position]


def test_plan_is_a_function_of_its_seed() -> None:
    rules = [Rule(fault, (API,), 0.2, seconds=(0.1, 0.2)) for fault in Fault]

    def actions(seed: int) -> list[object]:
        plan = Plan(PREFIX, seed, rules)
        return [plan.decide(n % 3, API, 100, is_request=n % 2 == 0) for n in range(300)]

    assert actions(1) == actions(1)
    assert actions(1) != actions(2)
    assert len({action.fault for action in actions(1) if action is not None}) == len(Fault)  # type: ignore[attr-defined]


def test_plan_stops() -> None:
    plan = Plan(PREFIX, 1, [Rule(Fault.DROP_REQUEST, (API,), rate=1.0)])
    assert plan.decide(0, API, 100, is_request=True) is not None
    plan.stop()
    assert plan.decide(0, API, 100, is_request=True) is None


def test_plan_harms_the_frames_behind_one_that_is_harmed() -> None:
    plan = Plan(PREFIX, 1, [Rule(Fault.DROP_REQUEST, (API,), rate=0.05, burst=3)])
    harmed = [plan.decide(0, API, 100, is_request=True) is not None for _ in range(1_000)]
    runs = "".join("x" if is_harmed else " " for is_harmed in harmed).split()
    assert len(runs) > 10
    assert min(map(len, runs)) == 4
