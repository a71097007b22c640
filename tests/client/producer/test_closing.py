"""Closing while something else goes on: other calls, other closings, cancellations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from minikafka.client.admin.admin import Admin
from minikafka.client.errors import ClientClosed
from minikafka.client.producer import Producer
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.produce import ProduceRequest
from tests.broker.eventually import eventually
from tests.client.peer import Peer
from tests.client.producer.test_faults import producer_for, values

WAIT_S = 10
STEPS = (0, 1, 2, 5, 10, 20, 50)


async def run_steps(steps: int) -> None:
    for _ in range(steps):
        await asyncio.sleep(0)


def client_tasks() -> set[str]:
    """Tasks of clients; those of the peer and of the test have names of asyncio's own."""
    return {task.get_name() for task in asyncio.all_tasks() if not task.get_name().startswith("Task-")}


async def test_two_stops_at_once_send_what_is_buffered() -> None:
    async with Peer() as peer:
        producer = producer_for(peer, linger_ms=50)
        await producer.start()
        await producer.send("t", b"x")
        await asyncio.wait_for(asyncio.gather(producer.stop(), producer.stop()), WAIT_S)
        await producer.stop()
        assert values(peer.written) == [b"x"]
        assert not client_tasks()


async def test_stop_without_flush_ends_one_that_waits_for_an_answer() -> None:
    async with Peer() as peer:
        producer = producer_for(peer)
        await producer.start()
        peer.answers[ProduceRequest] = lambda _: None
        delivery = await producer.send("t", b"x")
        waiting = asyncio.ensure_future(producer.stop())
        await eventually(lambda: peer.asked(ProduceRequest))
        await asyncio.wait_for(producer.stop(flush=False), WAIT_S)
        await asyncio.wait_for(waiting, WAIT_S)
        with pytest.raises(ClientClosed):
            await delivery


@pytest.mark.parametrize("steps", STEPS)
async def test_stop_that_is_cancelled_has_closed(steps: int) -> None:
    async with Peer() as peer:
        producer = producer_for(peer)
        await producer.start()
        await producer.send("t", b"x")
        first, second = asyncio.ensure_future(producer.stop()), asyncio.ensure_future(producer.stop())
        await run_steps(steps)
        first.cancel()
        async with asyncio.timeout(WAIT_S):
            outcomes = await asyncio.gather(first, second, return_exceptions=True)
        assert outcomes[1] is None
        with pytest.raises(ClientClosed):
            await producer.send("t", b"y")
        assert not client_tasks()


def calls_of(producer: Producer) -> dict[str, Callable[[], Awaitable[object]]]:
    return {
        "start": producer.start,
        "stop": producer.stop,
        "stop at once": lambda: producer.stop(flush=False),
        "flush": producer.flush,
        "send": lambda: producer.send("t", b"a"),
        "send_and_wait": lambda: producer.send_and_wait("t", b"b" * 100),
        "send_batch": lambda: producer.send_batch("t", [b"c"] * 3),
        "partitions_for": lambda: producer.partitions_for("t"),
        "partition_for": lambda: producer.partition_for("t", b"key"),
    }


@pytest.mark.parametrize("first", [*calls_of(Producer())])
async def test_producer_calls_in_pairs_and_cancelled_leave_nothing(first: str) -> None:
    """Each call beside the others, begun and cancelled at different steps: a KafkaError at most, and nothing stays."""
    async with Peer() as peer:
        for second in calls_of(Producer()):
            for is_started in (True, False):
                for steps in (0, 1, 3, 10):
                    producer = producer_for(peer, buffer_memory=200)
                    if is_started:
                        await producer.start()
                    tasks = [asyncio.ensure_future(calls_of(producer)[first]())]
                    await run_steps(steps)
                    tasks.append(asyncio.ensure_future(calls_of(producer)[second]()))
                    tasks.append(asyncio.ensure_future(calls_of(producer)[second]()))
                    await run_steps(steps)
                    tasks[1].cancel()
                    async with asyncio.timeout(WAIT_S):
                        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
                        await producer.stop()
                    wrong = [
                        outcome
                        for outcome in outcomes
                        if isinstance(outcome, BaseException)
                        and not isinstance(outcome, KafkaError | asyncio.CancelledError)
                    ]
                    assert not wrong, (first, second, steps)
        await eventually(lambda: not client_tasks())


async def test_admin_is_closed_by_two_at_once_and_while_it_starts() -> None:
    async with Peer() as peer:
        for steps in STEPS:
            admin = Admin(bootstrap_servers=peer.bootstrap)
            starting = asyncio.ensure_future(admin.start())
            await run_steps(steps)
            async with asyncio.timeout(WAIT_S):
                await asyncio.gather(admin.stop(), admin.close())
                outcome = (await asyncio.gather(starting, return_exceptions=True))[0]
            assert outcome is None or isinstance(outcome, ClientClosed)
            with pytest.raises(ClientClosed):
                await admin.describe_cluster()
            assert not client_tasks()
