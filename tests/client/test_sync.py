"""The synchronous face: the same calls, from any thread, and nothing left afterwards."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from minikafka import client
from minikafka.client import ClientClosed, NewTopic, NoBrokersAvailable, TopicPartition, sync
from minikafka.client.loop_thread import LoopThread, acquire, release
from tests.compat.running import free_ports


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "minikafka client"]


@pytest.mark.parametrize("name", ["Producer", "Consumer", "Admin"])
def test_every_call_is_there(name: str) -> None:
    def calls(of: type) -> dict[str, Any]:
        return {found: member for found, member in inspect.getmembers(of, callable) if not found.startswith("_")}

    ours, theirs = calls(getattr(sync, name)), calls(getattr(client, name))
    assert {*theirs} <= {*ours}
    assert not [found for found in ours if inspect.iscoroutinefunction(ours[found])]


def test_there_and_back(bootstrap: str, topic: str) -> None:
    with sync.Producer(bootstrap_servers=bootstrap) as producer:
        assert producer.send_and_wait(topic, b"0").offset == 0
        assert producer.wait_for(producer.send(topic, b"1", key=b"k")).offset == 1
        assert producer.wait_for_batch(producer.send_batch(topic, [b"2", b"3"]))[0].base_offset == 2
        producer.send(topic, b"4")
        assert producer.partitions_for(topic) == {0}
        producer.flush()
        assert producer.metrics().records_delivered == 5
    with sync.Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        values = [record.value for _, record in zip(range(5), consumer, strict=False)]
        assert values == [b"0", b"1", b"2", b"3", b"4"]
        place = TopicPartition(topic, 0)
        consumer.seek(place, 3)
        assert consumer.getone().value == b"3"
        assert consumer.end_offsets([place]) == {place: 5}


def test_admin(bootstrap: str) -> None:
    with sync.Admin.from_config({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics([NewTopic("made-synchronously", num_partitions=2, replication_factor=1)])
        assert "made-synchronously" in admin.list_topics()
        admin.delete_topics(["made-synchronously"])


def test_from_many_threads(bootstrap: str, topic: str) -> None:
    with sync.Producer(bootstrap_servers=bootstrap) as producer:

        def work() -> None:
            for _ in range(20):
                producer.send_and_wait(topic, b"x")

        threads = [threading.Thread(target=work) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert producer.metrics().records_delivered == 100


def test_closed_and_not_started(bootstrap: str, topic: str) -> None:
    producer = sync.Producer(bootstrap_servers=bootstrap)
    with pytest.raises(ClientClosed, match="never started"):
        producer.send(topic, b"x")
    producer.start()
    producer.stop()
    producer.stop()
    with pytest.raises(ClientClosed):
        producer.send(topic, b"x")
    with pytest.raises(NoBrokersAvailable), sync.Producer(bootstrap_servers=f"127.0.0.1:{free_ports(1)}"):
        pass


def test_an_interrupted_call_is_cancelled(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with sync.Consumer(topic, bootstrap_servers=bootstrap) as consumer:
        thread = consumer._thread
        assert thread is not None
        with pytest.raises(TimeoutError):
            thread.call(consumer._client.getone(), 0.05)


def test_the_threads_own_calls_are_refused() -> None:
    thread = acquire()
    try:

        async def inner() -> None:
            thread.call(nothing())

        async def nothing() -> None:
            return None

        with pytest.raises(client.IllegalState):
            thread.call(inner())
    finally:
        release(thread)


def committed(bootstrap: str, group: str) -> list[int]:
    with sync.Admin(bootstrap_servers=bootstrap) as admin:
        return [each.offset for each in admin.list_consumer_group_offsets(group).values()]


def send_numbers(bootstrap: str, topic: str, count: int) -> None:
    with sync.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_batch(topic, [b"%d" % number for number in range(count)])


def test_what_a_failed_program_had_in_hand_is_not_committed(bootstrap: str, topic: str) -> None:
    send_numbers(bootstrap, topic, 3)
    options: dict[str, Any] = {"bootstrap_servers": bootstrap, "group_id": topic, "auto_offset_reset": "earliest"}
    with pytest.raises(ZeroDivisionError), sync.Consumer(topic, **options) as consumer:
        for record in consumer:
            assert record.value != b"1" or 1 / 0
    assert committed(bootstrap, topic) == [1]
    with sync.Consumer(topic, **options) as consumer:
        assert consumer.getone().value == b"1"
    assert committed(bootstrap, topic) == [2]


def test_iterating_ends_after_a_while_without_records(bootstrap: str, topic: str) -> None:
    send_numbers(bootstrap, topic, 3)
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 500}
    with sync.Consumer(topic, bootstrap_servers=bootstrap, **options) as consumer:
        found: list[bytes | None] = []
        reading = threading.Thread(target=lambda: found.extend(record.value for record in consumer), daemon=True)
        reading.start()
        reading.join(20)
        assert not reading.is_alive()
        assert found == [b"0", b"1", b"2"]


class Listener(client.ConsumerRebalanceListener):
    """Calls the consumer, from a place where waiting would keep the loop from answering."""

    def __init__(self, consumer: sync.Consumer) -> None:
        self.consumer = consumer
        self.assigned = threading.Event()

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        for place in assigned:
            self.consumer.seek(place, 1)
        self.assigned.set()

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.consumer.commit()


def test_a_listener_may_call_the_consumer(bootstrap: str, topic: str) -> None:
    send_numbers(bootstrap, topic, 3)
    options: dict[str, Any] = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with sync.Consumer(bootstrap_servers=bootstrap, **options) as consumer:
        listener = Listener(consumer)
        consumer.subscribe([topic], listener=listener)
        assert listener.assigned.wait(20)
        assert consumer.getone().value == b"1"
    assert committed(bootstrap, topic) == [2]


def test_closing_an_admin(bootstrap: str) -> None:
    admin = sync.Admin(bootstrap_servers=bootstrap)
    admin.start()
    admin.close()
    with pytest.raises(ClientClosed):
        admin.list_topics()


def test_started_and_stopped_by_two_threads(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    both, acquired = threading.Barrier(2), []

    def acquire_together() -> LoopThread:
        # There should be nobody to wait for.
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        acquired.append(acquire())
        return acquired[-1]

    monkeypatch.setattr(sync, "acquire", acquire_together)
    consumer = sync.Consumer(topic, bootstrap_servers=bootstrap)
    for call in (consumer.start, consumer.stop):
        threads = [threading.Thread(target=call) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(acquired) == 1


def in_fork(work: Callable[[], None]) -> int:
    """The exit code of a process that was forked for it."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        signal.alarm(20)
        work()
        code = 0
    finally:
        os._exit(code)


def test_producer_is_stopped_by_many_threads_at_once(bootstrap: str, topic: str) -> None:
    def stop(producer: sync.Producer) -> None:
        try:
            producer.stop()
            outcomes.append(None)
        except BaseException as error:
            outcomes.append(error)

    outcomes: list[BaseException | None] = []
    for _ in range(10):
        producer = sync.Producer(bootstrap_servers=bootstrap, linger_ms=50)
        producer.start()
        producer.send(topic, b"x")
        threads = [threading.Thread(target=stop, args=(producer,), daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
    assert outcomes == [None] * 40


def test_loop_goes_on_for_a_call_that_has_not_returned() -> None:
    thread = acquire()
    has_begun, may_end = threading.Event(), threading.Event()
    results: list[int] = []

    async def work() -> int:
        has_begun.set()
        await asyncio.to_thread(may_end.wait, 30)
        return 1

    calling = threading.Thread(target=lambda: results.append(thread.call(work())), daemon=True)
    calling.start()
    assert has_begun.wait(30)
    release(thread)
    may_end.set()
    calling.join(30)
    assert results == [1]
    with pytest.raises(ClientClosed):
        thread.call(work())


def test_after_a_fork(bootstrap: str, topic: str) -> None:
    def use_both() -> None:
        with pytest.raises(client.IllegalState, match="forked"):
            producer.send_and_wait(topic, b"theirs")
        with sync.Producer(bootstrap_servers=bootstrap) as own:
            assert own.send_and_wait(topic, b"own").offset == 1
        producer.stop()

    with sync.Producer(bootstrap_servers=bootstrap) as producer:
        assert producer.send_and_wait(topic, b"first").offset == 0
        assert in_fork(use_both) == 0
        assert producer.send_and_wait(topic, b"third").offset == 2
