"""Where compaction's long part runs: in a child process, or, on a simulated disk, on a thread.

Either is a `Runner`: give it a plan and it hands over one cleaned group after the other, beginning the next when it is
asked for it. Leaving off in the middle is allowed, and costs the child its life.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from minikafka.broker.replicas.cleaning_wire import LENGTH, Message, decode, encode, plan_message, read_group
from minikafka.broker.work import Work
from minikafka.storage.cleaning import CleanedGroup, CompactionPlan, CompactionStopped, Uncleanable, clean
from minikafka.storage.disk import Disk
from minikafka.storage.errors import CorruptLog, StorageError

_CHILD: Final = "minikafka.broker.replicas.cleaning_child"


class ChildDied(Exception):
    """The process ended in the middle of it: killed, or by a fault of ours that it has written to stderr."""


class Runner(Protocol):
    """See the module's description."""

    def clean(self, plan: CompactionPlan) -> AsyncGenerator[CleanedGroup, None]:
        """Clean a log; raises what `storage.cleaning.clean` does, and ChildDied."""

    async def close(self) -> None:
        """Give back what was needed for it."""


class ThreadRunner:
    """For a disk that another process cannot see."""

    def __init__(self, disk: Disk, work: Work) -> None:
        self._disk = disk
        self._work = work

    async def clean(self, plan: CompactionPlan) -> AsyncGenerator[CleanedGroup, None]:
        groups = clean(self._disk, plan)
        while (group := await self._work.run_blocking(partial(next, groups, None))) is not None:
            yield group

    async def close(self) -> None:
        """There is nothing to give back."""


class ChildRunner:
    """A process that is started when it is first needed, and again after it was closed."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def clean(self, plan: CompactionPlan) -> AsyncGenerator[CleanedGroup, None]:
        if self._process is None:
            self._process = await _start()
        is_over = False
        try:
            answer = await self._ask(plan_message(plan))
            while "group" in answer:
                yield read_group(answer)
                answer = await self._ask({"go": True})
            is_over = True
        finally:
            if not is_over:
                await self.close()
        if "error" in answer:
            raise _error(answer)

    async def _ask(self, message: Message) -> Message:
        process = self._process
        if process is None:
            raise ChildDied("it was stopped")
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(encode(message))
            await process.stdin.drain()
            (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
            return decode(await process.stdout.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ChildDied(f"process {process.pid} ended with {await process.wait()}") from None

    async def close(self) -> None:
        """End the process, in the middle of whatever it is doing."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        # The pipes first: who waits for the end of a process waits for theirs too.
        assert process.stdin is not None
        process.stdin.close()
        with suppress(ConnectionError):
            await process.stdin.wait_closed()
        await process.wait()


async def _start() -> asyncio.subprocess.Process:
    # Whatever lies in the current directory is not to be imported.
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", _CHILD, str(os.getpid())),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


def _error(answer: Message) -> Exception:
    text: str = answer["text"]
    match answer["error"]:
        case "stopped":
            return CompactionStopped(text)
        case "uncleanable":
            return Uncleanable(text)
        case "corrupt":
            return CorruptLog(answer["path"], answer["position"], text)
        case _:
            return StorageError(text)
