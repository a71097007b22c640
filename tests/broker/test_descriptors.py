"""File descriptors are kept for logs, and what does not fit is refused instead of taken for a broken disk."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from minikafka.broker.descriptors import Descriptors
from minikafka.broker.topic_admin import DEFAULT_COUNT, TopicAdmin
from minikafka.protocol.control import PartitionState
from minikafka.protocol.errors import ErrorCode, InvalidPartitionsError
from tests.broker.handlers.station import Station, station
from tests.broker.network.test_admission import two_listeners
from tests.broker.network.test_server import LIMITS


@pytest.fixture
async def here() -> AsyncIterator[Station]:
    async with station(lambda _: []) as made:
        yield made


def test_connections_get_what_logs_and_a_reserve_leave() -> None:
    descriptors = Descriptors(1000)
    assert (descriptors.connections_max, descriptors.logs_left) == (836, 936)
    descriptors.count_logs = lambda: 500
    descriptors.count_connections = lambda: 300
    assert (descriptors.connections_max, descriptors.logs_left) == (336, 136)


async def test_client_is_refused_when_the_descriptors_left_are_for_logs() -> None:
    limits = LIMITS._replace(protected=frozenset({"INTERNAL"}))
    async with two_listeners(limits) as two:
        client = await two.connect("CLIENT")
        client.ask("at-once")
        assert await client.answer() == ("at-once", "at-once")
        two.server.descriptors.limit = 100
        two.server.descriptors.count_logs = lambda: 30
        late = await two.connect("CLIENT", is_admitted=False)
        with pytest.raises(ConnectionError):
            await late.frame()
        broker = await two.connect("INTERNAL")
        broker.ask("at-once")
        assert await broker.answer() == ("at-once", "at-once")


async def test_partitions_that_do_not_fit_are_refused_and_the_directory_stays_online(here: Station) -> None:
    partitions = here.context.partitions
    partitions.descriptors.limit = 64 + 5
    states = [
        PartitionState(
            topic="t",
            topic_id=b"i" * 16,
            partition=index,
            leader=1,
            leader_epoch=0,
            isr=[1],
            replicas=[1],
            partition_epoch=0,
            controller_epoch=1,
            is_new=True,
        )
        for index in range(8)
    ]
    errors = await partitions.apply(states, is_full=False)
    assert len(partitions.all) == 5
    assert list(errors.values()) == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    assert not any(each.is_offline for each in partitions.log_dirs.dirs)
    # When there is room, they are made.
    partitions.descriptors.limit = 1000
    assert await partitions.apply(states, is_full=False) == {}
    assert len(partitions.all) == 8


async def test_topic_that_does_not_fit_is_refused_with_the_reason(here: Station) -> None:
    here.context.partitions.descriptors.limit = 64 + 5
    admin = TopicAdmin.of(here.context)
    assert len((await admin.plan("t", 5, 1, [])).replicas) == 5
    own = [(index, [1]) for index in range(6)]
    with pytest.raises(InvalidPartitionsError, match="descriptors left for 5 partitions, not for 6"):
        await admin.plan("t", DEFAULT_COUNT, DEFAULT_COUNT, own)
    assert len((await admin.plan("t", DEFAULT_COUNT, DEFAULT_COUNT, [(each, [2]) for each, _ in own])).replicas) == 6
