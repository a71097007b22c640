"""An event loop in a thread of its own, for who has none: started with the first client, ended with the last.

Clients use it, and so does every call that waits for it: a client that another thread closes does not take the loop
away from a call that has not returned.

It is a daemon thread, so a program that forgets to close its clients still ends. A process that is forked does not have
the thread: clients from before the fork are of no use in it, and the first one it makes starts a thread of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from minikafka.client.errors import ClientClosed, IllegalState

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

    @property
    def is_alive(self) -> bool:
        """False in a process that was forked from the one in which it runs."""
        return self._thread.is_alive()

    def call(self, work: Coroutine[Any, Any, _T], timeout_s: float | None = None) -> _T:
        """Let the loop do something, and wait for what comes of it. Interrupting the wait cancels the work."""
        if threading.current_thread() is self._thread:
            work.close()
            raise IllegalState("called from the client's own thread, which would wait for itself")
        if not _use(self):
            work.close()
            raise ClientClosed("the client is closed")
        try:
            if not self.is_alive:
                work.close()
                raise IllegalState("the client was started before this process was forked: make one here")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            try:
                return future.result(timeout_s)
            except BaseException:
                future.cancel()
                raise
        finally:
            release(self)

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


def _use(thread: LoopThread) -> bool:
    """Keep the thread from ending until it is given back; False if it ends already."""
    with _lock:
        thread.users += thread.users > 0
        return thread.users > 0


def release(thread: LoopThread) -> None:
    """Give it back; the last one ends it."""
    global _current
    with _lock:
        thread.users -= 1
        if thread.users or not thread.is_alive:
            return
        _current = None
    thread.stop()


def _forget() -> None:
    """In a forked process: the thread is the other one's, and nobody may be left to release the lock."""
    global _current, _lock
    _current, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
