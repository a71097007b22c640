"""Producer, consumer and admin for programs without an event loop: scripts, notebooks, threads.

    from minikafka.client.sync import Consumer, Producer

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send_batch("orders", [b"tea", b"milk"])
    with Consumer("orders", bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
        for record in consumer:
            print(record.value)

Same names, same arguments, same errors; every call waits until it is done. The work is done by the clients of
`minikafka.client` on a loop in a thread of its own, and calls may come from any thread. A call for each record is as
slow as two threads changing places; `send_batch`, `getmany` and `getbatch` are not.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

from minikafka.client.admin.admin import Admin as AsyncAdmin
from minikafka.client.admin.admin import AdminConfig
from minikafka.client.config import ClientOptions
from minikafka.client.consumer.config import ConsumerConfig, ConsumerOptions
from minikafka.client.consumer.consumer import Consumer as AsyncConsumer
from minikafka.client.consumer.records import ConsumerRecord
from minikafka.client.consumer.subscription import ConsumerRebalanceListener
from minikafka.client.errors import ClientClosed
from minikafka.client.loop_thread import LoopThread, acquire, release
from minikafka.client.producer import BatchDelivery, BatchMetadata, Delivery, RecordMetadata
from minikafka.client.producer import Producer as AsyncProducer
from minikafka.client.producer.config import ProducerConfig, ProducerOptions
from minikafka.client.structs import TopicPartition

_C = TypeVar("_C", AsyncProducer, AsyncConsumer, AsyncAdmin)
_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Facade(Generic[_C]):
    """A client on another thread."""

    _client: _C

    def __init__(self, client: _C) -> None:
        self._client = client
        self._thread: LoopThread | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Find the cluster; `with` does it too."""
        with self._lock:
            thread = self._thread = self._thread or acquire()
        try:
            thread.call(self._client.start())
        except BaseException:
            self._let_go(thread)
            raise

    def stop(self) -> None:
        """Finish and close; leaving `with` does it too. May be called twice, and by several threads at once."""
        self._end(self._client.stop)

    def _end(self, close: Callable[[], Coroutine[Any, Any, object]]) -> None:
        thread = self._thread
        if thread is None:
            return
        try:
            # In a forked process there is nothing to close: the connections are the other one's. Where another thread
            # has just closed the client, there is no loop any more.
            if thread.is_alive:
                with suppress(ClientClosed):
                    thread.call(close())
        finally:
            self._let_go(thread)

    def _let_go(self, thread: LoopThread) -> None:
        with self._lock:
            # Two may close at once.
            is_ours = self._thread is thread
            self._thread = None if is_ours else self._thread
        if is_ours:
            release(thread)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end(lambda: self._client.__aexit__(exc_type, error, traceback))

    def _call(self, work: Coroutine[Any, Any, _R]) -> _R:
        thread = self._thread
        if thread is None:
            work.close()
            raise ClientClosed("the client is closed, or was never started: use `with`, or call `start`")
        return thread.call(work)


def _waiting(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _R]],
) -> Callable[Concatenate[_Facade[Any], _P], _R]:
    """An asynchronous method as one that waits."""

    @wraps(method)
    def call(self: _Facade[Any], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._call(method(self._client, *args, **kwargs))

    return call


def _at_once(method: Callable[Concatenate[Any, _P], _R]) -> Callable[Concatenate[_Facade[Any], _P], _R]:
    """A method that does not wait, on the loop's thread all the same: nothing else may change meanwhile."""

    @wraps(method)
    def call(self: _Facade[Any], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        async def run() -> _R:
            return method(self._client, *args, **kwargs)

        return self._call(run())

    return call


class Producer(_Facade[AsyncProducer]):
    """`minikafka.client.Producer`, synchronously."""

    def __init__(self, *, config: ProducerConfig | None = None, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(AsyncProducer(config=config, **options))

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """A producer by Kafka's own names."""
        return cls(config=ProducerConfig.from_config(config))

    send = _waiting(AsyncProducer.send)
    """Returns when the record is buffered; `wait_for` tells what became of it."""
    send_and_wait = _waiting(AsyncProducer.send_and_wait)
    send_batch = _waiting(AsyncProducer.send_batch)
    create_batch = _at_once(AsyncProducer.create_batch)
    flush = _waiting(AsyncProducer.flush)
    partitions_for = _waiting(AsyncProducer.partitions_for)
    partition_for = _waiting(AsyncProducer.partition_for)
    begin_transaction = _waiting(AsyncProducer.begin_transaction)
    commit_transaction = _waiting(AsyncProducer.commit_transaction)
    abort_transaction = _waiting(AsyncProducer.abort_transaction)
    send_offsets_to_transaction = _waiting(AsyncProducer.send_offsets_to_transaction)
    metrics = _at_once(AsyncProducer.metrics)

    def wait_for(self, delivery: Delivery) -> RecordMetadata:
        """Wait until a record that was sent is acknowledged."""

        async def wait() -> RecordMetadata:
            return await delivery

        return self._call(wait())

    def wait_for_batch(self, delivery: BatchDelivery) -> list[BatchMetadata]:
        """The same for records that were sent together."""

        async def wait() -> list[BatchMetadata]:
            return await delivery

        return self._call(wait())

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """A transaction that is committed at the end of the block, or aborted if the block raises."""
        block = self._client.transaction()
        self._call(block.__aenter__())
        try:
            yield self
        except BaseException as error:
            self._call(block.__aexit__(type(error), error, error.__traceback__))
            raise
        self._call(block.__aexit__(None, None, None))


class _InThread(ConsumerRebalanceListener):
    """Has a listener called by another thread than the loop's, which has to go on with what the listener asks of it."""

    def __init__(self, listener: ConsumerRebalanceListener) -> None:
        self._listener = listener

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        await self._tell("on_partitions_revoked", revoked)

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        await self._tell("on_partitions_assigned", assigned)

    async def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        is_known = hasattr(self._listener, "on_partitions_lost")
        await self._tell("on_partitions_lost" if is_known else "on_partitions_revoked", lost)

    async def _tell(self, what: str, partitions: list[TopicPartition]) -> None:
        answer = await asyncio.to_thread(getattr(self._listener, what), partitions)
        if inspect.isawaitable(answer):
            await answer


class Consumer(_Facade[AsyncConsumer]):
    """`minikafka.client.Consumer`, synchronously."""

    def __init__(self, *topics: str, config: ConsumerConfig | None = None, **options: Unpack[ConsumerOptions]) -> None:
        super().__init__(AsyncConsumer(*topics, config=config, **options))

    @classmethod
    def from_config(cls, config: Mapping[str, object], *topics: str) -> Self:
        """A consumer by Kafka's own names."""
        return cls(*topics, config=ConsumerConfig.from_config(config))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        try:
            return self._call(self._client.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None
        except ClientClosed:
            # Stopping the consumer is how another thread ends the loop.
            if self._client.is_closed:
                raise StopIteration from None
            raise

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """As the asynchronous one; the listener is called by a thread of its own, and may call this consumer."""
        self._subscribe(topics, pattern, None if listener is None else _InThread(listener))

    getone = _waiting(AsyncConsumer.getone)
    getmany = _waiting(AsyncConsumer.getmany)
    getbatch = _waiting(AsyncConsumer.getbatch)
    topics = _waiting(AsyncConsumer.topics)
    position = _waiting(AsyncConsumer.position)
    seek_to_beginning = _waiting(AsyncConsumer.seek_to_beginning)
    seek_to_end = _waiting(AsyncConsumer.seek_to_end)
    seek_to_time = _waiting(AsyncConsumer.seek_to_time)
    seek_to_committed = _waiting(AsyncConsumer.seek_to_committed)
    beginning_offsets = _waiting(AsyncConsumer.beginning_offsets)
    end_offsets = _waiting(AsyncConsumer.end_offsets)
    offsets_for_times = _waiting(AsyncConsumer.offsets_for_times)
    commit = _waiting(AsyncConsumer.commit)
    committed = _waiting(AsyncConsumer.committed)
    committed_offsets = _waiting(AsyncConsumer.committed_offsets)
    assign = _at_once(AsyncConsumer.assign)
    _subscribe = _at_once(AsyncConsumer.subscribe)
    unsubscribe = _at_once(AsyncConsumer.unsubscribe)
    subscription = _at_once(AsyncConsumer.subscription)
    assignment = _at_once(AsyncConsumer.assignment)
    partitions_for_topic = _at_once(AsyncConsumer.partitions_for_topic)
    seek = _at_once(AsyncConsumer.seek)
    pause = _at_once(AsyncConsumer.pause)
    resume = _at_once(AsyncConsumer.resume)
    paused = _at_once(AsyncConsumer.paused)
    highwater = _at_once(AsyncConsumer.highwater)
    last_stable_offset = _at_once(AsyncConsumer.last_stable_offset)
    last_poll_timestamp = _at_once(AsyncConsumer.last_poll_timestamp)
    lag = _at_once(AsyncConsumer.lag)
    group_metadata = _at_once(AsyncConsumer.group_metadata)
    metrics = _at_once(AsyncConsumer.metrics)


class Admin(_Facade[AsyncAdmin]):
    """`minikafka.client.Admin`, synchronously."""

    def __init__(self, *, config: AdminConfig | None = None, **options: Unpack[ClientOptions]) -> None:
        super().__init__(AsyncAdmin(config=config, **options))

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """An admin by Kafka's own names."""
        return cls(config=AdminConfig.from_config(config))

    abort_transaction = _waiting(AsyncAdmin.abort_transaction)
    alter_client_quotas = _waiting(AsyncAdmin.alter_client_quotas)
    alter_configs = _waiting(AsyncAdmin.alter_configs)
    alter_consumer_group_offsets = _waiting(AsyncAdmin.alter_consumer_group_offsets)
    alter_partition_reassignments = _waiting(AsyncAdmin.alter_partition_reassignments)
    alter_replica_log_dirs = _waiting(AsyncAdmin.alter_replica_log_dirs)
    alter_user_scram_credentials = _waiting(AsyncAdmin.alter_user_scram_credentials)
    close = _Facade.stop
    create_acls = _waiting(AsyncAdmin.create_acls)
    create_delegation_token = _waiting(AsyncAdmin.create_delegation_token)
    create_partitions = _waiting(AsyncAdmin.create_partitions)
    create_topics = _waiting(AsyncAdmin.create_topics)
    delete_acls = _waiting(AsyncAdmin.delete_acls)
    delete_consumer_group_offsets = _waiting(AsyncAdmin.delete_consumer_group_offsets)
    delete_consumer_groups = _waiting(AsyncAdmin.delete_consumer_groups)
    delete_records = _waiting(AsyncAdmin.delete_records)
    delete_topics = _waiting(AsyncAdmin.delete_topics)
    describe_acls = _waiting(AsyncAdmin.describe_acls)
    describe_api_versions = _waiting(AsyncAdmin.describe_api_versions)
    describe_client_quotas = _waiting(AsyncAdmin.describe_client_quotas)
    describe_cluster = _waiting(AsyncAdmin.describe_cluster)
    describe_configs = _waiting(AsyncAdmin.describe_configs)
    describe_consumer_groups = _waiting(AsyncAdmin.describe_consumer_groups)
    describe_delegation_tokens = _waiting(AsyncAdmin.describe_delegation_tokens)
    describe_log_dirs = _waiting(AsyncAdmin.describe_log_dirs)
    describe_producers = _waiting(AsyncAdmin.describe_producers)
    describe_topics = _waiting(AsyncAdmin.describe_topics)
    describe_transactions = _waiting(AsyncAdmin.describe_transactions)
    describe_user_scram_credentials = _waiting(AsyncAdmin.describe_user_scram_credentials)
    elect_leaders = _waiting(AsyncAdmin.elect_leaders)
    expire_delegation_token = _waiting(AsyncAdmin.expire_delegation_token)
    find_coordinator = _waiting(AsyncAdmin.find_coordinator)
    incremental_alter_configs = _waiting(AsyncAdmin.incremental_alter_configs)
    list_consumer_group_offsets = _waiting(AsyncAdmin.list_consumer_group_offsets)
    list_consumer_groups = _waiting(AsyncAdmin.list_consumer_groups)
    list_offsets = _waiting(AsyncAdmin.list_offsets)
    list_partition_reassignments = _waiting(AsyncAdmin.list_partition_reassignments)
    list_topics = _waiting(AsyncAdmin.list_topics)
    list_transactions = _waiting(AsyncAdmin.list_transactions)
    remove_members = _waiting(AsyncAdmin.remove_members)
    renew_delegation_token = _waiting(AsyncAdmin.renew_delegation_token)
    update_features = _waiting(AsyncAdmin.update_features)
