"""The queue of a controller: things to do, one at a time, in the order they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

from minikafka.broker.statistics import ControllerStatistics
from minikafka.broker.zookeeper.coord import Closed, CoordError, Disconnected
from minikafka.broker.zookeeper.election import ControllerFenced
from minikafka.protocol.errors import NotControllerError, UnknownServerError

_T = TypeVar("_T")

Event: TypeAlias = Callable[[], Awaitable[None]]


class Events:
    """See the module's description."""

    def __init__(self, statistics: ControllerStatistics) -> None:
        self._statistics = statistics
        self._queue: asyncio.Queue[Event] = asyncio.Queue()
        # Those who asked something and were not answered yet.
        self._asking: dict[asyncio.Future[Any], None] = {}
        self._is_closed = False

    def post(self, event: Event) -> None:
        """Have something done when its turn comes."""
        self._queue.put_nowait(event)

    async def ask(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Have something done when its turn comes, for its result; NotControllerError if its turn never comes.

        What it raises is for whoever asked: nobody may end a controller by asking for something.
        """
        if self._is_closed:
            raise NotControllerError
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._asking[answer] = None

        async def event() -> None:
            if answer.done():
                # Whoever asked has gone.
                return
            try:
                result = await work()
            except (ControllerFenced, Disconnected, Closed):
                # It is over with this controller, and so with all that is asked of it.
                raise
            except Exception as error:
                if answer.done():
                    raise
                # What ZooKeeper does not take, or has that makes no sense, concerns this one wish.
                is_refused = isinstance(error, CoordError)
                answer.set_exception(UnknownServerError(str(error)) if is_refused else error)
            else:
                if not answer.done():
                    answer.set_result(result)

        self.post(event)
        try:
            return await answer
        finally:
            self._asking.pop(answer, None)

    async def take(self) -> None:
        """Do what is next, as soon as there is something."""
        event = await self._queue.get()
        self._statistics.events += 1
        await event()

    def close(self) -> None:
        """Nothing is done any more; whoever waits for it is told so."""
        self._is_closed = True
        for answer in self._asking:
            if not answer.done():
                answer.set_exception(NotControllerError())
