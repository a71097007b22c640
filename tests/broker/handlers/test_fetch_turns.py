"""Requests of one fetch session at a time: a follower sends the next one to have the one that waits answered."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable

from minikafka.broker.handlers import fetch
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.pipeline import Pipeline
from minikafka.protocol.records import BatchBuilder
from tests.broker.handlers.station import Station, station, with_data

VERSION = 10
LONG_MS = 60_000


def request(session_id: int, session_epoch: int, *topics: str, max_wait_ms: int = LONG_MS) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic=topic, partitions=[wanted]) for topic in topics],
    )


def batch() -> bytearray:
    builder = BatchBuilder()
    builder.append(1_700_000_000_000, None, b"a")
    return builder.build()


def begin(at: Station, asked: FetchRequest) -> Awaitable[FetchResponse]:
    """The first stage of a request, as if the next one had come in the same piece; the second is up to the caller."""
    pipeline = Pipeline[None]("test")
    frame = b"".join(pipeline.send(asked, VERSION, None))
    reply = at.dispatcher(at.connection, bytearray(frame[4:]))

    async def finish() -> FetchResponse:
        parts = await reply if inspect.isawaitable(reply) else reply
        assert isinstance(parts, list)
        answer = pipeline.receive(b"".join(parts)[4:])[1]
        assert isinstance(answer, FetchResponse)
        return answer

    return finish()


async def test_a_request_that_comes_before_the_last_one_waits_ends_its_wait() -> None:
    async with station(fetch.routes) as made:
        await made.add_topic("t", replicas=[1])
        await made.add_topic("u", replicas=[1])
        session = await begin(made, request(0, 0, "t", max_wait_ms=0))
        first = begin(made, request(session.session_id, 1))
        second = begin(made, request(session.session_id, 2, "u", max_wait_ms=50))
        async with asyncio.timeout(10):
            answers = await asyncio.gather(first, second)
        assert [answer.error_code for answer in answers] == [0, 0]
        assert [topic.topic for answer in answers for topic in answer.responses] == ["u"]


async def test_what_the_next_request_names_is_in_its_own_answer() -> None:
    async with station(with_data) as made:
        await made.add_topic("t", replicas=[1])
        await made.add_topic("u", replicas=[1])
        session = await begin(made, request(0, 0, "t", max_wait_ms=0))
        first = asyncio.ensure_future(begin(made, request(session.session_id, 1)))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(begin(made, request(session.session_id, 2, "u")))
        await asyncio.sleep(0)  # The first one is about to answer, the second one begins to wait.
        data = PartitionProduceData(index=0, records=memoryview(batch()))
        topics = [TopicProduceData(name="u", partition_data=[data])]
        await made.ask(ProduceRequest(acks=1, timeout_ms=LONG_MS, topic_data=topics), 8)
        async with asyncio.timeout(10):
            assert (await first).responses == []
            (topic,) = (await second).responses
        assert len(topic.partitions[0].records or b"") == len(batch())


async def test_of_many_requests_only_the_last_one_waits() -> None:
    async with station(fetch.routes) as made:
        await made.add_topic("t", replicas=[1])
        session = await begin(made, request(0, 0, "t", max_wait_ms=0))
        waiting = [asyncio.ensure_future(begin(made, request(session.session_id, epoch))) for epoch in range(1, 5)]
        async with asyncio.timeout(10):
            await asyncio.gather(*waiting[:-1])
        assert not waiting[-1].done()
        made.context.partitions.get("t", 0).resign()
        async with asyncio.timeout(10):
            (topic,) = (await waiting[-1]).responses
        assert topic.topic == "t"
