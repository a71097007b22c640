"""Fetch: batches out of logs, for consumers and for followers.

What is there is read at once. If that is less than the reader asked for, and nothing else has to be told, the answer
waits for more until the reader's time is up. Records go out as the bytes they are on disk.

- v0 to v3 carry formats before magic 2, to which nothing is converted: where there is data, UNSUPPORTED_VERSION.
- From v7 on there are sessions, from v11 on a consumer may read from a follower, from v13 on topics go by id.
- v12 tells a reader where its log and ours part; v16 tells who leads instead, when it is not us.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.endpoints import Leaders
from minikafka.broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchSession,
    FetchSessions,
    wanted_partitions,
)
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.broker.replicas.nearest import nearest_replica
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replicas.reading import Budget, PartitionRead, Reader
from minikafka.broker.replicas.waiting import DataWatch, Key
from minikafka.broker.work import Work
from minikafka.protocol.apis import APIS
from minikafka.protocol.compression import Compression
from minikafka.protocol.errors import (
    InvalidRequestError,
    KafkaError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
)
from minikafka.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from minikafka.storage.scanning import ColdRead

_MAGIC_2_VERSION: Final = 4
_ZSTD_VERSION: Final = 10
_FOLLOWER_READ_VERSION: Final = 11
_TOPIC_ID_VERSION: Final = 13
_REPLICA_STATE_VERSION: Final = 15
_LEADERS_VERSION: Final = 16
_READ_COMMITTED: Final = 1
_SESSION_ID_MAX: Final = (1 << 31) - 1


def routes(context: Context) -> list[Route]:
    handler = FetchHandler(context)
    return [
        Route(
            APIS[1], handler.fetch, Operation.READ, Resource.TOPIC, is_of_follower=lambda call: _replica(call)[0] >= 0
        )
    ]


class FetchHandler:
    """The sessions, and what every fetch needs."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.sessions = FetchSessions(
            lambda: context.config.broker.max_incremental_fetch_session_cache_slots,
            lambda: context.rng.randint(1, _SESSION_ID_MAX),
        )
        context.contact.last_fetch_ms = self.sessions.last_fetch_ms

    def fetch(self, call: Call) -> FetchResponse | Awaitable[FetchResponse]:
        return _Fetch(self, call).begin()


class _Fetch:
    """One request on its way to an answer."""

    def __init__(self, handler: FetchHandler, call: Call) -> None:
        self._context = handler.context
        self._sessions = handler.sessions
        self._call = call
        self._request: FetchRequest = call.request
        self._uses_ids = call.version >= _TOPIC_ID_VERSION
        self._reader = _reader(call)
        # Where the consumer is, if that is to make a difference.
        is_selective = not self._reader.is_follower and handler.context.config.broker.is_rack_aware
        self._rack = self._request.rack_id if is_selective else ""
        self._session: FetchSession | None = None
        self._wanted: Mapping[Key, FetchPartition] = {}
        self._watch: DataWatch | None = None
        self._turn = 0
        self._answers: dict[Key, FetchablePartitionResponse] = {}
        # What was read, and of which there is more to tell after the answer.
        self._partitions: dict[Key, Partition] = {}
        self._unfinished: list[Key] = []
        self._got_bytes = self._limit_bytes = 0
        self._is_due = self._is_doubtful = False
        self._held_back_ms = 0

    def begin(self) -> FetchResponse | Awaitable[FetchResponse]:
        """Answer at once if that can be, else say what to wait for."""
        try:
            if self._request.isolation_level not in (0, _READ_COMMITTED):
                raise InvalidRequestError(f"there is no isolation level {self._request.isolation_level}")
            self._open()
        except KafkaError as error:
            return FetchResponse(error_code=error.code)
        try:
            self._read_now()
        except ColdRead:
            return self._answer_later(is_cold=True)
        return self._answer() if self._is_enough() else self._answer_later(is_cold=False)

    def _open(self) -> None:
        """Find out what is wanted: by this request, or by the session that it continues."""
        request, now_ms = self._request, self._context.clock.monotonic_ms()
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.close(request.session_id)
            self._wanted = wanted_partitions(request, self._uses_ids)
            if request.session_epoch == INITIAL_EPOCH:
                watch = DataWatch(self._reader.readable_end)
                reader = self._reader
                # Anybody can say a number. Only a registered process is believed to follow.
                follower_id = reader.follower_id if reader.follower_epoch >= 0 else -1
                session = self._sessions.create(self._uses_ids, reader.is_follower, now_ms, watch, follower_id)
                if session is not None:
                    self._session, self._watch = session, watch
                    session.update(request)
            return
        session = self._sessions.resume(request, self._uses_ids, now_ms)
        if session.partitions:
            self._session, self._watch = session, session.watch
            self._turn = session.watch.next_turn()
        else:
            self._sessions.close(session.id)

    # ----------------------------------------------------------------------------------------------- reading

    def _read_now(self) -> None:
        """Read all partitions from memory; raises ColdRead where that does not do."""
        budget = self._start_over()
        for key, wanted in self._wanted.items():
            read = self._begin(key, wanted, budget)
            if read is not None:
                read.read_now()
                self._take(key, read)

    async def _read(self, work: Work) -> None:
        """Read all partitions from wherever they are."""
        budget, connection = self._start_over(), self._call.connection
        # Others begin meanwhile, and must not be given the same memory.
        wanted_bytes = sum(max(0, wanted.partition_max_bytes) for wanted in self._wanted.values())
        reserved = 0 if self._reader.is_follower else min(budget.left, wanted_bytes)
        connection.reserve(reserved)
        try:
            for key, wanted in list(self._wanted.items()):
                read = self._begin(key, wanted, budget)
                if read is not None:
                    await read.read(work)
                    self._take(key, read)
        finally:
            connection.reserve(-reserved)

    def _start_over(self) -> Budget:
        self._answers.clear()
        self._partitions.clear()
        self._unfinished.clear()
        self._got_bytes = 0
        self._held_back_ms = 0
        # A follower that fetches is heard of, and has to be served to be heard of.
        self._is_doubtful = not self._reader.is_follower and not self._context.contact.has_zookeeper
        if self._session is not None:
            if self._is_doubtful:
                self._session.watch.mark_where(self._context.contact.is_doubtful)
            self._wanted = self._session.pending()
        self._is_due = not self._wanted and self._session is None
        limit = self._request.max_bytes
        if not self._reader.is_follower:
            # The first batch comes in any case (KIP-74), so a consumer gets on though memory is short.
            limit = min(limit, self._context.config.broker.fetch_max_bytes, self._call.connection.room_bytes)
        self._limit_bytes = limit
        return Budget(limit)

    def _begin(self, key: Key, wanted: FetchPartition, budget: Budget) -> PartitionRead | None:
        try:
            partition = self._partitions[key] = self._partition(key)
            if self._watch is not None:
                self._watch.look_at(key, partition)
            if self._is_doubtful:
                self._context.contact.check(partition)
            read = PartitionRead(partition, wanted, self._reader, budget)
            if self._rack:
                self._point_elsewhere(read, wanted.fetch_offset)
            if self._reader.is_follower:
                self._hold_back(read)
            return read
        except KafkaError as error:
            self._refuse(key, error)
            return None

    def _point_elsewhere(self, read: PartitionRead, offset: int) -> None:
        """Send a consumer to a replica that is nearer to it."""
        elsewhere = nearest_replica(read.partition, self._rack, offset, self._context.metadata.brokers)
        if elsewhere is not None:
            read.leave()
            read.answer.preferred_read_replica = elsewhere
            self._is_due = True

    def _hold_back(self, read: PartitionRead) -> None:
        """Leave out a throttled replica that is not in sync, if more than enough went over of late."""
        throttle, leadership = self._context.partitions.leader_throttle, read.partition.leadership
        if throttle.holds(read.partition) and leadership and self._reader.follower_id not in leadership.isr:
            wait_ms = throttle.wait_ms
            if wait_ms:
                read.leave()
                self._held_back_ms = wait_ms

    def _partition(self, key: Key) -> Partition:
        topic, index = key
        if isinstance(topic, bytes):
            name = self._context.metadata.name_of(topic)
            if name is None:
                raise UnknownTopicIdError("there is no topic with this id")
            topic = name
        found = self._context.partitions.all.get((topic, index))
        return found or self._context.partitions.get(topic, index)

    def _take(self, key: Key, read: PartitionRead) -> None:
        answer, error = read.answer, read.error
        if error is None and answer.records and self._call.version < _ZSTD_VERSION:
            error = self._format_error(read.partition)
        if error is not None:
            self._refuse(key, error)
            return
        self._answers[key] = answer
        count = len(answer.records or b"")
        self._got_bytes += count
        if count and self._reader.is_follower and self._context.partitions.leader_throttle.holds(read.partition):
            self._context.partitions.leader_throttle.record(count)
        if answer.diverging_epoch is not None:
            self._is_due = True
        if read.has_more:
            self._unfinished.append(key)

    def _format_error(self, partition: Partition) -> KafkaError | None:
        version = self._call.version
        if version < _MAGIC_2_VERSION:
            return UnsupportedVersionError("records are not converted to the formats before magic 2")
        if partition.config.log.compression is Compression.ZSTD:
            return UnsupportedCompressionTypeError(f"zstd cannot be fetched by version {version}")
        return None

    def _refuse(self, key: Key, error: KafkaError) -> None:
        is_unknown = isinstance(error, UnknownTopicIdError | UnknownTopicOrPartitionError)
        self._answers[key] = FetchablePartitionResponse(
            partition_index=key[1],
            error_code=error.code,
            high_watermark=-1,
            aborted_transactions=[] if is_unknown else None,
            records=b"",
        )
        self._is_due = True
        self._unfinished.append(key)
        partition = self._partitions.get(key)
        if partition is not None:
            partition.statistics.failed_fetch_requests += 1

    # ----------------------------------------------------------------------------------------------- waiting

    def _is_enough(self) -> bool:
        """Whether to answer now: there is enough, or all that may be held, or an error, or nothing to wait for."""
        is_full = 0 < self._got_bytes >= self._limit_bytes
        return self._is_due or is_full or self._got_bytes >= self._request.min_bytes or self._request.max_wait_ms <= 0

    async def _answer_later(self, *, is_cold: bool) -> FetchResponse:
        clock, work = self._context.clock, self._context.work
        deadline_ms = clock.monotonic_ms() + self._request.max_wait_ms
        watch = self._watch
        if watch is None:
            watch = self._watch = DataWatch(self._reader.readable_end)
            # Nothing can have happened since they were read.
            for key, partition in self._partitions.items():
                watch.look_at(key, partition)
        try:
            if is_cold:
                await self._read(work)
            while not self._is_enough() and (left_ms := deadline_ms - clock.monotonic_ms()) > 0:
                if not await self._wait_data(watch, min(left_ms, self._held_back_ms or left_ms)):
                    # The next request of the session tells what this one would have, and what it names itself is not
                    # for this one to tell: the reader would not know where it begins.
                    return FetchResponse(session_id=self._request.session_id)
                try:
                    self._read_now()
                except ColdRead:
                    await self._read(work)
            return self._answer()
        finally:
            if self._session is None:
                watch.close()

    async def _wait_data(self, watch: DataWatch, timeout_ms: int) -> bool:
        """See `DataWatch`; what has been read is the answer if nothing else comes, so it is held meanwhile."""
        connection, held_bytes = self._call.connection, self._got_bytes
        connection.reserve(held_bytes)
        try:
            return await watch.wait_data(self._request.min_bytes - held_bytes, timeout_ms, self._turn)
        finally:
            connection.reserve(-held_bytes)

    # --------------------------------------------------------------------------------------------- answering

    def _answer(self) -> FetchResponse:
        session, keys = self._session, list(self._answers)
        if session is not None:
            session.watch.told(self._unfinished)
            news = session.news(list(self._answers.items()))
            if self._request.session_epoch != INITIAL_EPOCH:
                keys = news
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for key in keys:
            topic = key[0]
            if topic not in topics:
                topics[topic] = (
                    FetchableTopicResponse(topic_id=topic, partitions=[])
                    if isinstance(topic, bytes)
                    else FetchableTopicResponse(topic=topic, partitions=[])
                )
            topics[topic].partitions.append(self._answers[key])
        response = FetchResponse(responses=list(topics.values()), session_id=0 if session is None else session.id)
        if self._is_due and self._call.version >= _LEADERS_VERSION:
            self._add_leaders(keys, response)
        return response

    def _add_leaders(self, keys: Iterable[Key], response: FetchResponse) -> None:
        leaders = Leaders(self._context, self._call.connection)
        for topic, index in keys:
            answer = self._answers[topic, index]
            name = self._context.metadata.name_of(topic) if isinstance(topic, bytes) else topic
            if name is not None:
                answer.current_leader = leaders.of((name, index), answer.error_code)
        response.node_endpoints = leaders.endpoints()


def _replica(call: Call) -> tuple[int, int]:
    """Which broker asks, in which of its lives; -1 for a consumer."""
    request: FetchRequest = call.request
    if call.version < _REPLICA_STATE_VERSION:
        return request.replica_id, -1
    state = request.replica_state
    return (-1, -1) if state is None else (state.replica_id, state.replica_epoch)


def _reader(call: Call) -> Reader:
    request: FetchRequest = call.request
    replica_id, epoch = _replica(call)
    is_follower = replica_id >= 0
    return Reader(
        is_committed=request.isolation_level == _READ_COMMITTED and not is_follower,
        follower_id=replica_id if is_follower else -1,
        follower_epoch=epoch,
        may_read_follower=not is_follower and call.version >= _FOLLOWER_READ_VERSION,
    )
