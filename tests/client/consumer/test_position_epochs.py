"""The leader epoch of a position is that of the last batch before it, wherever it is committed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from minikafka.client.consumer import Consumer
from minikafka.client.structs import OffsetAndMetadata
from minikafka.protocol.messages.fetch import (
    AbortedTransaction,
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
)
from minikafka.protocol.messages.list_offsets import OffsetForLeaderEpochRequest
from minikafka.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupPartition,
    OffsetFetchResponseGroupTopic,
)
from minikafka.protocol.records import BatchBuilder, BatchView, ControlType, build_marker
from tests.broker.eventually import eventually
from tests.client.consumer.reading import open_consumer, take, take_batches, take_many, values
from tests.client.consumer.test_scripted_broker import LogPeer, batch
from tests.client.consumer.test_scripted_coordinator import TP, GroupPeer, member_of

PRODUCER = 7


def transactional(start: int, stop: int, epoch: int) -> bytearray:
    builder = BatchBuilder()
    for number in range(start, stop):
        builder.append(1000, None, b"%d" % number)
    data = builder.build(producer_id=PRODUCER, producer_epoch=0, base_sequence=0, is_transactional=True)
    BatchView(data).patch(start, epoch)
    return data


def marker(offset: int, epoch: int, kind: ControlType = ControlType.ABORT) -> bytearray:
    data = bytearray(build_marker(kind, producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0))
    BatchView(data).patch(offset, epoch)
    return data


def compacted(start: int, stop: int, epoch: int, kept: range) -> bytearray:
    """A batch of which compaction has kept some records."""
    builder = BatchBuilder()
    for number in kept:
        builder.append(1000, None, b"%d" % number, offset_delta=number - start)
    data = builder.build(last_offset_delta=stop - start - 1)
    BatchView(data).patch(start, epoch)
    return data


class EpochPeer(GroupPeer):
    """A coordinator over a log with several leader epochs."""

    def __init__(self, *batches: bytearray, aborted_from: int | None = None) -> None:
        super().__init__()
        self.batches = [*batches]
        self.leader_epoch = max(BatchView(each).leader_epoch for each in batches)
        self.aborted_from = aborted_from

    def _partition(self, asked: FetchPartition) -> FetchablePartitionResponse | None:
        made = super()._partition(asked)
        if made is not None and self.aborted_from is not None:
            made.aborted_transactions = [AbortedTransaction(producer_id=PRODUCER, first_offset=self.aborted_from)]
        return made

    def has_committed(self, offset: int, epoch: int) -> None:
        """Say from now on that this is committed."""
        committed = OffsetFetchResponseGroupPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=epoch, metadata=""
        )
        topic = OffsetFetchResponseGroupTopic(name="t", partitions=[committed])
        group = OffsetFetchResponseGroup(group_id="g", topics=[topic])
        self.answers[OffsetFetchRequest] = lambda _: OffsetFetchResponse(groups=[group])

    @property
    def last_commit(self) -> tuple[int, int]:
        """The offset and the leader epoch that came last."""
        request: OffsetCommitRequest = self.asked(OffsetCommitRequest)[-1]
        committed: OffsetCommitRequestPartition = request.topics[0].partitions[0]
        return committed.committed_offset, committed.committed_leader_epoch


@asynccontextmanager
async def manual(peer: EpochPeer, **options: Any) -> AsyncIterator[Consumer]:
    async with peer, member_of(peer, enable_auto_commit=False, **options) as consumer:
        yield consumer


async def position_after_commit(peer: EpochPeer, consumer: Consumer) -> tuple[int, int]:
    await consumer.commit()
    return peer.last_commit


async def test_position_has_epoch_of_batch_that_is_read() -> None:
    peer = EpochPeer(batch(0, 3), batch(3, 6, 1))
    async with manual(peer) as consumer:
        await take(consumer, 3)
        assert await position_after_commit(peer, consumer) == (3, 0)
        # In the middle of the first batch of another leader, and at its end.
        await take(consumer, 1)
        assert await position_after_commit(peer, consumer) == (4, 1)
        await take(consumer, 2)
        assert await position_after_commit(peer, consumer) == (6, 1)
        consumer.seek(TP, 2)
        assert values(await take_many(consumer, 1, max_records=1)) == [2]
        assert await position_after_commit(peer, consumer) == (3, 0)
        assert await take_batches(consumer, 1, max_records=1) == [b"3"]
        assert await position_after_commit(peer, consumer) == (4, 1)
        assert await take_batches(consumer, 2) == [b"4", b"5"]
        assert await position_after_commit(peer, consumer) == (6, 1)


async def test_position_has_epoch_of_skipped_batches() -> None:
    log = [batch(0, 3), transactional(3, 5, 1), marker(5, 2), batch(6, 8, 3)]
    peer = EpochPeer(*log, aborted_from=3)
    async with manual(peer, isolation_level="read_committed") as consumer:
        assert values(await take(consumer, 3)) == [0, 1, 2]
        # Everything up to the next record is passed with the last one before it.
        assert await position_after_commit(peer, consumer) == (6, 2)
        assert values(await take(consumer, 1)) == [6]
        assert await position_after_commit(peer, consumer) == (7, 3)


async def test_position_has_epoch_of_batches_skipped_in_front() -> None:
    peer = EpochPeer(batch(0, 3), batch(3, 5, 3))
    async with manual(peer, isolation_level="read_committed") as consumer:
        assert values(await take(consumer, 5)) == [*range(5)]
        await peer.wait_for_fetch_at_end()
        peer.batches += [marker(5, 4), batch(6, 8, 5)]
        consumer.seek(TP, 5)
        assert values(await take_many(consumer, 1, max_records=1)) == [6]
        assert await position_after_commit(peer, consumer) == (7, 5)
        consumer.seek(TP, 5)
        states = [*consumer._require_core().assigned]
        await eventually(lambda: states[0].has_batches)
        # Nothing was handed out, the marker is passed.
        assert await position_after_commit(peer, consumer) == (6, 4)


async def test_position_does_not_pass_what_was_not_handed_out() -> None:
    """Offsets that compaction has removed in front of a record may be of the record's epoch: with the epoch before,
    the leader would say that the log ends before the offset."""
    peer = EpochPeer(batch(0, 3), compacted(3, 9, 1, range(7, 9)))
    async with manual(peer) as consumer:
        await take(consumer, 3)
        assert await position_after_commit(peer, consumer) == (3, 0)
        states = [*consumer._require_core().assigned]
        assert states[0].next_run() is not None
        assert await position_after_commit(peer, consumer) == (3, 0)
        assert values(await take(consumer, 1)) == [7]
        assert await position_after_commit(peer, consumer) == (8, 1)


async def test_automatic_commit_has_epoch_before_record_in_hand() -> None:
    peer = EpochPeer(batch(0, 3), batch(3, 6, 1))
    async with peer, member_of(peer, auto_commit_interval_ms=20) as consumer:
        await take(consumer, 4)
        await eventually(lambda: peer.asked(OffsetCommitRequest) and peer.last_commit == (3, 0))
        await take(consumer, 1)
        await eventually(lambda: peer.last_commit == (4, 1))
        consumer.seek(TP, 2)
        await take_many(consumer, 4)
        await eventually(lambda: peer.last_commit[0] == 2)
        await consumer.getmany()
        await eventually(lambda: peer.last_commit == (6, 1))


async def test_seek_to_committed_takes_epoch_along() -> None:
    peer = EpochPeer(batch(0, 3), batch(3, 6, 1))
    async with manual(peer) as consumer:
        await take(consumer, 1)
        peer.has_committed(4, 1)
        assert await consumer.seek_to_committed() == {TP: 4}
        assert await position_after_commit(peer, consumer) == (4, 1)
        await consumer.commit({TP: OffsetAndMetadata(5, "", 1)})
        assert peer.last_commit == (5, 1)


@pytest.mark.parametrize("reset", ["earliest", "none"])
async def test_group_goes_on_after_change_of_leader(reset: str) -> None:
    """With the epoch of the batch before, the leader's answer would mean that the log was truncated."""
    peer = EpochPeer(batch(0, 3), batch(3, 6, 1))
    async with manual(peer) as consumer:
        await take(consumer, 6)
        await consumer.commit()
    again = EpochPeer(*peer.batches, batch(6, 8, 1))
    again.epoch_ends = {0: 3}
    again.has_committed(*peer.last_commit)
    again.leader_epoch = 2
    async with manual(again, auto_offset_reset=reset) as consumer:
        assert values(await take(consumer, 2)) == [6, 7]
        assert again.asked(OffsetForLeaderEpochRequest)


@pytest.mark.parametrize("reset", ["earliest", "none"])
async def test_validation_is_of_position_that_was_asked_about(reset: str) -> None:
    """A fetch of the former leader is answered between the question and the answer. The end of the epoch that was asked
    about is before the position since then."""
    options = {"metadata_max_age_ms": 50, "auto_offset_reset": reset}
    async with LogPeer(batch(0, 3, 1)) as peer, open_consumer(peer.bootstrap, **options) as consumer:
        peer.leader_epoch = 1
        consumer.assign([TP])
        consumer.seek(TP, 0)
        assert values(await take(consumer, 3)) == [0, 1, 2]
        await peer.wait_for_fetch_at_end()
        epoch_end = peer.answers[OffsetForLeaderEpochRequest]
        peer.answers[OffsetForLeaderEpochRequest] = lambda _: None
        peer.leader_epoch = 3
        await eventually(lambda: peer.asked(OffsetForLeaderEpochRequest))
        peer.batches.append(batch(3, 4, 2))
        peer.answer_late(FetchRequest)
        assert values(await take(consumer, 1)) == [3]
        peer.epoch_ends = {1: 3, 2: 4}
        peer.batches.append(batch(4, 5, 3))
        peer.answers[OffsetForLeaderEpochRequest] = epoch_end
        peer.answer_late(OffsetForLeaderEpochRequest)
        assert values(await take(consumer, 1)) == [4]
        # What came meanwhile was validated as well.
        assert peer.asked(OffsetForLeaderEpochRequest)[-1].topics[0].partitions[0].leader_epoch == 2
