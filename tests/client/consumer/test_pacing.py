"""The event loop runs while a program reads, and a loop over records ends when somebody stops the consumer."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.client.consumer import Consumer
from minikafka.client.errors import ClientClosed
from tests.broker.eventually import eventually
from tests.client.consumer.reading import READ_S, open_consumer, take, values
from tests.client.consumer.test_scripted_broker import LogPeer, batch

RECORDS = 5_000


class WorkClock:
    """Goes on with the program's work, and not by itself."""

    def __init__(self) -> None:
        self.now_us = 0

    def monotonic_ms(self) -> int:
        return self.now_us // 1000

    def wall_ms(self) -> int:
        return self.monotonic_ms()


@pytest.mark.parametrize("work_us", [1, 80, 1_000, 4_000, 15_000])
@pytest.mark.parametrize("how", ["async for", "getone", "getmany", "getmany, resume"])
async def test_reading_lets_loop_run(how: str, work_us: int) -> None:
    """A task that wakes up again and again is never held up for more than 50 ms."""
    clock = WorkClock()
    count = min(RECORDS, 400_000 // work_us)
    options = {"clock": clock, "max_poll_records": 1}
    worst_us = last_us = 0

    async def wake_up() -> None:
        nonlocal worst_us, last_us
        while True:
            await asyncio.sleep(0)
            # As a timer does: one pass of the loop finds that it is due, another one runs the task.
            await asyncio.sleep(0)
            worst_us, last_us = max(worst_us, clock.now_us - last_us), clock.now_us

    async with (
        LogPeer(batch(0, RECORDS)) as peer,
        open_consumer(peer.bootstrap, "t", **options) as consumer,
    ):
        await take(consumer, 1)
        waking = asyncio.create_task(wake_up())
        await asyncio.sleep(0)
        for number in range(count - 1):
            if number == 5:
                # By now it is known how long a record takes.
                worst_us = 0
            if how == "async for":
                await anext(consumer)
            elif how == "getone":
                await consumer.getone()
            else:
                assert await consumer.getmany(timeout_ms=10_000)
            if how == "getmany, resume":
                consumer.resume(*consumer.assignment())
            clock.now_us += work_us
        waking.cancel()
        await asyncio.gather(waking, return_exceptions=True)
        # The time since it last ran counts too.
        assert max(worst_us, clock.now_us - last_us) <= 50_000


async def test_partitions_are_read_batch_by_batch_nevertheless() -> None:
    """A slice is no batch: where it ends, its batch goes on."""
    async with LogPeer(batch(0, 300), batch(300, 400)) as peer, open_consumer(peer.bootstrap, "t") as consumer:
        assert values(await take(consumer, 400)) == [*range(400)]


async def test_getmany_without_timeout_lets_records_come() -> None:
    async with LogPeer(batch(0, 3)) as peer, open_consumer(peer.bootstrap, "t") as consumer:
        async with asyncio.timeout(READ_S):
            while not await consumer.getmany():
                pass


@pytest.mark.parametrize("has_records", [True, False])
async def test_loop_ends_when_consumer_is_stopped(has_records: bool) -> None:
    async with LogPeer(batch(0, 3)) as peer:
        consumer = Consumer("t", bootstrap_servers=peer.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        seen: list[int] = []
        is_stopped = asyncio.Event()

        async def read() -> None:
            async for record in consumer:
                seen.append(int(record.value))
                if has_records:
                    await is_stopped.wait()

        reading = asyncio.create_task(read())
        await eventually(lambda: len(seen) == (1 if has_records else 3))
        await consumer.stop()
        is_stopped.set()
        await reading
        assert seen == ([0] if has_records else [0, 1, 2])
        with pytest.raises(ClientClosed):
            await consumer.getone()


async def test_loop_of_consumer_that_was_not_started() -> None:
    with pytest.raises(ClientClosed, match="not started"):
        await anext(Consumer("t"))
