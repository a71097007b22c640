"""An event loop with a time of its own, in which processes can be killed and stopped.

Time passes only when there is nothing left to do, and then at once to the next timer: a minute of waiting costs
nothing, and the same calls always lead to the same run.

A process is everything that was begun by it: callbacks, timers and tasks inherit it with their context. Of a process
that is killed nothing is ever called again, no `finally` either, as after kill -9. What is due in one that is paused
waits until it is resumed, as after SIGSTOP. Whatever belongs to no process is the simulation itself.

`trace` is a checksum of the callbacks in their order (the moment, whose it was, its name, and how many more were due)
and of the bytes that the network delivers. What a callback does to a disk or to ZooKeeper is in it only as far as
other callbacks or messages follow from it.

With `shuffle`, callbacks that are due at the same moment are called in random order, as far as asyncio promises none:
those that were scheduled in one turn stay in order within their process.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import zlib
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from enum import Enum, auto
from random import Random
from typing import Any, Protocol, TypeAlias, TypeVar, TypeVarTuple, Unpack
from weakref import WeakKeyDictionary

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

STEPS_AT_ONCE_MAX = 200_000
"""Between two moments of time; whoever takes more waits for something that cannot come."""


class Stuck(Exception):
    """Nothing can happen any more, or no time will ever pass again."""


class _State(Enum):
    RUNNING = auto()
    PAUSED = auto()
    DEAD = auto()


class _Handle(asyncio.Handle):
    """A callback, and whose it is. Made with fewer questions than its base asks: there are tens of thousands a run."""

    __slots__ = ("process",)

    def __init__(
        self, callback: Callable[..., object], args: tuple[object, ...], loop: SimLoop, context: Context | None
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self.process: Process | None = self._context.get(_process)


class _Timer(asyncio.TimerHandle):
    """The same, for later."""

    __slots__ = ("process",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[object, ...],
        loop: SimLoop,
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = False
        self.process: Process | None = self._context.get(_process)


_Due: TypeAlias = _Handle | _Timer


class Process:
    """See the module's description."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tags: dict[str, bytes] = {}
        self._state = _State.RUNNING
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        self._loop = loop
        # What was due while it was paused, in order.
        self._due: list[_Due] = []
        self.context = copy_context()
        self.context.run(_process.set, self)

    @property
    def is_alive(self) -> bool:
        return self._state is not _State.DEAD

    @property
    def is_paused(self) -> bool:
        return self._state is _State.PAUSED

    def run(self, call: Callable[..., object], *args: object) -> None:
        """Have something called within the process, at once or when it goes on."""
        if self._state is _State.RUNNING:
            self.context.copy().run(call, *args)
        elif self._state is _State.PAUSED:
            self._due.append(_Handle(call, args, self._loop, self.context.copy()))

    def spawn(self, work: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
        return self.context.copy().run(lambda: self._loop.create_task(work, name=f"{self.name}: {name}"))

    def kill(self) -> None:
        self._state = _State.DEAD
        self._due.clear()
        # Its tasks are not to be collected as garbage, which would have them run to their ends.
        self._loop.remains.update(asyncio.all_tasks(self._loop))

    def pause(self) -> None:
        assert self._state is _State.RUNNING
        self._state = _State.PAUSED

    def resume(self) -> None:
        assert self._state is _State.PAUSED
        self._state = _State.RUNNING
        due, self._due = self._due, []
        for handle in due:
            self._loop.put(handle)

    def admits(self, handle: _Due) -> bool:
        """Whether a callback is to be called now."""
        if self._state is _State.PAUSED:
            self._due.append(handle)
        return self._state is _State.RUNNING


_process: ContextVar[Process | None] = ContextVar("process", default=None)


def current_process() -> Process | None:
    """Whose callback or task is running."""
    return _process.get()


class Dialler(Protocol):
    """A network that processes can dial out to."""

    async def dial(
        self, source: str, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]: ...


class SimLoop(asyncio.BaseEventLoop):
    """See the module's description."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._queue: deque[_Due] = deque()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._numbers = itertools.count()
        self._is_over = False
        self._tags: dict[str, bytes] = {}
        self._owners: WeakKeyDictionary[asyncio.Task[Any], Process | None] = WeakKeyDictionary()
        self.steps = 0
        self.remains: set[asyncio.Task[Any]] = set()
        self.faults: list[str] = []
        """What was raised where nobody catches it."""
        self.trace = 0
        self.network: Dialler | None = None
        self.shuffle: Random | None = None

    # ---------------------------------------------------------------------------------------------- running

    def run(self, story: Coroutine[Any, Any, _T]) -> _T:
        """Run until a story has come to its end, then drop whatever is still going on."""
        asyncio._set_running_loop(self)
        try:
            told: asyncio.Task[_T] = self.create_task(story)
            while not told.done():
                self._turn()
            return told.result()
        finally:
            self._drop_all()
            self.close()
            asyncio._set_running_loop(None)

    def _turn(self) -> None:
        """Let time pass until something is due, and do all that is then to be done."""
        if not self._queue:
            if not self._timers:
                raise Stuck("nothing is due any more")
            self._now = max(self._now, self._timers[0][0])
            while self._timers and self._timers[0][0] <= self._now:
                timer = heapq.heappop(self._timers)[2]
                if not timer._cancelled:
                    self._queue.append(timer)
            self.note(repr(self._now).encode())
            if self.shuffle is not None and len(self._queue) > 1:
                self._mix(self.shuffle)
        queue, limit = self._queue, self.steps + STEPS_AT_ONCE_MAX
        while queue:
            handle = queue.popleft()
            if handle._cancelled or not (handle.process is None or handle.process.admits(handle)):
                continue
            self.steps += 1
            self.trace = zlib.crc32(self._tag(handle), self.trace ^ len(queue))
            handle._run()
            if self.steps > limit:
                raise Stuck(f"no time passes any more, last came {handle!r}")

    def _tag(self, handle: _Due) -> bytes:
        name, process = _name_of(handle), handle.process
        tags = self._tags if process is None else process.tags
        tag = tags.get(name)
        if tag is None:
            tag = tags[name] = f"{process and process.name} {name}".encode()
        return tag

    def _mix(self, rng: Random) -> None:
        """Timers of different processes that are due together have no order."""
        turns: dict[Process | None, deque[_Due]] = {}
        for handle in self._queue:
            turns.setdefault(handle.process, deque()).append(handle)
        owners = [handle.process for handle in self._queue]
        rng.shuffle(owners)
        self._queue = deque(turns[owner].popleft() for owner in owners)

    def note(self, data: bytes) -> None:
        """Add to the trace."""
        self.trace = zlib.crc32(data, self.trace)

    def _drop_all(self) -> None:
        """Close what still runs: else it would be closed whenever the garbage is collected, amid another test."""
        self._is_over = True
        for task in asyncio.all_tasks(self):
            work = task.get_coro()
            # Whatever it does on the way out happens to a world that is gone.
            with suppress(BaseException):
                assert isinstance(work, Coroutine | Generator)
                work.close()
        self._queue.clear()
        self._timers.clear()

    def tasks_of(self, process: Process) -> list[asyncio.Task[Any]]:
        """What a process has begun and not ended."""
        return [task for task in asyncio.all_tasks(self) if self._owners.get(task) is process]

    # ------------------------------------------------------------------------------------- what asyncio asks

    def create_task(
        self,
        coro: Generator[Any, None, _T] | Coroutine[Any, Any, _T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[_T]:
        task = super().create_task(coro, name=name, context=context)
        self._owners[task] = _process.get() if context is None else context.get(_process)
        return task

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._queue.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        ssl: None = None,
        server_hostname: None = None,
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Dial from the host of the running process: this is how the bundled client gets its connections."""
        assert self.network is not None and ssl is None, "there is a simulated network, and no TLS in it"
        process = current_process()
        return await self.network.dial("client" if process is None else process.name, protocol_factory, host, port)

    def run_in_executor(  # type: ignore[override]
        self, executor: None, func: Callable[[Unpack[_Ts]], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        """There are no threads: what one would do is done at the next turn."""

        async def run() -> _T:
            return func(*args)

        return self.create_task(run())

    def put(self, handle: _Due) -> None:
        """What was due once is due now."""
        self._queue.append(handle)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._is_over:
            self.faults.append(f"{context.get('message')}: {context.get('exception')!r}")


def _name_of(handle: _Due) -> str:
    """Of a task the function that it runs; numbers of tasks differ between runs in one interpreter."""
    callback: Any = handle._callback
    owner = getattr(callback, "__self__", None)
    named = owner.get_coro() if isinstance(owner, asyncio.Task) else callback
    return getattr(named, "__qualname__", "")
