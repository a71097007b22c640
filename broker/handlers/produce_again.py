"""Produce, said again: a request that is like an earlier one of its connection, but for the records.

A producer that sends small batches says nearly the same over and over: the same client, the same partition, the same
wishes. Reading and answering that takes longer than the append itself. So a connection keeps in mind, as bytes, what it
has said before; a frame that begins in the same way means the same, and of its answer only three numbers are new.

Nothing is decided here. The partition is asked as always, and whatever is out of the ordinary (an error, a
transaction, a frame with anything more in it) goes the long way, from the beginning: a batch that was refused has
changed nothing. What a peer may do is found out on the long way too, so whoever takes a right from it takes the
connection's shortcut as well.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final, NamedTuple

from minikafka.broker.clock import Clock
from minikafka.broker.network.dispatch import Call
from minikafka.broker.network.reply import Parts, Reply
from minikafka.broker.replicas.commits import Promise
from minikafka.broker.replicas.partitions import Partitions
from minikafka.broker.replicas.waiting import CommitWait
from minikafka.protocol.errors import DecodeError, KafkaError
from minikafka.protocol.frame import finish_frame, start_frame
from minikafka.protocol.headers import encode_response_header
from minikafka.protocol.message import Response
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.records.layout import TRANSACTIONAL_BIT
from minikafka.protocol.varint import read_uvarint
from minikafka.storage.validation import Costly, RejectedRecords, parse_produced

Name = tuple[str, int]
Refuse = Callable[[Call, Name, KafkaError], ProduceResponse]
"""What answers an error, of which only the long way knows all that is to be told."""

KNOWN_MAX: Final = 8
"""As many partitions as a producer usually writes to by turns. Looking through more takes longer than it saves."""

_HITS_PER_LESSON: Final = 4
"""What is learnt has to be of use so many times, or nothing more is learnt."""

# A frame begins with api key and version; then comes the correlation id, which is always another.
_HEAD_BYTES: Final = 4
_SAME_AT: Final = 8
# Of partition, topic and request, at the end of a flexible one.
_NO_TAGS: Final = bytes(3)
# In an answer, after the size of its frame.
_ID_AT: Final = slice(4, 8)

# Found in an answer, they show where these numbers stand.
_BASE_OFFSET: Final = 0x7A6B5C4D3E2F1011
_APPEND_TIME: Final = 0x7A6B5C4D3E2F1012
_LOG_START: Final = 0x7A6B5C4D3E2F1013

_size: Final = struct.Struct(">i")
_number: Final = struct.Struct(">q")
_pack_number_into: Final = _number.pack_into


class Known(NamedTuple):
    """A request, as far as it is the same every time, and its answer likewise."""

    head: bytes
    same: bytes
    """From behind the correlation id to the size of the records."""
    is_flexible: bool
    call: Call
    """As it was, but without the records."""
    name: Name
    answer: bytes
    base_offset_at: int
    append_time_at: int
    log_start_at: int
    """-1 in versions that do not tell it."""


def known_from(call: Call, data: PartitionProduceData) -> Known | None:
    """What to keep in mind of a request with records for one partition; None if it is not as simple as most."""
    request: ProduceRequest = call.request
    records = data.records
    if not isinstance(records, memoryview) or request.acks == 0 or request.transactional_id is not None:
        return None
    frame, is_flexible = records.obj, ProduceRequest.is_flexible(call.version)
    assert isinstance(frame, bytearray)
    stop = len(frame) - (len(_NO_TAGS) if is_flexible else 0)
    size_at = stop - len(records) - _size_bytes(len(records), is_flexible)
    if size_at < _SAME_AT or _records_at(frame, size_at, is_flexible) != (stop - len(records), stop):
        return None
    name = (request.topic_data[0].name, data.index)
    answer = _encoded(0, call.version, name, (_BASE_OFFSET, _APPEND_TIME, _LOG_START))
    data.records = None
    return Known(
        bytes(frame[:_HEAD_BYTES]),
        bytes(frame[_SAME_AT:size_at]),
        is_flexible,
        call,
        name,
        answer,
        *(answer.find(_number.pack(number)) for number in (_BASE_OFFSET, _APPEND_TIME, _LOG_START)),
    )


def _size_bytes(size: int, is_flexible: bool) -> int:
    # A compact size is one more than the size, seven bits a byte.
    return max(1, ((size + 1).bit_length() + 6) // 7) if is_flexible else _size.size


def _records_at(frame: bytearray, size_at: int, is_flexible: bool) -> tuple[int, int] | None:
    """Where the records begin and end, if nothing else but the usual end follows them."""
    try:
        if is_flexible:
            size, start = read_uvarint(frame, size_at)
            stop = start + size - 1
            is_all = stop + len(_NO_TAGS) == len(frame) and frame.endswith(_NO_TAGS)
        else:
            (size,) = _size.unpack_from(frame, size_at)
            start = size_at + _size.size
            stop = start + size
            is_all = stop == len(frame)
    except (IndexError, struct.error, DecodeError):
        return None
    return (start, stop) if is_all and stop > start else None


def _encoded(correlation_id: int, version: int, name: Name, numbers: tuple[int, int, int]) -> bytes:
    base_offset, append_time_ms, log_start_offset = numbers
    partition = PartitionProduceResponse(
        index=name[1],
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=log_start_offset,
    )
    response = ProduceResponse(responses=[TopicProduceResponse(name=name[0], partition_responses=[partition])])
    return b"".join(_framed(correlation_id, version, response))


def _framed(correlation_id: int, version: int, response: Response) -> Parts:
    out = start_frame(encode_response_header(correlation_id, ProduceResponse.is_flexible(version)))
    return finish_frame(response.encode(version, out))


class Repeats:
    """What one connection has said before; see the module's description."""

    __slots__ = ("_clock", "_hits", "_known", "_lessons", "_partitions", "_refuse", "_statistics")

    def __init__(self, partitions: Partitions, clock: Clock, refuse: Refuse) -> None:
        self._partitions = partitions
        self._clock = clock
        self._refuse = refuse
        self._statistics = partitions.statistics.requests[ProduceRequest.api_key]
        self._known: tuple[Known, ...] = ()
        self._hits = 0
        self._lessons = 0

    @property
    def known_count(self) -> int:
        return len(self._known)

    def learn(self, call: Call, data: PartitionProduceData) -> None:
        """Keep a request in mind that went well; the one that came first is forgotten for it."""
        if self._lessons >= KNOWN_MAX and self._hits < _HITS_PER_LESSON * self._lessons:
            return
        known = known_from(call, data)
        if known is not None:
            self._lessons += 1
            self._known = (known, *self._known[: KNOWN_MAX - 1])

    def __call__(self, frame: bytearray) -> Reply:
        """The answer; None if this has to go the long way."""
        for known in self._known:
            if frame.startswith(known.same, _SAME_AT) and frame.startswith(known.head):
                return self._produce(known, frame)
        return None

    def _produce(self, known: Known, frame: bytearray) -> Reply:
        began = perf_counter_ns()
        _, same, is_flexible, call, name, answer, base_offset_at, append_time_at, log_start_at = known
        partition = self._partitions.all.get(name)
        place = _records_at(frame, _SAME_AT + len(same), is_flexible)
        if partition is None or place is None:
            return None
        version, acks = call.version, call.request.acks
        try:
            batch = parse_produced(memoryview(frame)[place[0] : place[1]], version)
            if batch.attributes & TRANSACTIONAL_BIT:
                return None
            appended = partition.append(batch, acks, self._clock.wall_ms())
        except (KafkaError, RejectedRecords, Costly):
            return None
        self._hits += 1
        statistics = partition.statistics
        statistics.produce_requests += 1
        statistics.messages_in += batch.record_count
        statistics.bytes_in += batch.size
        out = bytearray(answer)
        out[_ID_AT] = frame[_ID_AT]
        _pack_number_into(out, base_offset_at, appended.base_offset)
        _pack_number_into(out, append_time_at, appended.log_append_time_ms)
        if log_start_at > 0:
            _pack_number_into(out, log_start_at, partition.log.log_start_offset)
        promise = partition.promise(appended.last_offset + 1, acks)
        if promise is not None:
            call.connection.has_released = True
            return self._later(known, out, promise, began)
        self._statistics.add(version, (perf_counter_ns() - began) // 1000)
        return [out]

    async def _later(self, known: Known, out: bytearray, promise: Promise, began: int) -> Parts:
        """The same, once the batch is where its producer wants it, or cannot get there any more."""
        call = known.call
        parts: Parts = [out]
        errors = await CommitWait([promise]).wait_committed(call.request.timeout_ms)
        for error in errors.values():
            self._statistics.errors[error.code] += 1
            parts = _framed(
                _size.unpack_from(out, _ID_AT.start)[0], call.version, self._refuse(call, known.name, error)
            )
        self._statistics.add(call.version, (perf_counter_ns() - began) // 1000)
        return parts
