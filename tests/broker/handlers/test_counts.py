"""What is counted of requests: who asked, and with what errors they ended."""

from __future__ import annotations

from minikafka.broker.network.outcomes import count_errors
from minikafka.broker.statistics import RequestStatistics
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import FetchResponse
from minikafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.broker.handlers.station import Station, station
from tests.broker.handlers.test_produce_fetch import ALL, batch, get, routes, send

PRODUCE, FETCH = 0, 1


def counted(at: Station, api_key: int) -> RequestStatistics:
    return at.context.partitions.statistics.requests[api_key]


async def test_fetches_of_followers_are_counted_apart() -> None:
    async with station(routes) as at:
        await at.add_topic("t")
        await get(at, 0)
        await get(at, 0, follower=2)
        await get(at, 0, follower=2)
        assert counted(at, FETCH).count == 1
        assert at.context.partitions.statistics.follower_fetches.count == 2


async def test_errors_are_counted_by_their_code() -> None:
    async with station(routes, {"min.insync.replicas": "2"}) as at:
        await at.add_topic("t")
        partition = at.context.partitions.get("t", 0)
        assert partition.leadership is not None
        partition.leadership.accept([1], 1)
        await send(at, batch(b"a"), ALL)
        await send(at, batch(b"a"), ALL)
        await send(at, batch(b"a"))
        await get(at, 7)
        await get(at, 7, follower=2)
        produced = {ErrorCode.NOT_ENOUGH_REPLICAS: 2}
        fetched = {ErrorCode.OFFSET_OUT_OF_RANGE: 1}
        assert (counted(at, PRODUCE).errors, counted(at, FETCH).errors) == (produced, fetched)
        assert at.context.partitions.statistics.follower_fetches.errors == fetched


async def test_an_error_on_the_short_way_is_counted_too() -> None:
    async with station(routes, {"min.insync.replicas": "2"}) as at:
        await at.add_topic("t")
        await send(at, batch(b"a"), ALL, timeout_ms=1)
        await send(at, batch(b"b"), ALL, timeout_ms=1)
        assert counted(at, PRODUCE).errors == {ErrorCode.REQUEST_TIMED_OUT: 2}


def test_errors_are_found_wherever_they_are() -> None:
    errors: dict[int, int] = {}
    count_errors(FetchResponse(error_code=70, responses=[]), errors)
    parts = [
        PartitionProduceResponse(index=each, error_code=code, base_offset=0) for each, code in enumerate((0, 6, 6))
    ]
    count_errors(ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=parts)]), errors)
    partition = MetadataResponsePartition(
        error_code=5, partition_index=0, leader_id=-1, replica_nodes=[], isr_nodes=[], offline_replicas=[]
    )
    topic = MetadataResponseTopic(error_code=3, name="t", partitions=[partition])
    count_errors(MetadataResponse(brokers=[], topics=[topic]), errors)
    assert errors == {70: 1, 6: 2, 3: 1, 5: 1}
