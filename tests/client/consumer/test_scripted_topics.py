"""Topics that are read without a group, and are unknown for a moment, gone, or others of the same name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from minikafka.client.consumer import Consumer, topic_watch
from minikafka.protocol.errors import ErrorCode, UnknownTopicOrPartitionError
from minikafka.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.eventually import eventually
from tests.client.consumer.reading import open_consumer, take, values
from tests.client.consumer.test_scripted_broker import READ_S, TP, LogPeer, batch, read_error
from tests.client.consumer.test_scripted_coordinator import GroupPeer, member_of


class TopicPeer(LogPeer):
    """Its topic has an id, and is unknown to the next `unknown` answers."""

    def __init__(self) -> None:
        super().__init__(batch(0, 5))
        self.topic_id = b"1" * 16
        self.unknown = 0
        self.answers[MetadataRequest] = self._with_id

    def _fetch(self, request: FetchRequest) -> FetchResponse | None:
        """By the id of the topic, as brokers do since version 13."""
        answer = super()._fetch(request)
        asked = request.topics[0].topic_id if request.topics else self.topic_id
        if answer is None:
            return None
        if asked != self.topic_id or self.unknown:
            refused = FetchablePartitionResponse(
                partition_index=0, error_code=ErrorCode.UNKNOWN_TOPIC_ID, high_watermark=-1, records=None
            )
            return FetchResponse(responses=[FetchableTopicResponse(topic_id=asked, partitions=[refused])])
        for topic in answer.responses:
            topic.topic, topic.topic_id = "", self.topic_id
        return answer

    def come_back(self) -> None:
        """With three more records, and with another leader, so that what was asked before is not waited for."""
        self.unknown = 0
        self.leader_epoch += 1
        self.batches.append(batch(5, 8, self.leader_epoch))

    def _with_id(self, request: MetadataRequest) -> MetadataResponse:
        if self.unknown:
            self.unknown -= 1
            made = self.metadata(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            for topic in made.topics:
                topic.partitions = []
            return made
        made = self.metadata(request)
        for topic in made.topics:
            topic.topic_id = self.topic_id
        return made


@asynccontextmanager
async def has_read_all(peer: TopicPeer, how: str) -> AsyncIterator[Consumer]:
    options = {"metadata_max_age_ms": 50, "retry_backoff_ms": 10, "allow_auto_create_topics": False}
    async with peer, open_consumer(peer.bootstrap, **options) as consumer:
        if how == "topics":
            consumer.subscribe(["t"])
        elif how == "pattern":
            consumer.subscribe(pattern="t")
        else:
            consumer.assign([TP])
        assert values(await take(consumer, 5)) == [*range(5)]
        await peer.wait_for_fetch_at_end()
        yield consumer


HOWS = ["topics", "pattern", "partitions"]


@pytest.mark.parametrize("how", HOWS)
async def test_a_topic_that_is_unknown_for_a_moment(how: str) -> None:
    """A broker that has just started has not heard of it."""
    peer = TopicPeer()
    async with has_read_all(peer, how) as consumer:
        peer.unknown = 3
        await eventually(lambda: not peer.unknown, READ_S)
        peer.come_back()
        assert values(await take(consumer, 3)) == [5, 6, 7]


@pytest.mark.parametrize("how", HOWS)
async def test_another_topic_of_the_same_name(how: str) -> None:
    """It has more records than were read of the first, and the same leader epoch: only the id tells."""
    peer = TopicPeer()
    async with has_read_all(peer, how) as consumer:
        peer.topic_id = b"2" * 16
        peer.batches = [batch(0, 9)]
        assert values(await take(consumer, 9)) == [*range(9)]


async def test_commit_of_topic_that_is_unknown_for_a_moment() -> None:
    """It is the coordinator that says whether the topic exists."""
    async with GroupPeer() as peer, member_of(peer, enable_auto_commit=False) as consumer:
        await take(consumer, 3)
        cluster = consumer._require_core().cluster
        usual = peer.answers[MetadataRequest]
        peer.answers[MetadataRequest] = lambda request: peer.metadata(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await cluster.refresh()
        await consumer.commit()
        assert peer.committed == [(1, 3)]
        peer.answers[MetadataRequest] = usual


async def test_topic_that_is_not_read_is_not_asked_for() -> None:
    """Asking could create it after it was deleted."""
    peer = TopicPeer()
    async with has_read_all(peer, "topics") as consumer:
        await consumer.end_offsets([TP])
        consumer.unsubscribe()
        before = len(peer.asked(MetadataRequest))
        await eventually(lambda: len(peer.asked(MetadataRequest)) >= before + 3, READ_S)
        assert [each.name for each in peer.asked(MetadataRequest)[-1].topics] == []
        assert consumer.partitions_for_topic("t") is None
        consumer.subscribe(["t"])
        assert values(await take(consumer, 5)) == [*range(5)]


@pytest.mark.parametrize("how", HOWS)
async def test_a_topic_that_is_gone(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_watch, "TOPIC_WAIT_MS", 100)
    peer = TopicPeer()
    async with has_read_all(peer, how) as consumer:
        peer.unknown = 1 << 30
        if how == "pattern":
            await eventually(lambda: not consumer.assignment(), READ_S)
        else:
            # Told once; the program may go on with others, or wait.
            await read_error(consumer, UnknownTopicOrPartitionError)
            assert await consumer.getmany(timeout_ms=300) == {}
        peer.come_back()
        expected = [0, 1, 2] if how == "pattern" else [5, 6, 7]
        assert values(await take(consumer, 3)) == expected
