"""What leaders are asked, and where replicas are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from minikafka.client.admin import Admin, ElectionType, NewTopic, OffsetSpec, RecordsToDelete, Replica
from minikafka.client.producer import Producer
from minikafka.client.structs import OffsetAndTimestamp, TopicPartition
from minikafka.protocol.errors import (
    InvalidReplicaAssignmentError,
    LogDirNotFoundError,
    NoReassignmentInProgressError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from tests.client.admin.waiting import until, until_partition

STAMP_MS = 1_600_000_000_000


async def fill(bootstrap: str, topic: str, count: int = 10) -> TopicPartition:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            await producer.send(topic, b"x", partition=0, timestamp_ms=STAMP_MS + number * 1000)
    return TopicPartition(topic, 0)


async def test_offsets_by_place_and_time(admin: Admin, bootstrap: str, topic: str) -> None:
    place = await fill(bootstrap, topic)

    async def offset(spec: OffsetSpec | int) -> OffsetAndTimestamp:
        return (await admin.list_offsets({place: spec}))[place]

    assert (await offset(OffsetSpec.EARLIEST)).offset == 0
    assert (await offset(OffsetSpec.LATEST)).offset == 10
    assert await offset(OffsetSpec.MAX_TIMESTAMP) == (9, STAMP_MS + 9000, 0)
    assert await offset(STAMP_MS + 2500) == (3, STAMP_MS + 3000, 0)
    assert (await offset(STAMP_MS + 99_000)).offset == -1


async def test_offsets_of_what_is_not_there(admin: Admin, topic: str, name: Callable[[], str]) -> None:
    known, beyond, missing = TopicPartition(topic, 0), TopicPartition(topic, 5), TopicPartition(name(), 0)
    results = await admin.list_offsets(dict.fromkeys([known, beyond, missing], OffsetSpec.LATEST), raise_errors=False)
    assert {*results.done} == {known}
    assert {type(error) for error in results.errors.values()} == {UnknownTopicOrPartitionError}
    assert missing.topic not in await admin.list_topics()


async def test_records_are_deleted(admin: Admin, bootstrap: str, topic: str) -> None:
    place = await fill(bootstrap, topic)
    assert (await admin.delete_records({place: RecordsToDelete(4)}))[place] == 4
    assert (await admin.list_offsets({place: OffsetSpec.EARLIEST}))[place].offset == 4
    with pytest.raises(OffsetOutOfRangeError):
        await admin.delete_records({place: 11})
    assert (await admin.delete_records({place: -1}))[place] == 10


async def test_who_writes_to_a_partition(admin: Admin, bootstrap: str, topic: str) -> None:
    place = await fill(bootstrap, topic)
    (found,) = (await admin.describe_producers([place]))[place]
    assert (found.last_sequence, found.last_timestamp_ms) == (9, STAMP_MS + 9000)
    assert found.producer_id >= 0 and found.transaction_start_offset is None


async def test_log_dirs(admin: Admin, bootstrap: str, topic: str) -> None:
    place = await fill(bootstrap, topic)
    found = await admin.describe_log_dirs()
    assert {*found} == {1, 2, 3}
    for log_dirs in found.values():
        (log_dir,) = log_dirs
        assert log_dir.error is None
        assert log_dir.replicas[place].size_bytes > 0 and not log_dir.replicas[place].is_future
        assert log_dir.usable_bytes is not None and log_dir.total_bytes is not None
        assert 0 < log_dir.usable_bytes <= log_dir.total_bytes
    one = await admin.describe_log_dirs([2], partitions=[place])
    assert [*one] == [2] and [*one[2][0].replicas] == [place]
    with pytest.raises(LogDirNotFoundError):
        await admin.alter_replica_log_dirs({Replica(topic, 0, 1): "/nowhere"})


async def test_a_partition_moves(admin: Admin, bootstrap: str, name: Callable[[], str]) -> None:
    topic = name()
    await admin.create_topics([NewTopic(topic, replica_assignments={0: [1]})])
    place = await fill(bootstrap, topic)
    await admin.alter_partition_reassignments({place: [2, 3]})
    await until(lambda: admin.list_partition_reassignments([place]), lambda ongoing: not ongoing)
    await until_partition(admin, place, lambda found: (found.replicas, {*found.isr}) == ((2, 3), {2, 3}))
    assert (await admin.list_offsets({place: OffsetSpec.LATEST}))[place].offset == 10
    assert place not in await admin.list_partition_reassignments()


async def test_moves_that_cannot_be(admin: Admin, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with pytest.raises(InvalidReplicaAssignmentError):
        await admin.alter_partition_reassignments({place: [1, 99]})
    with pytest.raises(NoReassignmentInProgressError):
        await admin.alter_partition_reassignments({place: None})
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.alter_partition_reassignments({TopicPartition(topic, 9): [1]})


async def test_preferred_leaders(admin: Admin, name: Callable[[], str]) -> None:
    topic = name()
    await admin.create_topics([NewTopic(topic, replica_assignments={0: [1, 2]})])
    place = TopicPartition(topic, 0)
    # The order of replicas is changed, and with it who should lead.
    await admin.alter_partition_reassignments({place: [2, 1]})
    first = (await until_partition(admin, place, lambda found: found.replicas == (2, 1))).leader
    elected = await admin.elect_leaders(ElectionType.PREFERRED, [place])
    assert elected[place] == (first != 2)
    await until_partition(admin, place, lambda found: found.leader == 2)
    assert (await admin.elect_leaders(partitions=[place]))[place] is False
    missing = TopicPartition(topic, 4)
    results = await admin.elect_leaders(ElectionType.UNCLEAN, [missing], raise_errors=False)
    assert isinstance(results.errors[missing], UnknownTopicOrPartitionError)
