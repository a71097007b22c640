"""Every pair of public calls at the same time, every call cancelled at every await, and every call after closing."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from minikafka.client import Admin, Consumer, KafkaError, Producer
from tests.client.calls.calls import Call, Names, calls_of, finish
from tests.client.calls.running import (
    HANG_SECONDS,
    SUSPENSIONS_MAX,
    Findings,
    nothing_left,
    run_cancelled,
    run_together,
)

LANES = 8
RECORDS = 200

TIMES: dict[str, Any] = {
    "request_timeout_ms": 5_000,
    "default_api_timeout_ms": 3_000,
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 100,
    "allow_auto_create_topics": False,
}
# Records that are sent stay buffered for a while.
PRODUCER_TIMES: dict[str, Any] = {**TIMES, "linger_ms": 20, "max_block_ms": 3_000, "delivery_timeout_ms": 3_000}
CONSUMER_TIMES: dict[str, Any] = {
    **TIMES,
    "fetch_max_wait_ms": 50,
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 500,
    "auto_offset_reset": "earliest",
}

numbers = itertools.count()


def make_producer(bootstrap: str, names: Names) -> Producer:
    return Producer(bootstrap_servers=bootstrap, **PRODUCER_TIMES)


def make_transactional(bootstrap: str, names: Names) -> Producer:
    # Ids of their own: to fence each other is not what is looked at.
    transactional_id = f"{names.group}-{next(numbers)}"
    return Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id, **PRODUCER_TIMES)


def make_consumer(bootstrap: str, names: Names) -> Consumer:
    consumer = Consumer(bootstrap_servers=bootstrap, group_id=f"{names.group}-{next(numbers)}", **CONSUMER_TIMES)
    consumer.assign([names.partition])
    return consumer


def make_member(bootstrap: str, names: Names) -> Consumer:
    group = f"{names.group}-{next(numbers)}"
    return Consumer(names.topic, bootstrap_servers=bootstrap, group_id=group, **CONSUMER_TIMES)


def make_admin(bootstrap: str, names: Names) -> Admin:
    return Admin(bootstrap_servers=bootstrap, **TIMES)


async def do_nothing(client: Any, names: Names) -> None:
    """Nothing is buffered or open."""


async def buffer(client: Producer, names: Names) -> None:
    await client.send(names.topic, b"buffered")


async def begin(client: Producer, names: Names) -> None:
    await client.begin_transaction()
    await client.send(names.topic, b"buffered")


class Kind(NamedTuple):
    """A client in one of its roles."""

    kind: type
    make: Callable[[str, Names], Any]
    probe: str
    """A call by which it shows that it is still of use."""
    prepare: Callable[[Any, Names], Awaitable[None]] = do_nothing
    """What it has done before the calls."""
    is_shared: bool = False
    """Whether a pair leaves nothing behind that the next one would notice."""


KINDS = {
    "producer": Kind(Producer, make_producer, "send_and_wait", buffer),
    "transactional producer": Kind(Producer, make_transactional, "metrics"),
    "producer in a transaction": Kind(Producer, make_transactional, "metrics", begin),
    "consumer": Kind(Consumer, make_consumer, "position"),
    "member of a group": Kind(Consumer, make_member, "subscription"),
    "admin": Kind(Admin, make_admin, "list_topics", is_shared=True),
}


@pytest.fixture
def names(bootstrap: str, topic: str, confluent: Any) -> Names:
    async def fill() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await producer.send_batch(topic, [b"record"] * RECORDS, partition=0)

    asyncio.run(fill())
    return Names(topic, topic)


class Run:
    """One test: clients of one kind, several at a time."""

    def __init__(self, kind: Kind, bootstrap: str, names: Names) -> None:
        self.kind, self.names, self.findings = kind, names, Findings()
        self._bootstrap = bootstrap

    @asynccontextmanager
    async def client(self, *, is_started: bool = True) -> AsyncIterator[Any]:
        client = self.kind.make(self._bootstrap, self.names)
        if is_started:
            await client.start()
            await self.kind.prepare(client, self.names)
        try:
            yield client
        finally:
            try:
                async with asyncio.timeout(HANG_SECONDS):
                    await client.stop()
            except TimeoutError:
                self.findings.add(repr(client), "stop() hangs")
            except KafkaError:
                # What a client that failed has to say when it is closed.
                pass

    async def pairs(self, pairs: Iterator[tuple[Call, Call]]) -> None:
        """One lane. A client is kept for as long as its state does not matter."""
        pair = next(pairs, None)
        while pair is not None:
            is_started = not any(call.name == "start" for call in pair)
            async with self.client(is_started=is_started) as client:
                is_good = True
                while pair is not None and is_good:
                    is_good = await run_together(client, [*pair], self.names, self.findings)
                    is_good = is_good and self.kind.is_shared and not any(call.is_of_life for call in pair)
                    pair = next(pairs, None)
                    is_good = is_good and pair is not None and not any(call.is_of_life for call in pair)

    async def cancel(self, calls: Iterator[Call]) -> None:
        """One lane."""
        for call in calls:
            for number in range(1, SUSPENSIONS_MAX):
                async with self.client(is_started=call.name != "start") as client:
                    is_reached = await run_cancelled(client, call, number, self.names, self.findings)
                    if not call.is_of_life:
                        await self.probe(client, call)
                if not is_reached:
                    break

    async def probe(self, client: Any, after: Call) -> None:
        probe = next(call for call in calls_of(self.kind.kind) if call.name == self.kind.probe)
        what = f"{probe.name} after {after.name} was cancelled"
        try:
            async with asyncio.timeout(HANG_SECONDS):
                await finish(probe.start(client, self.names))
        except TimeoutError:
            self.findings.add(what, "hangs")
        except Exception as error:
            self.findings.judge(what, error)

    async def lanes(self, lane: Callable[[Iterator[Any]], Any], work: Iterator[Any]) -> None:
        async with nothing_left(self.findings, "all of it"):
            await asyncio.gather(*(lane(work) for _ in range(LANES)))

    def show(self) -> None:
        assert not self.findings.lines, "\n".join(["", *self.findings.lines])


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, bootstrap: str, names: Names) -> Run:
    return Run(KINDS[request.param], bootstrap, names)


@pytest.mark.timeout(180)
async def test_calls_at_the_same_time_have_documented_results(run: Run) -> None:
    pairs = itertools.combinations_with_replacement(calls_of(run.kind.kind), 2)
    await run.lanes(run.pairs, iter([*pairs]))
    run.show()


@pytest.mark.timeout(180)
async def test_calls_are_cancelled_at_every_await(run: Run) -> None:
    await run.lanes(run.cancel, iter(calls_of(run.kind.kind)))
    run.show()


async def test_calls_after_closing_have_documented_results(run: Run) -> None:
    async with nothing_left(run.findings, "all of it"), run.client() as client:
        await client.stop()
        for call in calls_of(run.kind.kind):
            await run_together(client, [call], run.names, run.findings)
    run.show()


def test_calls_are_all_there() -> None:
    assert {"send", "flush", "stop", "transaction"} <= {call.name for call in calls_of(Producer)}
    assert {"getone", "commit", "unsubscribe"} <= {call.name for call in calls_of(Consumer)}
    assert {"create_topics", "close"} <= {call.name for call in calls_of(Admin)}
