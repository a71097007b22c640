"""Asking another broker: in order, without waiting, and with one error for whatever goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from minikafka.broker.network.net import TcpNet
from minikafka.broker.network.peer import Peer, PeerGone
from minikafka.protocol.apis import APIS
from minikafka.protocol.control import UpdateMetadataRequest, UpdateMetadataResponse
from minikafka.protocol.frame import finish_frame, start_frame
from minikafka.protocol.headers import encode_response_header
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

METADATA = UpdateMetadataRequest(controller_id=1, controller_epoch=2, broker_epoch=3, brokers=[], partitions=[])
OFFSETS = ListOffsetsRequest(replica_id=1, topics=[])


class Somebody:
    """A broker that does with its connections whatever a test wants."""

    def __init__(self) -> None:
        self.serve: Serve = silent
        self.port = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self.serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.transport.abort()
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await writer.wait_closed()

    async def connect(self, timeout_seconds: float = 10.0) -> Peer:
        return await Peer.connect(TcpNet(), "127.0.0.1", self.port, client_id="tests", timeout_seconds=timeout_seconds)

    async def stop(self) -> None:
        """Stop listening; all peers have closed by now, or will be closed."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # The loop closes sockets a turn later.
        await asyncio.sleep(0.01)


@pytest.fixture
async def somebody() -> AsyncIterator[Somebody]:
    made = Somebody()
    await made.start()
    yield made
    await made.stop()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(-1)


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def answer_to(frame: bytes) -> bytes:
    """What a broker would say to one of the requests of these tests."""
    key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
    correlation_id = int.from_bytes(frame[4:8], "big")
    if key == METADATA.api_key:
        parts = UpdateMetadataResponse(error_code=7).encode(
            0, start_frame(encode_response_header(correlation_id, False))
        )
    else:
        flexible = APIS[key].is_flexible(version) and key != 18
        answer = ListOffsetsResponse(topics=[]) if key == 2 else ApiVersionsResponse(error_code=35, api_keys=[])
        parts = answer.encode(version, start_frame(encode_response_header(correlation_id, flexible)))
    return b"".join(finish_frame(parts))


async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(answer_to(await read_frame(reader)))


async def test_requests_of_both_kinds(somebody: Somebody) -> None:
    somebody.serve = answering
    peer = await somebody.connect()
    answer = await peer.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
    assert answer.error_code == 35
    assert await peer.ask(OFFSETS, 7) == ListOffsetsResponse(topics=[])
    assert await peer.ask_control(METADATA, UpdateMetadataResponse) == UpdateMetadataResponse(error_code=7)
    assert peer.is_open
    peer.close()
    assert not peer.is_open


async def test_requests_do_not_wait_for_each_other(somebody: Somebody) -> None:
    """All are there before the first is answered, in the order in which they were asked."""
    count = 20
    keys: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = [await read_frame(reader) for _ in range(count)]
        keys.extend(int.from_bytes(frame[:2], "big") for frame in frames)
        writer.write(b"".join(map(answer_to, frames)))
        await silent(reader, writer)

    somebody.serve = serve
    peer = await somebody.connect()
    asked = [
        peer.ask_control(METADATA, UpdateMetadataResponse) if at % 3 else peer.ask(OFFSETS, 7) for at in range(count)
    ]
    answers = await asyncio.gather(*asked)
    assert keys == [6 if at % 3 else 2 for at in range(count)]
    assert [type(each) for each in answers] == [
        UpdateMetadataResponse if at % 3 else ListOffsetsResponse for at in range(count)
    ]
    peer.close()


async def test_nobody_is_there(somebody: Somebody) -> None:
    await somebody.stop()
    with pytest.raises(PeerGone, match=f"127.0.0.1:{somebody.port}"):
        await somebody.connect()


async def test_the_broker_closes_the_connection(somebody: Somebody) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer_to(await read_frame(reader)))
        await read_frame(reader)

    somebody.serve = serve
    peer = await somebody.connect()
    asked = [asyncio.create_task(peer.ask_control(METADATA, UpdateMetadataResponse)) for _ in range(3)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert results[0] == UpdateMetadataResponse(error_code=7)
    assert [type(each) for each in results[1:]] == [PeerGone, PeerGone]
    with pytest.raises(PeerGone):
        await peer.ask_control(METADATA, UpdateMetadataResponse)


async def test_no_answer_in_time(somebody: Somebody) -> None:
    peer = await somebody.connect(timeout_seconds=0.05)
    first = asyncio.create_task(peer.ask_control(METADATA, UpdateMetadataResponse))
    second = asyncio.create_task(peer.ask_control(METADATA, UpdateMetadataResponse, timeout_seconds=60))
    for each in (first, second):
        with pytest.raises(PeerGone, match="in time"):
            await each
    assert not peer.is_open


async def test_who_stops_waiting_disturbs_nobody(somebody: Somebody) -> None:
    go = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        await answering(reader, writer)

    somebody.serve = serve
    peer = await somebody.connect()
    first = asyncio.create_task(peer.ask(OFFSETS, 7))
    second = asyncio.create_task(peer.ask_control(METADATA, UpdateMetadataResponse))
    await asyncio.sleep(0)
    first.cancel()
    go.set()
    assert await second == UpdateMetadataResponse(error_code=7)
    assert first.cancelled()
    peer.close()


async def test_a_wait_is_interrupted_and_goes_on(somebody: Somebody) -> None:
    go = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        await answering(reader, writer)

    somebody.serve = serve
    peer = await somebody.connect()
    asked = peer.send(OFFSETS, 7)
    waiting = asked.answer
    asked.interrupt()
    assert await waiting is None
    go.set()
    assert await asked.answer == ListOffsetsResponse(topics=[])
    # Too late for that.
    asked.interrupt()
    assert asked.answer.done()
    peer.close()


async def test_what_is_given_up_is_nobodys_loss(somebody: Somebody) -> None:
    """Whether it is still to come or has failed: an error that nobody looks at would be reported."""
    peer = await somebody.connect()
    early, late = peer.send(OFFSETS, 7), peer.send(OFFSETS, 7)
    early.give_up()
    peer.close()
    late.give_up()
    assert early.answer.cancelled()
    assert isinstance(late.answer.exception(), PeerGone)


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x04\x00\x00\x00\x63",
        b"\x00\x00\x00\x05\x00\x00\x00\x00\xc1",
        b"\x00\x00\x00\x02\x00\x00",
    ],
    ids=["size", "correlation id", "body", "header"],
)
async def test_what_is_no_answer_ends_the_connection(somebody: Somebody, sent: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        writer.write(sent)
        await silent(reader, writer)

    somebody.serve = serve
    peer = await somebody.connect()
    with pytest.raises(PeerGone):
        await peer.ask_control(METADATA, UpdateMetadataResponse)
    assert not peer.is_open
