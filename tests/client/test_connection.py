"""One connection: what it says first, how it waits, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from minikafka.client.config import Address, ClientConfig, make_ssl_context
from minikafka.client.connection import Connection
from minikafka.client.errors import AuthenticationFailed, ClientClosed, ConnectionFailed, RequestTimeout, WrongListener
from minikafka.client.handshake import open_connection
from minikafka.protocol.errors import ErrorCode, UnsupportedVersionError
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.groups import HeartbeatRequest
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.broker.eventually import eventually
from tests.client.peer import HangUp, Peer
from tests.tree import ROOT

ASK = MetadataRequest(topics=[])


def opened(peer: Peer, **options: Any) -> AbstractAsyncContextManager[Connection]:
    @asynccontextmanager
    async def connection():  # type: ignore[no-untyped-def]
        made = await open_connection(Address("127.0.0.1", peer.port), ClientConfig(**options))
        yield made
        made.close()
        await made.wait_closed()

    return connection()


async def test_the_highest_common_version_is_spoken() -> None:
    async with Peer() as peer:
        peer.served[MetadataRequest.api_key] = (3, 7)
        async with opened(peer) as connection:
            answer: MetadataResponse = await connection.request(ASK)
            assert answer.cluster_id == "peer"
            assert peer.versions[-1] == 7
            await connection.request(ASK, max_version=5)
            assert peer.versions[-1] == 5
            with pytest.raises(UnsupportedVersionError, match="serves versions 3 to 7, here 8 to 12"):
                await connection.request(ASK, min_version=8)
            del connection.versions._ranges[HeartbeatRequest.api_key]
            with pytest.raises(UnsupportedVersionError, match="does not serve Heartbeat"):
                await connection.request(HeartbeatRequest(group_id="", generation_id=0, member_id=""))


@pytest.mark.parametrize("highest", [0, 2, 3])
async def test_an_old_broker_is_asked_as_it_understands(highest: int) -> None:
    async with Peer() as peer:
        peer.served[ApiVersionsRequest.api_key] = (0, highest)
        async with opened(peer) as connection:
            assert peer.versions == [highest]
            await connection.request(ASK)


async def test_answers_find_their_questions_and_a_cancelled_one_is_dropped() -> None:
    async with Peer() as peer, opened(peer) as connection:
        first = asyncio.ensure_future(connection.request(MetadataRequest(topics=None)))
        second = asyncio.ensure_future(connection.request(ASK))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).topics == []
        assert connection.in_flight == 0
        assert connection.is_open


async def test_a_question_without_an_answer_ends_the_connection() -> None:
    async with Peer() as peer, opened(peer) as connection:
        peer.answers[MetadataRequest] = lambda _: None
        late = connection.send_nowait(ASK, timeout_ms=50)
        behind = connection.send_nowait(ASK)
        with pytest.raises(RequestTimeout):
            await late
        with pytest.raises(ConnectionFailed, match="an earlier request was not answered in time"):
            await behind
        with pytest.raises(ConnectionFailed):
            await connection.request(ASK)
        assert not connection.is_open


async def test_a_broker_that_hangs_up() -> None:
    async with Peer() as peer, opened(peer) as connection:
        await connection.request(ASK)
        lost = asyncio.Event()
        connection.on_lost = lost.set

        def hang_up(_: object) -> None:
            raise HangUp

        peer.answers[MetadataRequest] = hang_up
        with pytest.raises(ConnectionFailed):
            await connection.request(ASK)
        assert lost.is_set()


async def test_closing_tells_whoever_waits() -> None:
    async with Peer() as peer, opened(peer) as connection:
        peer.answers[MetadataRequest] = lambda _: None
        waiting = connection.send_nowait(ASK)
        connection.close()
        with pytest.raises(ClientClosed):
            await waiting


async def test_an_idle_connection_is_closed() -> None:
    async with Peer() as peer, opened(peer, connections_max_idle_ms=50) as connection:
        await connection.request(ASK)
        await eventually(lambda: not connection.is_open, 5)
        with pytest.raises(ConnectionFailed, match="idle"):
            await connection.request(ASK)


async def test_a_broker_that_does_not_read_makes_the_writer_wait() -> None:
    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with serving(ignore) as address:
        connection = await Connection.dial(address, ClientConfig(), None, None)
        connection.versions._ranges[MetadataRequest.api_key] = (0, 12)
        large = MetadataRequest(topics=None, allow_auto_topic_creation=True)
        assert connection.can_write
        connection._transport.write(bytes(1 << 24))  # type: ignore[union-attr]
        assert not connection.can_write
        waiting = asyncio.ensure_future(connection.request(large))
        await asyncio.sleep(0.05)
        assert connection.in_flight == 0
        connection.break_off(ConnectionFailed("enough"))
        with pytest.raises(ConnectionFailed, match="enough"):
            await waiting


# ------------------------------------------------------------------------------------- what is no Kafka listener


@asynccontextmanager
async def serving(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]):  # type: ignore[no-untyped-def]
    tasks: list[asyncio.Task[Any]] = []

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        try:
            await serve(reader, writer)
        except (asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(run, "127.0.0.1", 0)
    try:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    "greeting",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"SSH-2.0-OpenSSH\r\n",
        b"\x00\x00\x00\x01x",
        b"",
    ],
    ids=["http", "tls", "ssh", "short", "nothing"],
)
async def test_something_else_listens_there(greeting: bytes) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(greeting)
        await writer.drain()

    async with serving(greet) as address:
        with pytest.raises(WrongListener, match=str(address.port)):
            await open_connection(address, ClientConfig())


async def test_nobody_answers() -> None:
    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with serving(ignore) as address:
        with pytest.raises(ConnectionFailed, match="not connected within 100 ms"):
            await open_connection(address, ClientConfig(socket_connection_setup_timeout_ms=100))
    with pytest.raises(ConnectionFailed, match="Connection refused"):
        await open_connection(address, ClientConfig())


# ----------------------------------------------------------------------------------------------------------- TLS

CERTIFICATE = ROOT / "tests" / "client" / "localhost-tls.pem"
TLS = {"security_protocol": "SSL", "ssl_cafile": str(CERTIFICATE)}


async def open_tls(peer: Peer, host: str, **options: Any) -> Connection:
    config = ClientConfig(**options)
    return await open_connection(Address(host, peer.port), config, make_ssl_context(config))


async def test_tls() -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(CERTIFICATE)
    async with Peer(tls=server) as peer:
        connection = await open_tls(peer, "localhost", **TLS)
        assert (await connection.request(ASK)).cluster_id == "peer"
        connection.close()
        await connection.wait_closed()
        # The certificate is not for this name, unless names do not matter.
        with pytest.raises(AuthenticationFailed, match=r"127\.0\.0\.1"):
            await open_tls(peer, "127.0.0.1", **TLS)
        connection = await open_tls(peer, "127.0.0.1", **TLS, ssl_check_hostname=False)
        connection.close()
        await connection.wait_closed()
        with pytest.raises(AuthenticationFailed, match="self-signed certificate"):
            await open_tls(peer, "localhost", security_protocol="SSL")
        with pytest.raises(WrongListener):
            await open_tls(peer, "localhost")


async def test_tls_where_there_is_none() -> None:
    async with Peer() as peer:
        with pytest.raises(WrongListener, match="no TLS connection"):
            await open_tls(peer, "localhost", **TLS)


# ---------------------------------------------------------------------------------------------------- logging in

LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_plain_username": "me", "sasl_plain_password": "pass"}


def with_login(peer: Peer, lifetime_ms: int = 0, **refusal: Any) -> None:
    peer.answers[SaslHandshakeRequest] = lambda _: SaslHandshakeResponse(mechanisms=["PLAIN"])
    peer.answers[SaslAuthenticateRequest] = lambda _: SaslAuthenticateResponse(
        session_lifetime_ms=lifetime_ms, **refusal
    )


async def test_logging_in() -> None:
    async with Peer() as peer:
        with_login(peer)
        async with opened(peer, **LOGIN) as connection:
            await connection.request(ASK)
        (sent,) = peer.asked(SaslAuthenticateRequest)
        assert bytes(sent.auth_bytes) == b"\0me\0pass"


async def test_a_login_that_is_refused() -> None:
    async with Peer() as peer:
        with_login(peer, error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="no such user")
        with pytest.raises(AuthenticationFailed, match="no such user") as refused:
            async with opened(peer, **LOGIN):
                pass
        assert not refused.value.retriable


async def test_a_mechanism_that_is_not_offered() -> None:
    async with Peer() as peer:
        with_login(peer)
        peer.answers[SaslHandshakeRequest] = lambda _: SaslHandshakeResponse(
            error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["GSSAPI"]
        )
        with pytest.raises(AuthenticationFailed, match="does not offer PLAIN; it offers GSSAPI"):
            async with opened(peer, **LOGIN):
                pass


async def test_a_login_that_runs_out_expires_the_connection() -> None:
    async with Peer() as peer:
        with_login(peer, lifetime_ms=100)
        async with opened(peer, **LOGIN) as connection:
            assert not connection.is_expired
            await eventually(lambda: connection.is_expired, 5)


async def test_answer_that_nobody_waits_for_any_more_fails_without_a_log() -> None:
    """asyncio logs an exception of a future that nobody has looked at."""
    noise: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
    async with Peer() as peer, opened(peer) as connection:
        peer.answers[MetadataRequest] = lambda _: None
        answer = connection.send_nowait(ASK)
        await eventually(lambda: peer.asked(MetadataRequest))
        peer.hang_up()
        await eventually(answer.done)
        del answer
        gc.collect()
    assert noise == []
