"""The asyncio client, used from code that does not await.

Spark calls a source and a sink from ordinary functions. A `Link` is a cluster whose event loop runs in a thread of its
own, so that an answer is on its way while the last one is being looked at. Workers live on between micro-batches, and
so do their links: `link_to` gives the one that there is for the same options.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

from minikafka.client.cluster import Cluster
from minikafka.client.config import ClientConfig

_T = TypeVar("_T")
_C = TypeVar("_C", bound=ClientConfig)

_CLOSE_SECONDS: Final = 10.0


class LoopThread:
    """An event loop in a thread that ends with the process."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Start it; its result can be waited for later."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for it. Whoever is interrupted meanwhile takes it back."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()


class Link(Generic[_C]):
    """A cluster that is started when it is first needed."""

    def __init__(self, config: _C) -> None:
        self.config = config
        self.thread = LoopThread("minikafka client")
        self._cluster: Cluster | None = None

    @property
    def is_open(self) -> bool:
        return self._cluster is not None

    def cluster(self) -> Cluster:
        """The cluster, found if it was not yet; what that raises leaves the link as it was."""
        if self._cluster is None:
            self._cluster = self.thread.run(self._start())
        return self._cluster

    async def _start(self) -> Cluster:
        cluster = Cluster(self.config)
        try:
            await cluster.start()
        except BaseException:
            await cluster.close()
            raise
        return cluster

    def run(self, ask: Callable[[Cluster], Coroutine[Any, Any, _T]]) -> _T:
        return self.thread.run(ask(self.cluster()))

    def submit(self, ask: Callable[[Cluster], Coroutine[Any, Any, _T]]) -> Future[_T]:
        return self.thread.submit(ask(self.cluster()))

    def close(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            self.thread.run(cluster.close())
        self.thread.close()


# Keyed by process too: a process that was forked has the objects of its parent, but not its threads.
_links: Final[dict[tuple[int, ClientConfig], Link[Any]]] = {}


def link_to(config: _C) -> Link[_C]:
    """The link of this process for these options."""
    key = os.getpid(), config
    found: Link[_C] | None = _links.get(key)
    if found is None:
        found = _links[key] = Link(config)
    return found


def close_links() -> None:
    """End all links of this process."""
    for key in [key for key in _links if key[0] == os.getpid()]:
        _links.pop(key).close()
