"""Produce: batches into logs.

Stage one, at once and in the order of requests: every batch is checked, gets its offsets and is written. Stage two, if
the producer asked for more than that: the answer waits until all in-sync replicas have the batches, or time is up.

- A partition that is there twice counts once, with what was sent last, as in Kafka.
- Each partition succeeds or fails alone; with acks=0 nobody can be told, so a failure closes the connection.
- v10 tells who leads instead, when it is not us.
- Records that take long to look at are looked at in a thread; what follows over the same connection waits for them.
- The first batch of a transaction in a partition waits for its coordinator to say that the partition belongs to it; v11
  can tell a producer to abort for that, and v12 has the partition added (KIP-890). What follows over the same
  connection waits too: its numbers go on from those not written yet, and would seem to leave a gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Final, NamedTuple

from minikafka.broker.context import Context
from minikafka.broker.coordinators.verifying import TxnMember, Verifier
from minikafka.broker.endpoints import Leaders
from minikafka.broker.handlers.produce_again import Repeats
from minikafka.broker.network.connection import Connection
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.broker.replicas.commits import Promise
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replicas.waiting import CommitWait
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import (
    CorruptMessageError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    KafkaError,
    KafkaStorageError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
    TransactionalIdAuthorizationFailedError,
)
from minikafka.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.records.layout import TRANSACTIONAL_BIT
from minikafka.protocol.varint import Buffer
from minikafka.storage.validation import Costly, Inspected, RejectedRecords, inspect, parse_produced
from minikafka.storage.verification import Verification

_ACKS_ALL: Final = -1
_ACKS: Final = (_ACKS_ALL, 0, 1)
_INSPECTIONS_MAX: Final = 2
_LEADERS_VERSION: Final = 10
_ABORTABLE_VERSION: Final = 11
_ADDING_VERSION: Final = 12

# Refused before the log is looked at, or by a log that cannot be looked at: its start is not told then.
_WITHOUT_LOG_START: Final = (
    CorruptMessageError,
    KafkaStorageError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
)

Name = tuple[str, int]
Sent = dict[Name, Buffer | None]
Answers = dict[Name, PartitionProduceResponse]


class Held(NamedTuple):
    """A batch that waits for the coordinator of its transaction."""

    txn: TxnMember
    verification: Verification


def routes(context: Context, verifier: Verifier) -> list[Route]:
    return [Route(APIS[0], ProduceHandler(context, verifier), Operation.WRITE, Resource.TOPIC)]


class ProduceHandler:
    """See the module's description."""

    def __init__(self, context: Context, verifier: Verifier) -> None:
        self._context = context
        self._partitions = context.partitions
        self._clock = context.clock
        self._verifier = verifier
        # By connection, the last request that is held, until it is written.
        self._turns: dict[Connection, asyncio.Future[None]] = {}
        # Others need threads, too.
        self._inspecting = asyncio.Semaphore(_INSPECTIONS_MAX)

    def __call__(self, call: Call) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
        request: ProduceRequest = call.request
        sent: Sent = {
            (topic.name, each.index): each.records for topic in request.topic_data for each in topic.partition_data
        }
        refusal = _refusal(request, sent)
        if refusal is not None:
            return self._answer(call, {name: _refused(name[1], refusal) for name in sent})
        held: dict[Name, Held] = {}
        if request.transactional_id is not None:
            try:
                held = self._held(call, sent)
            except InvalidProducerIdMappingError as error:
                return self._answer(call, {name: _refused(name[1], error) for name in sent})
        promises: list[Promise] = []
        answers: Answers = {}
        if held or (self._turns and call.connection in self._turns):
            return self._produce_in_turn(call, sent, held, answers, promises)
        acks, version, now_ms = request.acks, call.version, self._clock.wall_ms()
        for name, records in sent.items():
            try:
                answers[name] = self._append(name, records, version, acks, now_ms, promises)
            except Costly:
                rest = {other: sent[other] for other in sent if other not in answers}
                return self._produce_in_turn(call, rest, held, answers, promises)
        if len(answers) == 1:
            self._learn(call, *answers.values())
        if promises and acks:
            _release(call)
            return self._answer_later(call, answers, promises)
        return self._answer(call, answers)

    def _append(
        self,
        name: Name,
        records: Buffer | None,
        version: int,
        acks: int,
        now_ms: int,
        promises: list[Promise],
        verification: Verification | None = None,
        inspected: Inspected | None = None,
    ) -> PartitionProduceResponse:
        """What became of the batch for one partition; a promise is added if that is not all yet. Costly: see there."""
        partition = self._partitions.all.get(name)
        batch = None
        try:
            if partition is None:
                raise self._absence(name, records, version)
            batch = parse_produced(records, version)
            appended = partition.append(batch, acks, now_ms, verification=verification, inspected=inspected)
        except (KafkaError, RejectedRecords) as error:
            self._count_failure(name[0])
            return _refused_append(name[1], None if batch is None else partition, error)
        statistics = partition.statistics
        statistics.produce_requests += 1
        statistics.messages_in += batch.record_count
        statistics.bytes_in += batch.size
        promise = partition.promise(appended.last_offset + 1, acks)
        if promise is not None:
            promises.append(promise)
        return PartitionProduceResponse(
            index=partition.index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=partition.log.log_start_offset,
        )

    def _learn(self, call: Call, answer: PartitionProduceResponse) -> None:
        """The next request may be like this one, if that has one batch and nothing beside it."""
        topics = call.request.topic_data
        if answer.error_code or len(topics) != 1 or len(topics[0].partition_data) != 1:
            return
        repeats = call.connection.shortcut
        if not isinstance(repeats, Repeats):
            repeats = call.connection.shortcut = Repeats(self._partitions, self._clock, self._refuse)
        repeats.learn(call, topics[0].partition_data[0])

    def _refuse(self, call: Call, name: Name, error: KafkaError) -> ProduceResponse:
        response = self._answer(call, {name: _refused(name[1], error)})
        assert response is not None
        return response

    def _absence(self, name: Name, records: Buffer | None, version: int) -> KafkaError:
        """Why a partition cannot be written here; what was sent for one that exists is looked at first, as in Kafka."""
        if self._context.metadata.partition(*name) is not None:
            parse_produced(records, version)
        return self._partitions.absence(*name)

    def _count_failure(self, topic: str) -> None:
        statistics = self._partitions.statistics.topics.get(topic)
        if statistics is not None:
            statistics.failed_produce_requests += 1

    # ------------------------------------------------------------------------------------------- transactions

    def _held(self, call: Call, sent: Sent) -> dict[Name, Held]:
        """The batches that begin a transaction in their partition, as far as this broker knows."""
        members: dict[Partition, TxnMember] = {}
        for name, records in sent.items():
            partition = self._partitions.all.get(name)
            if partition is None or partition.leadership is None or not _is_transactional(records):
                continue
            try:
                batch = parse_produced(records, call.version)
            except KafkaError:
                # What is wrong with it is told when it would be written.
                continue
            if batch.producer_id < 0:
                # It cannot open a transaction; as in Kafka it counts as a plain one.
                continue
            members[partition] = TxnMember(
                call.request.transactional_id,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                is_told_abortable=call.version >= _ABORTABLE_VERSION,
                is_to_be_added=call.version >= _ADDING_VERSION,
            )
        if len({(each.producer_id, each.epoch) for each in members.values()}) > 1:
            # The coordinator is asked about one, and vouches for no other.
            raise InvalidProducerIdMappingError("transactional batches of more than one producer")
        begun = {partition: self._verifier.begin(txn, partition) for partition, txn in members.items()}
        return {each.name: Held(members[each], held) for each, held in begun.items() if held is not None}

    def _produce_in_turn(
        self, call: Call, sent: Sent, held: dict[Name, Held], answers: Answers, promises: list[Promise]
    ) -> Awaitable[ProduceResponse | None]:
        """Write what cannot be written at once, and let later requests of the connection wait for it."""
        before = self._turns.get(call.connection)
        turn = self._turns[call.connection] = asyncio.get_running_loop().create_future()
        # It would go past those that wait.
        call.connection.shortcut = None
        return self._produce_later(call, sent, held, answers, promises, before, turn)

    async def _produce_later(
        self,
        call: Call,
        sent: Sent,
        held: dict[Name, Held],
        answers: Answers,
        promises: list[Promise],
        before: asyncio.Future[None] | None,
        turn: asyncio.Future[None],
    ) -> ProduceResponse | None:
        """Write all when the coordinator has answered about what is held, and `before` is written."""
        try:
            refusals = await self._verifier.ask(next(iter(held.values())).txn, held) if held else {}
            if before is not None:
                await asyncio.wait([before])
            await self._append_all(call, sent, held, refusals, answers, promises)
        finally:
            turn.set_result(None)
            if self._turns.get(call.connection) is turn:
                del self._turns[call.connection]
        if promises and call.request.acks:
            # Its connection has counted it already, and goes on doing so.
            del sent, held
            _forget_records(call)
            return await self._answer_later(call, answers, promises)
        return self._answer(call, answers)

    async def _append_all(
        self,
        call: Call,
        sent: Sent,
        held: dict[Name, Held],
        refusals: Mapping[Name, KafkaError | None],
        answers: Answers,
        promises: list[Promise],
    ) -> None:
        for name, records in sent.items():
            refusal = refusals.get(name)
            if refusal is not None:
                self._count_failure(name[0])
                if refusal.retriable:
                    self._note_refused(name, records, call.version)
                answers[name] = _refused(name[1], refusal)
            else:
                verification = held[name].verification if name in held else None
                answers[name] = await self._append_inspected(call, name, records, promises, verification)

    async def _append_inspected(
        self, call: Call, name: Name, records: Buffer | None, promises: list[Promise], verification: Verification | None
    ) -> PartitionProduceResponse:
        """As `_append`; records that take long are looked at in a thread, and role and limits again after it."""
        inspected = None
        while True:
            now_ms = self._clock.wall_ms()
            try:
                return self._append(
                    name, records, call.version, call.request.acks, now_ms, promises, verification, inspected
                )
            except Costly as costly:
                look = partial(inspect, costly.batch, costly.limits, now_ms)
            try:
                inspected = await self._run_inspection(look)
            except (KafkaError, RejectedRecords) as error:
                self._count_failure(name[0])
                return _refused_append(name[1], self._partitions.all.get(name), error)

    async def _run_inspection(self, look: partial[Inspected]) -> Inspected:
        """A thread cannot be cancelled, so it counts until it has ended, also when its connection is lost."""
        await self._inspecting.acquire()
        inspection = asyncio.ensure_future(self._context.work.run_blocking(look))
        inspection.add_done_callback(lambda _: self._inspecting.release())
        return await asyncio.shield(inspection)

    def _note_refused(self, name: Name, records: Buffer | None, version: int) -> None:
        # It was held, so it is a batch; its partition may have gone meanwhile.
        if (partition := self._partitions.all.get(name)) is not None:
            partition.on_refused(parse_produced(records, version))

    # --------------------------------------------------------------------------------------------- answering

    async def _answer_later(self, call: Call, answers: Answers, promises: list[Promise]) -> ProduceResponse | None:
        for partition, error in (await CommitWait(promises).wait_committed(call.request.timeout_ms)).items():
            answers[partition.name] = _refused(partition.index, error)
        return self._answer(call, answers)

    def _answer(self, call: Call, answers: Answers) -> ProduceResponse | None:
        if call.request.acks == 0:
            if any(each.error_code for each in answers.values()):
                call.connection.close()
            return None
        topics: dict[str, TopicProduceResponse] = {}
        for (topic, _), answer in answers.items():
            if topic in topics:
                topics[topic].partition_responses.append(answer)
            else:
                topics[topic] = TopicProduceResponse(name=topic, partition_responses=[answer])
        response = ProduceResponse(responses=[*topics.values()])
        if call.version >= _LEADERS_VERSION:
            self._add_leaders(call, answers, response)
        return response

    def _add_leaders(self, call: Call, answers: Answers, response: ProduceResponse) -> None:
        leaders = Leaders(self._context, call.connection)
        for name, answer in answers.items():
            if answer.error_code:
                answer.current_leader = leaders.of(name, answer.error_code)
        response.node_endpoints = leaders.endpoints()


def _release(call: Call) -> None:
    """What is written need not be held while followers fetch it; to be called before the first wait."""
    _forget_records(call)
    call.connection.has_released = True


def _forget_records(call: Call) -> None:
    for topic in call.request.topic_data:
        for data in topic.partition_data:
            data.records = None


def _refused_append(
    index: int, partition: Partition | None, error: KafkaError | RejectedRecords
) -> PartitionProduceResponse:
    """The answer to an error; the start of the log is told by a partition that has looked at the batch."""
    log_start_offset = -1
    if partition is not None and not isinstance(error, _WITHOUT_LOG_START):
        log_start_offset = partition.log.log_start_offset
    if isinstance(error, KafkaError):
        return _refused(index, error, log_start_offset)
    answer = _refused(index, error.error, log_start_offset)
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=each.batch_index, batch_index_error_message=each.message)
        for each in error.record_errors
    ]
    return answer


def _refusal(request: ProduceRequest, sent: Sent) -> KafkaError | None:
    """What is wrong with the request as a whole."""
    if request.acks not in _ACKS:
        return InvalidRequiredAcksError(f"acks must be -1, 0 or 1, not {request.acks}")
    if request.transactional_id == "":
        return InvalidRequestError("a transactional id cannot be empty")
    if request.transactional_id is None and any(map(_is_transactional, sent.values())):
        return TransactionalIdAuthorizationFailedError("a transactional batch in a request without transactional id")
    return None


def _is_transactional(records: Buffer | None) -> bool:
    # The second byte of the attributes; what is shorter than this is no batch, and is refused for that.
    return records is not None and len(records) > _ATTRIBUTES_AT and bool(records[_ATTRIBUTES_AT] & TRANSACTIONAL_BIT)


_ATTRIBUTES_AT: Final = 22


def _refused(index: int, error: KafkaError, log_start_offset: int = -1) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=log_start_offset,
        error_message=error.message,
    )
