"""Starting all processes of a cluster, reporting what happens to them, stopping them.

ZooKeeper and the brokers are started at the same time: Java needs a while, and so does Python; brokers ask for
ZooKeeper until it is there. Nothing is started again by itself: whoever kills a broker wants to see what happens then.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from minikafka.broker.config.properties import format_properties
from minikafka.broker.up.child import Child, broker_command, child_environment, describe_end
from minikafka.broker.up.folder import Folder
from minikafka.broker.up.plan import HOST, Plan, UpError
from minikafka.broker.zookeeper.embedded import ZooKeeperFailed, ZooKeeperServer

_LOOK_SECONDS: Final = 0.5

Command = Callable[[Path], Sequence[str]]


class Cluster:
    """See the module's description."""

    def __init__(self, plan: Plan, folder: Folder, options: Sequence[str] = (), command: Command | None = None) -> None:
        """`options` are for every broker's command line; `command` makes another one of its properties file."""
        self._plan = plan
        self._folder = folder
        make = command or (lambda path: broker_command(path, options))
        count = len(plan.brokers)
        self._children = [Child(each, count, make(folder.properties(each.id)), say) for each in plan.brokers]
        self._zookeeper = _zookeeper(plan, folder)
        self._told = asyncio.Event()

    async def run(self) -> None:
        """Start everything, and return when it was told to stop and everything has. UpError if it does not start."""
        try:
            if not await self._start():
                say("stopped before it was ready")
                return
            self._folder.write_cluster(self._description())
            _print(sys.stdout, "\n".join(self._table()))
            watching = asyncio.gather(*map(self._watch, self._children), self._watch_zookeeper())
            await self._told.wait()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            say("stopping")
        finally:
            await self._stop()

    def tell_to_stop(self) -> None:
        """Have it stop in good order; told again, at once."""
        if self._told.is_set():
            say("killing what is left")
            for child in self._children:
                child.kill()
        self._told.set()

    # Starting

    async def _start(self) -> bool:
        """Whether everything is ready; not if we are told to stop before."""
        starting = asyncio.ensure_future(self._start_all())
        waiting = asyncio.ensure_future(self._told.wait())
        await asyncio.wait([starting, waiting], return_when=asyncio.FIRST_COMPLETED)
        for task in (starting, waiting):
            task.cancel()
        await asyncio.gather(starting, waiting, return_exceptions=True)
        if starting.cancelled():
            return False
        starting.result()
        return True

    async def _start_all(self) -> None:
        environ = child_environment(os.environ)
        for child in self._children:
            path = self._folder.properties(child.plan.id)
            content = self._plan.properties(child.plan, self._folder.log_dir(child.plan.id))
            path.write_text(format_properties(content))
        waits = []
        if self._zookeeper is not None:
            waits.append(asyncio.ensure_future(self._zookeeper.start()))
            # It starts its processes at once and then waits for them; so that they come before ours.
            await asyncio.sleep(0)
        for child in self._children:
            await child.start(environ)
            waits.append(asyncio.ensure_future(child.ready()))
        try:
            await asyncio.gather(*waits)
        except ZooKeeperFailed as error:
            raise UpError(str(error)) from error
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    # Running

    async def _watch(self, child: Child) -> None:
        code = await child.ended()
        if not child.is_told_to_stop:
            path = self._folder.properties(child.plan.id)
            say(f"{child.name} (pid {child.pid}) {describe_end(code)}; the others run on")
            say(f"to start it again: minikafka broker --config {path}")

    async def _watch_zookeeper(self) -> None:
        if self._zookeeper is None:
            return
        alive = list(self._zookeeper.nodes)
        while alive:
            await asyncio.sleep(_LOOK_SECONDS)
            for node in [each for each in alive if not each.is_running()]:
                alive.remove(node)
                say("\n".join([f"zookeeper-{node.number} has ended", node.log_tail()]).rstrip())

    def _description(self) -> dict[str, Any]:
        """The content of cluster.json."""
        brokers = [
            {
                "id": each.plan.id,
                "pid": each.pid,
                "host": HOST,
                "port": each.plan.port,
                "http_port": each.plan.http_port,
            }
            for each in self._children
        ]
        nodes = [] if self._zookeeper is None else self._zookeeper.nodes
        zookeeper = [
            {"id": each.number, "pid": each.process.pid, "host": HOST, "port": each.ports.client}
            for each in nodes
            if each.process is not None
        ]
        return {"brokers": brokers, "zookeeper": zookeeper}

    def _table(self) -> Iterator[str]:
        told = self._description()
        yield "minikafka is ready"
        yield ""
        for each in told["brokers"]:
            page = f"http://{HOST}:{each['http_port']}/metrics"
            yield _row(f"broker-{each['id']}", f"{HOST}:{each['port']}", f"pid {each['pid']}", page)
        for each in told["zookeeper"]:
            yield _row(f"zookeeper-{each['id']}", f"{HOST}:{each['port']}", f"pid {each['pid']}")
        if not told["zookeeper"]:
            yield _row("zookeeper", self._plan.zookeeper_connect)
        yield _row("data", str(self._folder.path))
        yield ""
        yield "Ctrl-C stops it."

    # Stopping

    async def _stop(self) -> None:
        """Brokers first: to leave in good order they need ZooKeeper."""
        await asyncio.gather(*(child.stop() for child in self._children))
        if self._zookeeper is not None:
            await self._zookeeper.stop()


def _zookeeper(plan: Plan, folder: Folder) -> ZooKeeperServer | None:
    ports = plan.zookeeper_ports
    return ZooKeeperServer(folder.zookeeper, nodes=len(ports), ports=ports) if ports else None


def _row(*cells: str) -> str:
    return "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, (12, 16, 12, 0), strict=False)).rstrip()


def say(line: str) -> None:
    _print(sys.stderr, line)


def _print(stream: Any, text: str) -> None:
    # A terminal that is gone is no reason to leave the brokers alone.
    with contextlib.suppress(OSError, ValueError):
        print(text, file=stream, flush=True)
