"""Fencing by leader epoch (KIP-320), and what a follower takes over from its leader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from minikafka.broker.handlers import fetch, list_offsets
from minikafka.protocol.control import PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minikafka.protocol.records import BatchBuilder
from tests.broker.handlers.station import Station, station

EPOCH = 5
CONSUMER, FOLLOWER = -1, 2


@pytest.fixture
async def broker() -> AsyncIterator[Station]:
    async with station(lambda context: [*fetch.routes(context), *list_offsets.routes(context)]) as made:
        yield made


async def _take_role(broker: Station, leader: int, epoch: int = EPOCH) -> None:
    role = PartitionState(
        topic="t",
        topic_id=b"t".ljust(16, b"\0"),
        partition=0,
        leader=leader,
        leader_epoch=epoch,
        isr=[1, 2],
        replicas=[1, 2],
        partition_epoch=epoch,
        controller_epoch=1,
        is_new=True,
    )
    broker.update_metadata(partitions=[role])
    assert await broker.context.partitions.apply([role], is_full=False) == {}


async def _fetch(broker: Station, replica_id: int, epoch: int) -> int:
    wanted = FetchPartition(partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=0,
        session_epoch=-1,
        topics=[FetchTopic(topic="t", partitions=[wanted])],
    )
    answer: Any = await broker.ask(request, 11)
    return int(answer.responses[0].partitions[0].error_code)


async def _list_offsets(broker: Station, replica_id: int, epoch: int) -> int:
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=-2)
    request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name="t", partitions=[asked])])
    answer: Any = await broker.ask(request, 7)
    return int(answer.topics[0].partitions[0].error_code)


async def _end_of_epoch(broker: Station, replica_id: int, epoch: int) -> int:
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=EPOCH)
    request = OffsetForLeaderEpochRequest(
        replica_id=replica_id, topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])]
    )
    answer: Any = await broker.ask(request, 4)
    return int(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("ask", [_fetch, _list_offsets, _end_of_epoch])
@pytest.mark.parametrize("replica_id", [CONSUMER, FOLLOWER])
async def test_leader_epoch_fences_readers(broker: Station, ask: Any, replica_id: int) -> None:
    """One that knows an older epoch has to learn who leads now, one that knows a newer one is ahead of this broker."""
    await _take_role(broker, leader=1)
    assert await ask(broker, replica_id, EPOCH - 1) == ErrorCode.FENCED_LEADER_EPOCH
    assert await ask(broker, replica_id, EPOCH + 1) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert await ask(broker, replica_id, EPOCH) == ErrorCode.NONE
    assert await ask(broker, replica_id, -1) == ErrorCode.NONE


async def test_follower_keeps_its_log_start_below_its_high_watermark(broker: Station) -> None:
    """The leader deletes up to its own high watermark. Records that a follower does not know to be committed stay."""
    await _take_role(broker, leader=2)
    partition = broker.context.partitions.get("t", 0)
    for offset in range(3):
        builder = BatchBuilder()
        builder.append(1, None, b"m")
        assert partition.append_fetched(_at(builder.build(), offset), EPOCH)
    partition.follow_offsets(high_watermark=1, log_start_offset=2)
    assert (partition.log.log_start_offset, partition.log.high_watermark) == (1, 1)
    partition.follow_offsets(high_watermark=3, log_start_offset=2)
    assert (partition.log.log_start_offset, partition.log.high_watermark) == (2, 3)


def _at(batch: Any, offset: int) -> bytes:
    """A batch as a leader of this epoch has written it; neither number is covered by the checksum."""
    data = bytearray(batch)
    data[0:8] = offset.to_bytes(8, "big")
    data[12:16] = EPOCH.to_bytes(4, "big")
    return bytes(data)
