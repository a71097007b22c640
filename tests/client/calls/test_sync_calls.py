"""Every pair of public calls of the synchronous clients, from two threads at the same time."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import Any, NamedTuple

import pytest

from minikafka.client import KafkaError, sync
from tests.client.calls.calls import Call, Names, calls_of, finish_synchronously
from tests.client.calls.running import HANG_SECONDS, WAIT_SECONDS, Findings
from tests.client.calls.test_calls import CONSUMER_TIMES, PRODUCER_TIMES, RECORDS, TIMES

LANES = 6

numbers = itertools.count()


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    """In a daemon thread, which keeps nobody from ending if it hangs."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def make_producer(bootstrap: str, names: Names) -> sync.Producer:
    return sync.Producer(bootstrap_servers=bootstrap, **PRODUCER_TIMES)


def make_transactional(bootstrap: str, names: Names) -> sync.Producer:
    transactional_id = f"{names.group}-sync-{next(numbers)}"
    return sync.Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id, **PRODUCER_TIMES)


def make_consumer(bootstrap: str, names: Names) -> sync.Consumer:
    group = f"{names.group}-sync-{next(numbers)}"
    return sync.Consumer(names.topic, bootstrap_servers=bootstrap, group_id=group, **CONSUMER_TIMES)


def make_admin(bootstrap: str, names: Names) -> sync.Admin:
    return sync.Admin(bootstrap_servers=bootstrap, **TIMES)


def do_nothing(client: Any, names: Names) -> None:
    """Nothing is buffered or open."""


def buffer(client: sync.Producer, names: Names) -> None:
    client.send(names.topic, b"buffered")


def begin(client: sync.Producer, names: Names) -> None:
    client.begin_transaction()
    client.send(names.topic, b"buffered")


class Kind(NamedTuple):
    """A client in one of its roles."""

    kind: type
    make: Callable[[str, Names], Any]
    prepare: Callable[[Any, Names], None]
    """What it has done before the calls."""
    is_shared: bool = False


KINDS = {
    "producer": Kind(sync.Producer, make_producer, buffer),
    "transactional producer": Kind(sync.Producer, make_transactional, do_nothing),
    "producer in a transaction": Kind(sync.Producer, make_transactional, begin),
    "consumer": Kind(sync.Consumer, make_consumer, do_nothing),
    "admin": Kind(sync.Admin, make_admin, do_nothing, is_shared=True),
}


class Run:
    """One test."""

    def __init__(self, kind: Kind, bootstrap: str, names: Names) -> None:
        self.kind, self.names, self.findings = kind, names, Findings()
        self._bootstrap = bootstrap
        self._lock = threading.Lock()

    def lane(self, pairs: Iterator[tuple[Call, Call]]) -> None:
        client: Any = None
        while (pair := self._next(pairs)) is not None:
            is_of_life = any(call.is_of_life for call in pair)
            if client is not None and (is_of_life or not self.kind.is_shared):
                self._stop(client, "stop")
                client = None
            if client is None:
                client = self.kind.make(self._bootstrap, self.names)
                if not any(call.name == "start" for call in pair):
                    client.start()
                    self.kind.prepare(client, self.names)
            if not self._together(client, pair) or is_of_life:
                self._stop(client, f"stop after {pair[0].name} + {pair[1].name}")
                client = None
        if client is not None:
            self._stop(client, "the last stop")

    def _next(self, pairs: Iterator[tuple[Call, Call]]) -> tuple[Call, Call] | None:
        with self._lock:
            return next(pairs, None)

    def _stop(self, client: Any, what: str) -> None:
        future = in_thread(client.stop)
        if wait([future], HANG_SECONDS).not_done:
            self.findings.add(what, "hangs")
        else:
            self.findings.judge(what, future.exception())

    def _together(self, client: Any, pair: tuple[Call, Call]) -> bool:
        what = f"{pair[0].kind}.{pair[0].name} + {pair[1].name}"
        futures = [in_thread(lambda call=call: self._run(client, call)) for call in pair]  # type: ignore[misc]
        is_waiting = bool(wait(futures, WAIT_SECONDS).not_done)
        if is_waiting:
            self._stop(client, f"stop during {what}")
        for call, future in zip(pair, futures, strict=True):
            if wait([future], HANG_SECONDS).not_done:
                self.findings.add(what, f"{call.name} hangs, though the client was closed")
            else:
                self.findings.judge(f"{what}, {call.name}", future.exception())
        return not is_waiting

    def _run(self, client: Any, call: Call) -> Any:
        return finish_synchronously(client, call.start(client, self.names))


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, bootstrap: str, topic: str) -> Run:
    with sync.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_batch(topic, [b"record"] * RECORDS, partition=0)
    return Run(KINDS[request.param], bootstrap, Names(topic, topic))


@pytest.mark.timeout(180)
def test_synchronous_calls_at_the_same_time_have_documented_results(run: Run) -> None:
    pairs = iter([*itertools.combinations_with_replacement(calls_of(run.kind.kind), 2)])
    lanes = [in_thread(lambda: run.lane(pairs)) for _ in range(LANES)]
    for lane in lanes:
        lane.result(170)
    assert not run.findings.lines, "\n".join(["", *run.findings.lines])


def test_synchronous_calls_after_closing_have_documented_results(run: Run) -> None:
    client = run.kind.make(run._bootstrap, run.names)
    client.start()
    client.stop()
    for call in calls_of(run.kind.kind):
        future = in_thread(lambda call=call: run._run(client, call))  # type: ignore[misc]
        assert not wait([future], HANG_SECONDS).not_done, f"{call.name} hangs"
        error = future.exception()
        assert error is None or isinstance(error, KafkaError), (call.name, error)
    client.stop()
