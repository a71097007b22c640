"""How calls are run, and what may come of them: a result, a KafkaError, or CancelledError for who is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Generator
from contextlib import asynccontextmanager
from typing import Any

from minikafka.client import KafkaError
from tests.client.calls.calls import Call, Names, finish

WAIT_SECONDS = 0.2
"""After this time a call that waits, for records or for partitions, is ended by closing the client."""
HANG_SECONDS = 15.0
SUSPENSIONS_MAX = 60


class Findings:
    """What must not be."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, what: str, problem: object) -> None:
        self.lines.append(f"{what}: {problem!r}" if isinstance(problem, BaseException) else f"{what}: {problem}")

    def judge(self, what: str, outcome: object) -> None:
        """Of a call that was not cancelled."""
        if isinstance(outcome, BaseException) and not isinstance(outcome, KafkaError):
            self.add(what, outcome)


async def run_together(client: Any, calls: list[Call], names: Names, findings: Findings) -> bool:
    """Several calls at once. False if the client had to be closed to end them."""
    what = " + ".join(f"{call.kind}.{call.name}" for call in calls)
    tasks = [asyncio.create_task(_run(call, client, names)) for call in calls]
    _, waiting = await asyncio.wait(tasks, timeout=WAIT_SECONDS)
    if waiting:
        try:
            async with asyncio.timeout(HANG_SECONDS):
                await client.stop()
        except TimeoutError:
            findings.add(what, "stop() hangs")
    _, hanging = await asyncio.wait(tasks, timeout=HANG_SECONDS)
    for call, task in zip(calls, tasks, strict=True):
        if task in hanging:
            findings.add(what, f"{call.name} hangs, though the client was closed")
            task.cancel()
    for call, outcome in zip(calls, await asyncio.gather(*tasks, return_exceptions=True), strict=True):
        findings.judge(f"{what}, {call.name}", outcome)
    return not waiting


async def _run(call: Call, client: Any, names: Names) -> Any:
    return await finish(call.start(client, names))


class CancelledAt:
    """Awaits something, and has the task cancelled when it is suspended for the n-th time."""

    def __init__(self, inner: Awaitable[Any], number: int) -> None:
        self._inner, self._number = inner, number
        self.is_reached = False

    def __await__(self) -> Generator[Any, Any, Any]:
        generator = self._inner.__await__()
        count = 0
        try:
            yielded = generator.send(None)
            while True:
                count += 1
                if count == self._number:
                    self.is_reached = True
                    task = asyncio.current_task()
                    assert task is not None
                    asyncio.get_running_loop().call_soon(task.cancel)
                try:
                    received = yield yielded
                except BaseException as error:
                    yielded = generator.throw(error)
                else:
                    yielded = generator.send(received)
        except StopIteration as end:
            return end.value


async def run_cancelled(client: Any, call: Call, number: int, names: Names, findings: Findings) -> bool:
    """One call, cancelled at its n-th suspension. False if it has no such one."""
    what = f"{call.kind}.{call.name} cancelled at suspension {number}"
    cancelled = CancelledAt(_run(call, client, names), number)

    async def work() -> Any:
        return await cancelled

    task = asyncio.create_task(work())
    _, hanging = await asyncio.wait([task], timeout=HANG_SECONDS)
    if hanging:
        findings.add(what, "hangs")
        task.cancel()
    outcome: object = (await asyncio.gather(task, return_exceptions=True))[0]
    if not (isinstance(outcome, asyncio.CancelledError) and cancelled.is_reached):
        findings.judge(what, outcome)
    return cancelled.is_reached


@asynccontextmanager
async def nothing_left(findings: Findings, what: str) -> AsyncIterator[None]:
    """No task survives the block, and no error of one goes unseen."""
    loop = asyncio.get_running_loop()
    before = asyncio.all_tasks()
    reported: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))
    try:
        yield
        for _ in range(5):
            # What was cancelled has to run once more to end.
            await asyncio.sleep(0)
        for task in asyncio.all_tasks() - before:
            findings.add(what, f"left a task: {task.get_coro()}")
            task.cancel()
        for context in reported:
            findings.add(what, f"{context.get('message')}: {context.get('exception')!r}")
    finally:
        loop.set_exception_handler(None)
