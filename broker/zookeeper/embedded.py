"""A real ZooKeeper of one or three nodes as child processes, for `minikafka up` and for tests.

It listens on the loopback interface only. Its nodes end with this process, even if it is killed, but not by Ctrl-C at
the terminal: the brokers need them until they have stopped.

    folder/node-1/   zoo.cfg, output.log, and data/ with the snapshots and logs
    folder/.lock     held while the nodes run: two ZooKeepers would write to the same files without noticing
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from minikafka.broker.zookeeper.kit import Kit, cache_folder, find_kit
from minikafka.broker.zookeeper.zk_words import is_serving

HOST: Final = "127.0.0.1"

_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# For a process that is small and ready soon rather than fast in the long run.
_JAVA_OPTIONS: Final = ("-Xmx128m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
# What Java has to say about its archive is for people who make one.
_QUIET_JAVA: Final = "-Xlog:disable"

# Run by a Python that then turns into Java: 1 is PR_SET_PDEATHSIG, the signal that a process gets when its parent ends.
_END_WITH_PARENT: Final = (
    "import ctypes, os, sys\n"
    f"ctypes.CDLL(None).prctl(1, {int(signal.SIGTERM)})\n"
    "if os.getppid() == int(sys.argv[1]): os.execv(sys.argv[2], sys.argv[2:])"
)

_POLL_SECONDS: Final = 0.02
_PROBE_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 10.0
_EXPLAIN_SECONDS: Final = 10.0
_LOG_LINES: Final = 20


class ZooKeeperFailed(Exception):
    """It did not start; the message has the end of its log."""


class Ports(NamedTuple):
    """Where one node listens: to clients, to the other nodes, and for elections."""

    client: int
    quorum: int
    election: int


class Node:
    """One server process, and its folder."""

    def __init__(self, number: int, folder: Path, ports: Ports) -> None:
        self.number = number
        self.folder = folder
        self.ports = ports
        self.process: subprocess.Popen[bytes] | None = None
        # Where Java is to leave its classes when it ends, for the next start.
        self.new_archive: Path | None = None

    @property
    def config(self) -> Path:
        return self.folder / "zoo.cfg"

    @property
    def log(self) -> Path:
        return self.folder / "output.log"

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log_tail(self) -> str:
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        # Without a logger it says so, and nothing else.
        return "\n".join([line for line in lines if not line.startswith("SLF4J")][-_LOG_LINES:])


class ZooKeeperServer:
    """See the module's description. It is not tied to an event loop: started in one, it can be stopped in another."""

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 1,
        ports: Sequence[int] = (),
        tick_ms: int = 500,
        is_durable: bool = True,
        kit: Kit | None = None,
        cache: Path | None = None,
    ) -> None:
        """`ports` are for clients; free ones are taken if there are none. Not durable: a power cut loses writes."""
        assert not ports or len(ports) == nodes
        self._folder = folder
        self._kit = kit or find_kit(os.environ)
        self._tick_ms = tick_ms
        self._is_durable = is_durable
        self._archive = self._kit.archive(cache or cache_folder(os.environ))
        self._lock: int | None = None
        free = _free_ports(3 * nodes)
        clients = list(ports) or free[:nodes]
        self.nodes = [
            Node(index + 1, folder / f"node-{index + 1}", Ports(clients[index], *free[nodes + index :: nodes]))
            for index in range(nodes)
        ]

    @property
    def connect(self) -> str:
        """For `zookeeper.connect`."""
        return ",".join(f"{HOST}:{node.ports.client}" for node in self.nodes)

    async def start(self, timeout_seconds: float = 30.0) -> None:
        """Start all nodes and wait until they serve; ZooKeeperFailed if they do not."""
        self._acquire_lock()
        try:
            for node in self.nodes:
                self._prepare(node)
                self._spawn(node)
            await self._all_serve(self.nodes, timeout_seconds)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        await asyncio.gather(*(self.stop_node(node) for node in self.nodes))
        self._release_lock()

    async def start_node(self, node: Node, timeout_seconds: float = 30.0) -> None:
        """Start a node again that was stopped."""
        assert not node.is_running()
        self._spawn(node)
        await self._all_serve([node], timeout_seconds)

    async def stop_node(self, node: Node, *, kill: bool = False) -> None:
        """Ask it to end, and make it if it does not; or, as a crash would, end it at once."""
        process, node.process = node.process, None
        if process is None:
            return
        is_early_end = process.poll() is not None
        # Both do nothing if the process has ended and was waited for, so its number cannot be another's by now.
        process.kill() if kill else process.terminate()
        if not await asyncio.to_thread(_ended, process, _STOP_SECONDS):
            process.kill()
            await asyncio.to_thread(process.wait)
        if not is_early_end:
            self._keep_archive(node)

    # Starting

    def _prepare(self, node: Node) -> None:
        _refuse_taken(node.ports.client)
        data = node.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        node.config.write_text("".join(f"{line}\n" for line in self._config(node, data)))
        (data / "myid").write_text(f"{node.number}\n")

    def _config(self, node: Node, data: Path) -> Iterator[str]:
        yield f"dataDir={data.absolute()}"
        yield f"clientPort={node.ports.client}"
        yield f"clientPortAddress={HOST}"
        yield f"tickTime={self._tick_ms}"
        yield "minSessionTimeout=1000"
        yield "maxSessionTimeout=60000"
        yield "maxClientCnxns=0"
        yield "admin.enableServer=false"
        yield "4lw.commands.whitelist=srvr,ruok,mntr,cons"
        yield "autopurge.snapRetainCount=3"
        yield "autopurge.purgeInterval=1"
        if not self._is_durable:
            yield "forceSync=no"
        if len(self.nodes) > 1:
            # In ticks: how long a node may take to catch up at the start, and how far it may lag later.
            yield "initLimit=20"
            yield "syncLimit=10"
            yield "standaloneEnabled=false"
            yield "quorumListenOnAllIPs=false"
            for each in self.nodes:
                yield f"server.{each.number}={HOST}:{each.ports.quorum}:{each.ports.election}"

    def _command(self, node: Node, *, logs: bool = False) -> list[str]:
        options = [*_JAVA_OPTIONS]
        if not logs:
            options += self._archive_options(node)
        path = self._kit.class_path(logs=logs)
        return [str(self._kit.java.program), *options, "-cp", path, _MAIN, str(node.config)]

    def _archive_options(self, node: Node) -> list[str]:
        if self._archive is None:
            return []
        if self._archive.exists():
            return [_QUIET_JAVA, f"-XX:SharedArchiveFile={self._archive}"]
        if node.number > 1:
            return []
        # It takes half a second at the end, once.
        node.new_archive = node.folder / "classes.jsa"
        return [_QUIET_JAVA, f"-XX:ArchiveClassesAtExit={node.new_archive}"]

    def _spawn(self, node: Node) -> None:
        command = self._command(node)
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _END_WITH_PARENT, str(os.getpid()), *command]
        with node.log.open("ab") as output:
            node.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    async def _all_serve(self, nodes: Sequence[Node], timeout_seconds: float) -> None:
        try:
            async with asyncio.timeout(timeout_seconds):
                await asyncio.gather(*map(self._serves, nodes))
        except TimeoutError:
            tails = "\n".join(tail for node in nodes if (tail := node.log_tail()))
            raise ZooKeeperFailed(f"ZooKeeper does not serve after {timeout_seconds:g} s\n{tails}".rstrip()) from None

    async def _serves(self, node: Node) -> None:
        while not await asyncio.to_thread(is_serving, HOST, node.ports.client, _PROBE_SECONDS):
            if not node.is_running():
                raise ZooKeeperFailed(await asyncio.to_thread(self._explain, node))
            await asyncio.sleep(_POLL_SECONDS)

    def _explain(self, node: Node) -> str:
        """Why it ended. What starts fast has no logger, so it is started once more with one, to end the same way."""
        code = None if node.process is None else node.process.returncode
        try:
            again = subprocess.run(self._command(node, logs=True), capture_output=True, timeout=_EXPLAIN_SECONDS)
            output = again.stdout + again.stderr
        except subprocess.TimeoutExpired as expired:
            output = expired.stdout or b""
        said = node.log_tail().splitlines() + output.decode(errors="replace").splitlines()
        last = [line for line in said if line.strip()][-_LOG_LINES:]
        return "\n".join([f"ZooKeeper node {node.number} ended with code {code}", *last])

    # The archive, the lock

    def _keep_archive(self, node: Node) -> None:
        """Put the archive in its place, whole: only now is it known to be complete."""
        new, node.new_archive = node.new_archive, None
        if new is None or self._archive is None or not new.exists():
            return
        # It only saves time, so a full or read-only disk is no error.
        with contextlib.suppress(OSError):
            self._archive.parent.mkdir(parents=True, exist_ok=True)
            beside = self._archive.with_suffix(f".{os.getpid()}")
            shutil.copyfile(new, beside)
            beside.replace(self._archive)
            new.unlink()

    def _acquire_lock(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise ZooKeeperFailed(f"{self._folder} is in use by another ZooKeeper of ours") from None
        self._lock = lock

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _ended(process: subprocess.Popen[bytes], timeout_seconds: float) -> bool:
    """Whether a process ends in time. Blocks."""
    try:
        process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _free_ports(count: int) -> list[int]:
    """Ports that are free now, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ZooKeeperFailed(f"ZooKeeper cannot listen on {HOST}:{port}: {error.strerror}") from None
