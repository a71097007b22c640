"""An event loop in a thread of its own, for who has none: started with the first client, ended with the last.

It is a daemon thread, so a program that forgets to close its clients still ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from minikafka.client.errors import IllegalState

_T = TypeVar("_T")

_lock = threading.Lock()
_current: LoopThread | None = None


class LoopThread:
    """See the module's description. One serves all synchronous clients of a process."""

    def __init__(self) -> None:
        self.users = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="minikafka client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def call(self, work: Coroutine[Any, Any, _T], timeout_s: float | None = None) -> _T:
        """Let the loop do something, and wait for what comes of it. Interrupting the wait cancels the work."""
        if threading.current_thread() is self._thread:
            work.close()
            raise IllegalState("called from the client's own thread, which would wait for itself")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def acquire() -> LoopThread:
    """The thread, started if need be; to be given back."""
    global _current
    with _lock:
        if _current is None:
            _current = LoopThread()
        _current.users += 1
        return _current


def release(thread: LoopThread) -> None:
    """Give it back; the last one ends it."""
    global _current
    with _lock:
        thread.users -= 1
        if thread.users:
            return
        _current = None
    thread.stop()
