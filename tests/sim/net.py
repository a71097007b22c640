"""A network in memory: hosts by name, connections with asyncio's protocols on both ends, and trouble on demand.

What is sent arrives in order and after a while, or waits as long as its way is cut; a cut may be one-way, and may
concern only the connections of one kind of client (the client id of their first request says which). As with TCP
nothing that was sent is lost while both ends live: it comes late, or the connection is gone.

A process that is killed leaves its connections to the system, which resets them; a host without power answers nothing.
Everything is delivered within the process that receives it, so what comes for a paused one is read when it goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any, NamedTuple, TypeVar

from minikafka.protocol.headers import decode_request_header
from minikafka.protocol.varint import Buffer
from tests.sim.loop import Process, SimLoop, current_process

_P = TypeVar("_P", bound=asyncio.BaseProtocol)

Seconds = Callable[[], float]

_FIRST_FREE_PORT = 40_000
_LENGTH_BYTES = 4


class _Mark(Enum):
    """What can be on its way besides bytes."""

    END = auto()
    RESET = auto()


class Cut(NamedTuple):
    """A way that nothing passes; of one kind of client only, unless that is empty."""

    source: str
    target: str
    client: str = ""

    def concerns(self, source: str, target: str, client: str) -> bool:
        return (self.source, self.target) == (source, target) and client.startswith(self.client)


class Network:
    """All hosts, and what is between them."""

    def __init__(self, seconds: Seconds) -> None:
        """`seconds` tells how long the next message is on its way."""
        self.seconds = seconds
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        self.loop = loop
        loop.network = self
        self.ports: dict[tuple[str, int], _Port] = {}
        self._cuts: dict[Cut, None] = {}
        self._ends: dict[End, None] = {}
        self._without_power: set[str] = set()
        self._last_port = _FIRST_FREE_PORT
        self._changed = asyncio.Event()

    def host(self, name: str) -> SimNet:
        """The network as a host sees it, from when it is on."""
        self._without_power.discard(name)
        self._look_again()
        return SimNet(self, name)

    # --------------------------------------------------------------------------------------------- trouble

    def cut(self, source: str, target: str, client: str = "") -> None:
        """Let nothing pass in this direction."""
        self._cuts[Cut(source, target, client)] = None

    def cut_both(self, one: str, other: str) -> None:
        self.cut(one, other)
        self.cut(other, one)

    def heal(self, source: str, target: str, client: str = "") -> None:
        self._cuts.pop(Cut(source, target, client), None)
        self._look_again()

    def heal_all(self) -> None:
        self._cuts.clear()
        for end in self._ends:
            end.is_stalled = False
        self._look_again()

    def stall(self, source: str, target: str, client: str) -> None:
        """Let nothing pass over the connections that a kind of client has now, until all is healed; new ones work."""
        for end in self._ends:
            if (end.peer.host, end.host, end.client) == (source, target, client):
                end.is_stalled = True

    def reset(self, one: str, other: str, *, loses: bool = False) -> None:
        """Break all connections between two hosts; both ends notice. With `loses` what is on its way never arrives."""
        for end in [each for each in self._ends if {each.host, each.peer.host} == {one, other}]:
            if loses:
                end.drop_coming()
            end.receive(_Mark.RESET)

    def lose(self, host: str, *, power: bool) -> None:
        """The processes of a host are gone; without power there is nobody who resets their connections."""
        for end in self._ends:
            if end.peer.host == host and not self.is_open(host, end.host, end.client):
                # Nobody sends it again.
                end.drop_coming()
        if power:
            self._without_power.add(host)
        for key in [each for each in self.ports if each[0] == host]:
            del self.ports[key]
        for end in [each for each in self._ends if each.host == host]:
            end.is_gone = True
            del self._ends[end]
            end.peer.receive(_Mark.RESET)

    def is_open(self, source: str, target: str, client: str = "") -> bool:
        if source in self._without_power or target in self._without_power:
            return False
        return source == target or not any(each.concerns(source, target, client) for each in self._cuts)

    def _look_again(self) -> None:
        self._changed.set()
        self._changed.clear()
        for end in list(self._ends):
            end.process_run(end.pump)

    # ----------------------------------------------------------------------------------------- connections

    async def wait_open(self, one: str, other: str) -> None:
        """Until both can reach each other, as long as that takes."""
        while not (self.is_open(one, other) and self.is_open(other, one)):
            await self._changed.wait()

    async def dial(
        self, source: str, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """A connection for whoever calls `create_connection`."""
        return await SimNet(self, source).dial(factory, host, port)

    def free_port(self) -> int:
        self._last_port += 1
        return self._last_port

    def join(self, dialling: End, accepting: End) -> None:
        dialling.peer, accepting.peer = accepting, dialling
        self._ends[dialling] = self._ends[accepting] = None

    def left_of(self, host: str) -> list[str]:
        """Ports that are open and connections that lead to others, at a host."""
        ports = [f"port {number} open" for name, number in self.ports if name == host]
        ends = [end for end in self._ends if end.host == host]
        return ports + [f"a connection of {end.client} to {end.peer.host} open" for end in ends]

    def forget(self, end: End) -> None:
        self._ends.pop(end, None)


class _Port:
    """An address of a host."""

    def __init__(self, network: Network, host: str, number: int, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self._network = network
        self.host = host
        self.number = number
        self.factory = factory
        self.process = current_process()
        self.is_listening = False

    async def listen(self) -> None:
        self.is_listening = True

    def close(self) -> None:
        self._network.ports.pop((self.host, self.number), None)


class SimNet:
    """A Net."""

    def __init__(self, network: Network, name: str) -> None:
        self._network = network
        self._name = name

    async def bind(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int, backlog: int
    ) -> _Port:
        number = port or self._network.free_port()
        if (self._name, number) in self._network.ports:
            raise OSError(f"{self._name}:{number} is taken")
        bound = self._network.ports[self._name, number] = _Port(self._network, self._name, number, factory)
        return bound

    async def connect(self, factory: Callable[[], _P], host: str, port: int) -> _P:
        return (await self.dial(factory, host, port))[1]

    async def dial(self, factory: Callable[[], _P], host: str, port: int) -> tuple[End, _P]:
        network = self._network
        await asyncio.sleep(network.seconds())
        await network.wait_open(self._name, host)
        there = network.ports.get((host, port))
        if there is None or not there.is_listening:
            raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
        own = (self._name, network.free_port())
        dialling = End(network, own, (host, port), current_process())
        accepting = End(network, (host, port), own, there.process)
        network.join(dialling, accepting)
        accepting.open_later(there.factory)
        protocol = factory()
        dialling.open(protocol)
        return dialling, protocol


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Network, own: tuple[str, int], other: tuple[str, int], process: Process | None) -> None:
        super().__init__({"sockname": own, "peername": other})
        self._network = network
        self.host = own[0]
        self.peer: End = self
        self._process = process
        self._protocol: asyncio.BaseProtocol | None = None
        # What is on its way here: when it arrives, and what it is.
        self._coming: deque[tuple[float, bytes | _Mark]] = deque()
        self._is_reading = True
        self._is_closing = False
        self.client = ""
        self.is_stalled = False
        self.is_gone = False
        """Of a process that is no more."""

    def process_run(self, call: Callable[..., object], *args: object) -> None:
        if self._process is None:
            call(*args)
        else:
            self._process.run(call, *args)

    def _call_at(self, when: float, call: Callable[..., object], *args: object) -> None:
        context = None if self._process is None else self._process.context.copy()
        self._network.loop.call_at(when, call, *args, context=context)

    def open(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    def open_later(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        """When the process gets to it."""

        def accept() -> None:
            self.open(factory())
            self.pump()

        self._call_at(self._network.loop.time(), accept)

    # ------------------------------------------------------------------------------------------- receiving

    def drop_coming(self) -> None:
        self._coming.clear()

    def receive(self, item: bytes | _Mark) -> None:
        """Something was sent to this end."""
        if self.is_gone:
            if isinstance(item, bytes):
                self.peer.receive(_Mark.RESET)
            return
        if isinstance(item, bytes):
            self._network.loop.note(item)
        arrives = self._network.loop.time() + self._network.seconds()
        if self._coming:
            arrives = max(arrives, self._coming[-1][0])
        self._coming.append((arrives, item))
        self._call_at(arrives, self.pump)

    def pump(self) -> None:
        """Deliver what has arrived."""
        network = self._network
        while (
            self._coming
            and self._coming[0][0] <= network.loop.time()
            and self._protocol is not None
            and self._is_reading
            and not self._is_closing
            and not self.is_stalled
            and network.is_open(self.peer.host, self.host, self.client)
        ):
            self._deliver(self._coming.popleft()[1])

    def _deliver(self, item: bytes | _Mark) -> None:
        if item is _Mark.RESET:
            self._lose(ConnectionResetError("reset by the peer"))
        elif item is _Mark.END:
            assert isinstance(self._protocol, asyncio.Protocol | asyncio.BufferedProtocol)
            if not self._protocol.eof_received():
                self.close()
        elif isinstance(self._protocol, asyncio.BufferedProtocol):
            self._fill(self._protocol, memoryview(item))
        else:
            assert isinstance(self._protocol, asyncio.Protocol)
            self._protocol.data_received(item)

    def _fill(self, protocol: asyncio.BufferedProtocol, data: memoryview) -> None:
        while data and self._is_reading and not self._is_closing:
            room: Any = protocol.get_buffer(len(data))
            count = min(len(room), len(data))
            room[:count] = data[:count]
            data = data[count:]
            protocol.buffer_updated(count)
        if data and not self._is_closing:
            self._coming.appendleft((0.0, bytes(data)))

    # --------------------------------------------------------------------------------------------- sending

    def write(self, data: Buffer) -> None:
        self.writelines([data])

    def writelines(self, parts: Iterable[Buffer]) -> None:
        if self._is_closing or self.is_gone:
            return
        data = b"".join(parts)
        if not self.client:
            self._name_client(data)
        self.peer.receive(data)

    def _name_client(self, data: bytes) -> None:
        """The first request tells who is dialling."""
        header, _ = decode_request_header(data[_LENGTH_BYTES:], flexible=False)
        self.client = self.peer.client = header.client_id or "?"

    def close(self) -> None:
        if not self._is_closing:
            self.peer.receive(_Mark.END)
            self._lose(None)

    def abort(self) -> None:
        if not self._is_closing:
            self.peer.receive(_Mark.RESET)
            self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self.is_gone = True
            self._network.forget(self)
            assert self._protocol is not None
            self._network.loop.call_soon(self._protocol.connection_lost, error)

    # ---------------------------------------------------------------------------------- what asyncio asks

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._network.loop.call_soon(self.pump)

    def is_reading(self) -> bool:
        return self._is_reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The network takes everything at once."""

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False
