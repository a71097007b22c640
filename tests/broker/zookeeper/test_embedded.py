"""ZooKeeper as a child process: it serves, it ends, and if it cannot start it says why."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minikafka.broker.zookeeper.coord import SessionState, insist
from minikafka.broker.zookeeper.embedded import Node, ZooKeeperFailed, ZooKeeperServer
from minikafka.broker.zookeeper.kit import find_kit
from minikafka.broker.zookeeper.zk import ZkCoord
from tests.broker.zookeeper.worlds import SESSION_TIMEOUT_MS, Diary

pytestmark = pytest.mark.needs("java")


async def open_session(server: ZooKeeperServer) -> ZkCoord:
    coord = ZkCoord(server.connect, session_timeout_ms=SESSION_TIMEOUT_MS)
    await coord.start()
    return coord


async def test_what_was_written_is_there_after_a_restart(tmp_path: Path, zookeeper_cache: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = ZooKeeperServer(tmp_path, ports=[port], cache=zookeeper_cache)
    assert server.connect == f"127.0.0.1:{port}"
    await server.start()
    try:
        coord = await open_session(server)
        await coord.create("/a", b"1")
        first, diary = coord.session, Diary(coord)
        await server.stop_node(server.nodes[0], kill=True)
        await diary.until(SessionState.SUSPENDED)
        await server.start_node(server.nodes[0])
        assert (await insist(coord, lambda: coord.get("/a")))[0] == b"1"
        assert coord.session == first
        await coord.close()
    finally:
        await server.stop()
    assert not server.nodes[0].is_running()


async def test_three_nodes_survive_the_loss_of_their_leader(tmp_path: Path, zookeeper_cache: Path) -> None:
    server = ZooKeeperServer(tmp_path, nodes=3, is_durable=False, cache=zookeeper_cache)
    await server.start()
    try:
        coord, other = [await open_session(server) for _ in range(2)]
        await coord.create("/a", b"1", ephemeral=True)
        session = coord.session
        (leader,) = [node for node in server.nodes if "Mode: leader" in await srvr(node)]
        await server.stop_node(leader, kill=True)
        stat = await insist(coord, lambda: coord.set("/a", b"2"))
        assert stat.ephemeral_owner == coord.session.id == session.id

        async def read() -> bytes:
            await other.sync()
            return (await other.get("/a"))[0]

        assert await insist(other, read) == b"2"
        await asyncio.gather(coord.close(), other.close())
    finally:
        await server.stop()


async def srvr(node: Node) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", node.ports.client)
    writer.write(b"srvr")
    said = await reader.read()
    writer.close()
    return said.decode()


async def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = ZooKeeperServer(tmp_path, ports=[port])
        with pytest.raises(ZooKeeperFailed, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            await server.start()
    # Nothing is left that would be in the way of another attempt.
    assert server.nodes[0].process is None
    ZooKeeperServer(tmp_path, ports=[port])._acquire_lock()


async def test_a_folder_that_is_in_use(tmp_path: Path) -> None:
    first, second = ZooKeeperServer(tmp_path), ZooKeeperServer(tmp_path)
    first._acquire_lock()
    with pytest.raises(ZooKeeperFailed, match="is in use by another ZooKeeper of ours"):
        await second.start()
    await first.stop()
    second._acquire_lock()
    await second.stop()


async def test_why_it_did_not_start(tmp_path: Path, zookeeper_cache: Path) -> None:
    """What starts fast has no logger, and would say nothing."""
    data = tmp_path / "node-1" / "data" / "version-2"
    data.mkdir(parents=True)
    (data / "log.1").write_bytes(b"this is no log of transactions")
    server = ZooKeeperServer(tmp_path, cache=zookeeper_cache)
    with pytest.raises(ZooKeeperFailed, match=r"node 1 ended with code 1\n(.*\n)*.*No snapshot found, but there are"):
        await server.start()
    assert server.nodes[0].process is None


async def test_a_server_that_never_serves(tmp_path: Path) -> None:
    kit = find_kit(os.environ)
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho cannot go on\nexec sleep 60\n")
    program.chmod(0o755)
    stuck = type(kit)(type(kit.java)(program, 17), kit.jars, ())
    server = ZooKeeperServer(tmp_path / "data", kit=stuck)
    with pytest.raises(ZooKeeperFailed, match=r"ZooKeeper does not serve after 0.3 s\ncannot go on"):
        await server.start(0.3)
    assert server.nodes[0].process is None


def stubborn() -> subprocess.Popen[bytes]:
    """A process that does not end when it is asked to."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


async def test_one_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.broker.zookeeper.embedded._STOP_SECONDS", 0.1)
    server = ZooKeeperServer(tmp_path)
    process = server.nodes[0].process = stubborn()
    await server.stop()
    assert process.returncode == -signal.SIGKILL


def state(number: int) -> str:
    """What a process is doing, in one letter; Z if it has ended, and "" if its parent knows."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return ""


def wait_for_end(number: int) -> None:
    while state(number) not in ("Z", ""):
        time.sleep(0.01)


PARENT = """
import asyncio, sys
from pathlib import Path
from minikafka.broker.zookeeper.embedded import ZooKeeperServer

async def main() -> None:
    server = ZooKeeperServer(Path(sys.argv[1]), cache=Path(sys.argv[2]))
    await server.start()
    print(server.nodes[0].process.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has ended")
async def test_it_ends_with_the_process_that_started_it(tmp_path: Path, zookeeper_cache: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path), str(zookeeper_cache)]
    parent = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    assert state(child) not in ("Z", "")
    # Ctrl-C at the terminal is for the parent alone.
    assert os.getpgid(child) != os.getpgid(parent.pid)
    parent.kill()
    await parent.wait()
    async with asyncio.timeout(10):
        await asyncio.to_thread(wait_for_end, child)


async def test_the_archive_is_made_once_and_then_used(tmp_path: Path) -> None:
    if not find_kit(os.environ).java.can_archive:
        pytest.skip("this Java cannot keep its classes")
    cache = tmp_path / "cache"
    server = ZooKeeperServer(tmp_path / "data", cache=cache, is_durable=False)
    assert any(option.startswith("-XX:ArchiveClassesAtExit=") for option in server._command(server.nodes[0]))
    await server.start()
    await server.stop()
    (archive,) = cache.iterdir()
    assert f"-XX:SharedArchiveFile={archive}" in server._command(server.nodes[0])
    # A broken one is not used by Java, and does no harm.
    archive.write_bytes(b"no archive" * 1000)
    await server.start()
    await server.stop()


@pytest.mark.parametrize("is_made", [True, False])
def test_an_archive_that_cannot_be_kept(tmp_path: Path, is_made: bool) -> None:
    """It only saves time: whatever goes wrong with it is no error."""
    cache = tmp_path / "cache"
    cache.write_text("not a folder")
    server = ZooKeeperServer(tmp_path / "data", cache=cache)
    server.nodes[0].new_archive = tmp_path / "classes.jsa"
    if is_made:
        server.nodes[0].new_archive.touch()
    server._keep_archive(server.nodes[0])
    assert cache.read_text() == "not a folder"
