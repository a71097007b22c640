"""What is true of a real ZooKeeper only: how sessions begin, who may do what, and a thread that is in nobody's way."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import uvloop
from kazoo.client import KazooClient
from kazoo.protocol.connection import _SESSION_EXPIRED
from kazoo.protocol.states import KeeperState

from minikafka.broker.zookeeper.coord import (
    AuthFailed,
    Closed,
    ConnectionLoss,
    Create,
    Disconnected,
    NoAuth,
    SessionExpired,
    SessionState,
    Unreachable,
    Waker,
    secure_acl,
)
from minikafka.broker.zookeeper.embedded import ZooKeeperServer
from minikafka.broker.zookeeper.zk import ZkCoord
from minikafka.broker.zookeeper.zk_handler import WakeSocket
from minikafka.broker.zookeeper.zk_link import IN_FLIGHT_MAX, ZkSecurity
from tests.broker.zookeeper.worlds import Diary, RealWorld

pytestmark = pytest.mark.needs("java")

CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST


@asynccontextmanager
async def serving(answer: Callable[[bytes], bytes | None]) -> AsyncIterator[int]:
    """A server that answers what comes first on a connection and closes it, or keeps it if the answer is None."""
    kept: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = answer(await reader.read(1 << 16))
        if said is None:
            kept.append(writer)
            return
        writer.write(said)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in kept:
            writer.close()


@contextmanager
def no_new_thread() -> Iterator[set[threading.Thread]]:
    before = set(threading.enumerate())
    yield before
    for thread in set(threading.enumerate()) - before:
        # One that has said its last word may still be on its way out.
        thread.join(1)
        assert not thread.is_alive(), thread


# Beginning


async def refused(connect: str, seconds: float = 0.15, **options: Any) -> str:
    """What the error says when there is no session."""
    with pytest.raises(Unreachable) as raised:
        await ZkCoord(connect, **options).start(seconds)
    return str(raised.value)


async def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        here = f"127.0.0.1:{taken.getsockname()[1]}"
        assert await refused(f"{here},{here}/root") == (
            f"no ZooKeeper within 0.15 s at {here} (Connection refused), {here} (Connection refused)"
        )


async def test_a_name_nobody_knows() -> None:
    assert "nowhere.invalid:2181 (its name cannot be resolved)" in await refused("nowhere.invalid")


async def test_a_server_that_is_only_starting_is_asked_for_no_session() -> None:
    """A session asked for too early is never answered, and would be waited for as long as a session lasts."""
    asked = []

    def answer(word: bytes) -> bytes:
        asked.append(word)
        return b"This ZooKeeper instance is not currently serving requests\n"

    async with serving(answer) as port:
        assert "(it is up, but not serving" in await refused(f"127.0.0.1:{port}")
    assert set(asked) == {b"srvr"}
    assert len(asked) > 1


async def test_a_server_that_takes_no_questions_is_asked_for_a_session() -> None:
    async with serving(lambda said: b"" if said == b"srvr" else None) as port:
        why = await refused(f"127.0.0.1:{port}", session_timeout_ms=200)
    assert "(it took the connection, but opened no session)" in why


async def test_a_start_that_failed_leaves_no_thread_behind() -> None:
    async with serving(lambda said: b"") as port:
        with no_new_thread():
            await refused(f"127.0.0.1:{port}")


@pytest.mark.parametrize("connect", ["", ":2181", "host:port"])
def test_a_connect_string_that_makes_no_sense(connect: str) -> None:
    with pytest.raises(ValueError):
        ZkCoord(connect)


async def test_the_root_is_made(real_world: RealWorld) -> None:
    real_world.root += "/deep/down"
    one, two = await asyncio.gather(real_world.open(), real_world.open())
    await one.create("/a")
    assert await two.children("/") == ["a"]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_both_event_loops(zookeeper: ZooKeeperServer, run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def main() -> None:
        async with RealWorld(zookeeper) as world:
            coord = await world.open()
            waker = Waker()
            await coord.create("/a")
            await coord.get("/a", waker)
            await asyncio.gather(*(coord.set("/a", b"%d" % index) for index in range(500)))
            assert await waker.wait() == ["/a"]
            diary = Diary(coord)
            await world.expire(coord)
            await diary.until(LOST)
            await coord.connected()

    run(main())


# Who may do what


async def test_credentials_that_are_refused(zookeeper: ZooKeeperServer) -> None:
    coord = ZkCoord(zookeeper.connect, security=ZkSecurity(auth=[("no-such-scheme", "x")]))
    with pytest.raises(AuthFailed, match="refuses our credentials"):
        await coord.start()
    with pytest.raises(AuthFailed):
        await coord.get("/")


def test_sasl_needs_a_package() -> None:
    with pytest.raises(AuthFailed, match="pure-sasl"):
        ZkCoord("127.0.0.1", security=ZkSecurity(sasl={"mechanism": "DIGEST-MD5", "username": "u", "password": "p"}))


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(ZkSecurity(auth=[("digest", "u:secret")], sasl={"password": "secret"}))


async def test_access_lists(real_world: RealWorld) -> None:
    connect = f"127.0.0.1:{real_world.port}{real_world.root}"
    ours = ZkCoord(connect, acl=secure_acl, security=ZkSecurity(auth=[("digest", "broker:secret")]))
    await ours.start()
    try:
        stranger = await real_world.open()
        for path in ("/config", "/config/users", "/config/topics", "/consumers"):
            await ours.create(path, b"x")
        await ours.multi(Create("/config/users/alice", b"x"), Create("/config/topics/t", b"x"))
        for path in ("/config/users", "/config/users/alice"):
            with pytest.raises(NoAuth):
                await stranger.get(path)
        for path in ("/config", "/config/topics", "/config/topics/t"):
            assert (await stranger.get(path))[0] == b"x"
            with pytest.raises(NoAuth):
                await stranger.set(path, b"y")
        await stranger.set("/consumers", b"y")
        assert (await ours.get("/config/users/alice"))[0] == b"x"
    finally:
        await ours.close()


# Threads


async def test_one_thread_and_it_ends(real_world: RealWorld) -> None:
    with no_new_thread() as before:
        coord = await real_world.open()
        await coord.create("/a")
        assert len(set(threading.enumerate()) - before) == 1
        await coord.close()


def test_waking_never_blocks() -> None:
    """The pair has room for a few hundred bytes, and nobody reads while there is no connection."""
    ours, theirs = socket.socketpair()
    wake = WakeSocket(ours)
    assert [wake.send(b"\0") for _ in range(10_000)] == [1] * 10_000
    # Enough of them have arrived to make up for the others.
    theirs.setblocking(False)
    assert len(theirs.recv(1 << 16)) > IN_FLIGHT_MAX
    wake.close()
    theirs.close()


async def most_in_flight(coord: ZkCoord) -> int:
    """How many requests kazoo had at once, as seen in every turn of the loop until this is cancelled."""
    most = 0
    try:
        while True:
            most = max(most, len(coord._in_flight))
            await asyncio.sleep(0)
    except asyncio.CancelledError:
        return most


async def test_loop_runs_on_while_thousands_wait_for_a_silent_server(real_world: RealWorld) -> None:
    coord = await real_world.open()
    await coord.create("/n")
    real_world.freeze(coord)
    look = asyncio.ensure_future(most_in_flight(coord))
    asked = [asyncio.ensure_future(coord.set("/n", b"x")) for _ in range(3000)]
    while len(coord._in_flight) < IN_FLIGHT_MAX:  # noqa: ASYNC110
        await asyncio.sleep(0)
    real_world.drop(coord)
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    look.cancel()
    # Kazoo blocks the loop when it is given more than its thread can be woken for.
    assert await look == IN_FLIGHT_MAX
    # Those that were not sent yet wait for their turn, and that may be after the connection is back.
    assert {type(each) for each in outcomes[:IN_FLIGHT_MAX]} == {ConnectionLoss}
    await coord.connected()
    assert await coord.exists("/n") is not None


async def test_a_session_ends_if_the_loop_hangs(zookeeper: ZooKeeperServer, real_world: RealWorld) -> None:
    coord = ZkCoord(f"127.0.0.1:{real_world.port}{real_world.root}", session_timeout_ms=1000)
    await coord.start()
    await coord.create("/brief", ephemeral=True)
    first, diary = coord.session, Diary(coord)
    # As far as anybody can tell: the timer that shows that the loop is alive stood still for a while, and still does.
    assert coord._beat is not None
    coord._beat.cancel()
    coord._beat_seconds -= 1
    watcher = await real_world.open()
    waker = Waker()
    if await watcher.exists("/brief", waker) is not None:
        await waker.wait()
    assert await watcher.exists("/brief") is None
    coord._keep_beating()
    assert (await diary.until(CONNECTED)).id != first.id
    assert diary.states == [SUSPENDED, LOST, CONNECTED]
    await coord.close()


async def test_kazoo_giving_up_is_not_the_end(
    real_world: RealWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("minikafka.broker.zookeeper.zk_link._REVIVE_SECONDS", 0.01)
    coord = await real_world.open()
    await coord.create("/brief", ephemeral=True)
    diary = Diary(coord)
    # What kazoo does when the server refuses us after a new connection.
    coord._client._session_callback(KeeperState.AUTH_FAILED)
    await diary.until(CONNECTED)
    assert diary.states == [LOST, CONNECTED]
    await coord.create("/again", ephemeral=True)
    assert "the ZooKeeper client stopped (AUTH_FAILED)" in caplog.text


async def test_nothing_is_sent_in_a_session_that_the_loop_has_not_heard_of(real_world: RealWorld) -> None:
    coord = ZkCoord(f"127.0.0.1:{real_world.port}{real_world.root}")
    await coord.start()
    try:
        # Kazoo's own means for tests. It goes on by itself then, while the loop is held up here.
        coord._client._call(_SESSION_EXPIRED, coord._client.handler.async_result())
        while (now := coord._client.client_id) is None or now[0] == coord.session.id:
            threading.Event().wait(0.01)
        with pytest.raises(SessionExpired, match="the next session has begun"):
            await coord.create("/a")
        await coord.connected()
        assert await coord.exists("/a") is None
    finally:
        await coord.close()


async def test_closing_while_the_server_is_silent(real_world: RealWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.broker.zookeeper.zk_link._CLOSE_SECONDS", 0.1)
    with no_new_thread():
        coord = await real_world.open()
        real_world.freeze(coord)
        asked = asyncio.ensure_future(coord.get("/"))
        await asyncio.sleep(0)
        await coord.close()
    with pytest.raises(Disconnected):
        await asked
    with pytest.raises(Closed):
        await coord.get("/")


async def test_what_is_logged(real_world: RealWorld, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "minikafka"):
        coord = await real_world.open()
        first, diary = coord.session.id, Diary(coord)
        await real_world.expire(coord)
        await diary.until(CONNECTED)
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"ZooKeeper session {first:#x} is connected",
        f"ZooKeeper session {first:#x} is suspended",
        f"ZooKeeper session {first:#x} is lost",
        f"ZooKeeper session {coord.session.id:#x} is connected",
    ]


async def test_a_node_without_data_is_as_kafka_makes_it(real_world: RealWorld) -> None:
    coord = await real_world.open()
    await coord.create("/empty")
    client = KazooClient(f"127.0.0.1:{real_world.port}")
    await asyncio.to_thread(client.start)
    data, _ = await asyncio.to_thread(client.get, f"{real_world.root}/empty")
    await asyncio.to_thread(client.stop)
    await asyncio.to_thread(client.close)
    assert data is None
