"""What a real broker cannot be brought to do: damage batches, lose what was read, decline or forget sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.client.consumer import Consumer
from minikafka.client.consumer.errors import BatchTooLarge, CorruptBatch, LogTruncated, RecordNotReadable
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import ErrorCode, TopicAuthorizationFailedError
from minikafka.protocol.messages.fetch import (
    EpochEndOffset,
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from minikafka.protocol.messages.list_offsets import (
    LeaderEpochEndOffset,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from minikafka.protocol.records import BatchBuilder, BatchView
from tests.broker.eventually import eventually
from tests.client.consumer.reading import open_consumer, take, values
from tests.client.peer import HangUp, Peer

TP = TopicPartition("t", 0)
READ_S = 10.0


def batch(start: int, stop: int, epoch: int = 0) -> bytearray:
    """Records whose values are their offsets."""
    builder = BatchBuilder()
    for number in range(start, stop):
        builder.append(1000, None, b"%d" % number)
    data = builder.build()
    BatchView(data).patch(start, epoch)
    return data


class LogPeer(Peer):
    """A broker with one partition of "t". It does not answer a fetch for which there is nothing."""

    def __init__(self, *batches: bytearray) -> None:
        super().__init__()
        self.batches = [*batches]
        self.tail = b""
        self.session_id = 0
        self.fetch_codes: list[int] = []
        self.partition_codes: list[int] = []
        self.epoch_ends: dict[int, int] = {}
        self.diverges_at: tuple[int, int] | None = None
        self.answers[FetchRequest] = self._fetch
        self.answers[ListOffsetsRequest] = self._list_offsets
        self.answers[OffsetForLeaderEpochRequest] = self._epoch_end

    @property
    def end(self) -> int:
        return BatchView(self.batches[-1]).next_offset

    @property
    def fetches(self) -> list[FetchRequest]:
        # Not the one that ends the session.
        return [each for each in self.asked(FetchRequest) if each.session_epoch >= 0 or not each.session_id]

    def _fetch(self, request: FetchRequest) -> FetchResponse | None:
        if self.fetch_codes:
            return FetchResponse(error_code=self.fetch_codes.pop(0))
        if request.session_epoch < 0 and request.session_id:
            return FetchResponse()
        asked = request.topics[0].partitions[0] if request.topics else None
        answer = self._partition(asked) if asked is not None else None
        if answer is None:
            return None
        topics = [FetchableTopicResponse(topic="t", partitions=[answer])]
        return FetchResponse(session_id=self.session_id, responses=topics)

    def _partition(self, asked: FetchPartition) -> FetchablePartitionResponse | None:
        made = FetchablePartitionResponse(
            partition_index=0, high_watermark=self.end, last_stable_offset=self.end, records=b""
        )
        if self.partition_codes:
            made.error_code = self.partition_codes.pop(0)
            return made
        if self.diverges_at is not None and asked.last_fetched_epoch > self.diverges_at[0]:
            made.diverging_epoch = EpochEndOffset(epoch=self.diverges_at[0], end_offset=self.diverges_at[1])
            return made
        after = [each for each in self.batches if BatchView(each).next_offset > asked.fetch_offset]
        made.records = b"".join([*map(self._as_sent, after), self.tail])
        return made if made.records else None

    def _as_sent(self, data: bytearray) -> bytearray:
        return data

    async def wait_for_fetch_at_end(self) -> None:
        """Until the consumer waits for what comes after the last record."""

        def is_at_end() -> bool:
            topics = self.fetches[-1].topics if self.fetches else []
            return bool(topics) and topics[0].partitions[0].fetch_offset == self.end

        await eventually(is_at_end, READ_S)

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        offset = 0 if request.topics[0].partitions[0].timestamp == -2 else self.end
        found = ListOffsetsPartitionResponse(partition_index=0, offset=offset, leader_epoch=self.leader_epoch)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])

    def _epoch_end(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        epoch = request.topics[0].partitions[0].leader_epoch
        end = LeaderEpochEndOffset(partition=0, leader_epoch=epoch, end_offset=self.epoch_ends.get(epoch, self.end))
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])


async def read_error(consumer: Consumer, kind: type[Exception]) -> Any:
    with pytest.raises(kind) as raised:
        async with asyncio.timeout(READ_S):
            await consumer.getone()
    return raised.value


async def test_a_damaged_batch() -> None:
    good, bad = batch(0, 3), batch(3, 6)
    bad[-2] ^= 1
    async with LogPeer(good, bad) as peer, open_consumer(peer.bootstrap, "t") as consumer:
        assert values(await take(consumer, 3)) == [0, 1, 2]
        for _ in range(2):
            error = await read_error(consumer, CorruptBatch)
            assert (error.partition, error.offset) == (TP, 3)
        with pytest.raises(CorruptBatch):
            await consumer.getbatch(timeout_ms=5000)
        with pytest.raises(CorruptBatch):
            await consumer.getmany(timeout_ms=5000)
        bad[-2] ^= 1
        assert values(await take(consumer, 3)) == [3, 4, 5]
        assert consumer.metrics().buffered_bytes == 0


async def test_damage_is_not_looked_for_if_nobody_wants_to_know() -> None:
    bad = batch(0, 3)
    bad[17] ^= 1
    async with LogPeer(bad) as peer, open_consumer(peer.bootstrap, "t", check_crcs=False) as consumer:
        assert values(await take(consumer, 3)) == [0, 1, 2]


async def test_bytes_that_are_no_batch() -> None:
    bad = batch(3, 6)
    bad[16] = 9
    async with LogPeer(batch(0, 3)) as peer, open_consumer(peer.bootstrap, "t") as consumer:
        peer.tail = bytes(bad)
        assert values(await take(consumer, 3)) == [0, 1, 2]
        error = await read_error(consumer, CorruptBatch)
        assert error.offset == 3 and "record format 9" in str(error)
        consumer.seek(TP, 1)
        assert values(await take(consumer, 1)) == [1]


async def test_a_batch_that_is_cut_off() -> None:
    whole = batch(0, 3)
    async with LogPeer(whole) as peer, open_consumer(peer.bootstrap, "t") as consumer:
        peer.batches = [whole]
        del peer.answers[FetchRequest]
        peer.answers[FetchRequest] = lambda request: FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic="t",
                    partitions=[
                        FetchablePartitionResponse(partition_index=0, high_watermark=3, records=bytes(whole[:70]))
                    ],
                )
            ]
        )
        error = await read_error(consumer, BatchTooLarge)
        assert error.offset == 0


@pytest.mark.parametrize("by_fetch", [False, True])
async def test_records_that_were_read_are_gone(by_fetch: bool) -> None:
    """The new leader had only six of the ten records, and has written others since."""
    async with LogPeer(batch(0, 10, 1)) as peer:
        peer.leader_epoch = 1
        async with open_consumer(peer.bootstrap, "t", metadata_max_age_ms=50) as consumer:
            assert values(await take(consumer, 10)) == [*range(10)]
            await peer.wait_for_fetch_at_end()
            _lose_records(peer, by_fetch)
            assert values(await take(consumer, 3)) == [6, 7, 8]
            assert await consumer.position(TP) == 9


def _lose_records(peer: LogPeer, by_fetch: bool) -> None:
    peer.batches = [batch(0, 6, 0), batch(6, 9, 2)]
    if by_fetch:
        # A broker that knows nothing of epochs in the one request, but in the other.
        peer.epoch_ends = {1: 1000}
        peer.diverges_at = 0, 6
    else:
        peer.epoch_ends = {1: 6}
    peer.leader_epoch = 2


@pytest.mark.parametrize("by_fetch", [False, True])
async def test_a_program_that_wants_to_know_of_lost_records(by_fetch: bool) -> None:
    options = {"metadata_max_age_ms": 50, "auto_offset_reset": "none"}
    async with LogPeer(batch(0, 10, 1)) as peer, open_consumer(peer.bootstrap, **options) as consumer:
        peer.leader_epoch = 1
        consumer.assign([TP])
        consumer.seek(TP, 0)
        assert values(await take(consumer, 10)) == [*range(10)]
        await peer.wait_for_fetch_at_end()
        _lose_records(peer, by_fetch)
        error = await read_error(consumer, LogTruncated)
        assert (error.partition, error.offset) == (TP, 6)
        consumer.seek(TP, 6)
        assert values(await take(consumer, 1)) == [6]


async def test_a_new_leader_that_has_everything() -> None:
    async with (
        LogPeer(batch(0, 5)) as peer,
        open_consumer(peer.bootstrap, "t", metadata_max_age_ms=50) as consumer,
    ):
        assert values(await take(consumer, 5)) == [*range(5)]
        await peer.wait_for_fetch_at_end()
        peer.leader_epoch = 3
        peer.batches.append(batch(5, 8, 3))
        assert values(await take(consumer, 3)) == [5, 6, 7]
        assert peer.asked(OffsetForLeaderEpochRequest)
        assert peer.fetches[-1].topics[0].partitions[0].current_leader_epoch == 3


async def test_a_broker_that_keeps_a_session() -> None:
    async with LogPeer(batch(0, 5)) as peer:
        peer.session_id = 42
        async with open_consumer(peer.bootstrap, "t") as consumer:
            await take(consumer, 5)
            await peer.wait_for_fetch_at_end()
            first, second = peer.fetches[:2]
            assert (first.session_id, first.session_epoch) == (0, 0)
            assert (second.session_id, second.session_epoch) == (42, 1)
            assert second.topics[0].partitions[0].fetch_offset == 5
        ended = peer.asked(FetchRequest)[-1]
        assert (ended.session_id, ended.session_epoch) == (42, -1)


async def test_a_session_that_is_forgotten() -> None:
    async with LogPeer(batch(0, 5)) as peer:
        peer.session_id = 42
        async with open_consumer(peer.bootstrap, "t") as consumer:
            await take(consumer, 5)
            await peer.wait_for_fetch_at_end()
            peer.batches.append(batch(5, 9))
            peer.fetch_codes = [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH]
            consumer.seek(TP, 5)
            assert values(await take(consumer, 4)) == [5, 6, 7, 8]
            fields = [(request.session_id, request.session_epoch) for request in peer.fetches]
            assert fields.count((0, 0)) >= 3


async def test_passing_trouble_and_lasting_trouble() -> None:
    async with LogPeer(batch(0, 5)) as peer, open_consumer(peer.bootstrap, "t", retry_backoff_ms=5) as consumer:
        peer.partition_codes = [
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.OFFSET_NOT_AVAILABLE,
        ]
        peer.fetch_codes = [ErrorCode.KAFKA_STORAGE_ERROR]
        assert values(await take(consumer, 5)) == [*range(5)]
        await peer.wait_for_fetch_at_end()
        peer.partition_codes = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        consumer.seek(TP, 2)
        await read_error(consumer, TopicAuthorizationFailedError)
        consumer.seek(TP, 2)
        assert values(await take(consumer, 1)) == [2]


async def test_an_old_broker() -> None:
    async with LogPeer(batch(0, 5)) as peer:
        peer.served = {**peer.served, 1: (0, 6), 2: (0, 3), 3: (0, 5)}
        async with open_consumer(peer.bootstrap, "t") as consumer:
            assert values(await take(consumer, 5)) == [*range(5)]
            assert consumer.highwater(TP) == 5


async def test_an_answer_from_before_a_seek() -> None:
    """It is on its way while the program goes elsewhere."""
    async with LogPeer(batch(0, 5), batch(5, 9)) as peer, open_consumer(peer.bootstrap, "t") as consumer:
        usual = peer.answers[FetchRequest]

        def seek_first(request: FetchRequest) -> Any:
            peer.answers[FetchRequest] = usual
            consumer.seek(TP, 1)
            return usual(request)

        peer.answers[FetchRequest] = seek_first
        consumer.seek(TP, 7)
        assert values(await take(consumer, 2)) == [1, 2]
        consumer.seek(TP, 8)
        assert values(await take(consumer, 1)) == [8]
        assert consumer.metrics().buffered_bytes == 0


def _no_five(data: bytes) -> int:
    if data == b"5":
        raise LookupError("five")
    return int(data)


async def test_an_answer_from_before_a_record_that_cannot_be_read() -> None:
    """It is on its way while the deserializer refuses a record that comes before it."""
    async with (
        LogPeer(batch(0, 9)) as peer,
        open_consumer(peer.bootstrap, "t", value_deserializer=_no_five) as consumer,
    ):
        usual = peer.answers[FetchRequest]
        first: list[Any] = []

        def read_first(request: FetchRequest) -> Any:
            if not request.topics or request.topics[0].partitions[0].fetch_offset != 9 or first:
                return usual(request)
            # The call finds its record without having to wait for more than a turn of the loop.
            with pytest.raises(StopIteration) as returned:
                call = consumer.getone()
                while True:
                    call.send(None)
            first.append(returned.value.value)
            peer.batches.append(batch(9, 12))
            return usual(request)

        peer.answers[FetchRequest] = read_first
        await eventually(lambda: first, READ_S)
        assert values([*first, *await take(consumer, 4)]) == [*range(5)]
        for _ in range(2):
            assert (await read_error(consumer, RecordNotReadable)).offset == 5
        consumer.seek(TP, 6)
        assert values(await take(consumer, 6)) == [*range(6, 12)]


class Pair(LogPeer):
    """A leader that names another broker, number 2, to read from; once, and then reads itself."""

    def __init__(self, other: LogPeer) -> None:
        super().__init__(batch(0, 5))
        self.answers[MetadataRequest] = self._two_brokers
        self._other = other
        self._usual, self.answers[FetchRequest] = self.answers[FetchRequest], self._name_other

    def _two_brokers(self, request: MetadataRequest) -> MetadataResponse:
        made = self.metadata(request)
        made.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=self._other.port))
        return made

    def _name_other(self, request: FetchRequest) -> Any:
        self.answers[FetchRequest] = self._usual
        named = FetchablePartitionResponse(partition_index=0, high_watermark=5, preferred_read_replica=2, records=b"")
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[named])])


async def test_a_replica_that_does_not_answer_is_left_for_the_leader() -> None:
    def hang_up(request: FetchRequest) -> None:
        raise HangUp

    async with LogPeer(batch(0, 5)) as replica, Pair(replica) as leader:
        replica.answers[FetchRequest] = hang_up
        async with open_consumer(leader.bootstrap, "t", client_rack="here", retry_backoff_ms=10) as consumer:
            assert values(await take(consumer, 5)) == [*range(5)]
            assert replica.asked(FetchRequest)
