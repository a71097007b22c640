"""Ranges from brokers that answer strangely, played by a script. Without Spark, and without brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, cast

import pytest

from minikafka.client.cluster import Cluster
from minikafka.client.metadata import Metadata, Topic
from minikafka.protocol.errors import KafkaError, UnknownTopicIdError, UnknownTopicOrPartitionError
from minikafka.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.protocol.records import BatchBuilder
from minikafka.protocol.schema import ZERO_UUID
from minikafka.spark_jobs import broker_ranges
from minikafka.spark_jobs.broker_ranges import RangeReader
from minikafka.spark_jobs.catalog import LossPolicy
from minikafka.spark_jobs.errors import DataLoss
from minikafka.spark_jobs.link import Link, LoopThread
from minikafka.spark_jobs.options import EARLIEST, ReaderConfig
from minikafka.spark_jobs.planning import OffsetRange

LEADER, OTHER = 1, 0
OLD, NEW = b"old topic's id..", b"new topic's id.."


class ScriptedCluster:
    """Gives answers one after the other, and knows who was asked for what. Retries at once, a few times."""

    def __init__(self, *answers: FetchablePartitionResponse | KafkaError) -> None:
        self._answers = [*answers]
        self.asked: list[tuple[int, int]] = []
        self.asked_bytes: list[int] = []
        self.versions: list[object] = []
        self.metadata = self.fresh = Metadata()
        self.end_offset = 10

    async def wait_metadata(self, topics: list[str], *, timeout_ms: int) -> Metadata:
        return self.metadata

    async def refresh(self) -> Metadata:
        self.metadata = self.fresh
        return self.metadata

    def leader(self, topic: str, partition: int) -> int | None:
        return LEADER if self._answers else None

    def leader_epoch(self, topic: str, partition: int) -> int:
        return 0

    async def request(
        self, node_id: int, request: FetchRequest | ListOffsetsRequest, **options: object
    ) -> FetchResponse | ListOffsetsResponse:
        if isinstance(request, ListOffsetsRequest):
            (asked,) = request.topics[0].partitions
            end = ListOffsetsPartitionResponse(
                partition_index=0, error_code=0, offset=0 if asked.timestamp == EARLIEST else self.end_offset
            )
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[end])])
        self.versions.append(options["max_version"])
        self.asked.append((node_id, request.topics[0].partitions[0].fetch_offset))
        self.asked_bytes.append(request.topics[0].partitions[0].partition_max_bytes)
        assert request.max_bytes == self.asked_bytes[-1]
        answer = self._answers.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[answer])])

    async def retry(self, attempt: Callable[[], Awaitable[Any]], *, timeout_ms: int) -> Any:
        for left in reversed(range(4)):
            try:
                return await attempt()
            except KafkaError as error:
                if not left or not error.retriable:
                    raise
                if error.refresh_metadata:
                    await self.refresh()
        raise AssertionError("the last attempt returns or raises")


class ScriptedLink:
    def __init__(self, cluster: ScriptedCluster, thread: LoopThread) -> None:
        self.config = ReaderConfig()
        self._cluster = cast(Cluster, cluster)
        self._thread = thread

    def run(self, ask: Callable[[Cluster], Coroutine[Any, Any, Any]]) -> Any:
        return self._thread.run(ask(self._cluster))

    def submit(self, ask: Callable[[Cluster], Coroutine[Any, Any, Any]]) -> Future[Any]:
        return self._thread.submit(ask(self._cluster))


@pytest.fixture(autouse=True)
def nothing_was_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_ranges, "_bytes_per_offset", {})


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread("test")
    yield made
    made.close()


def answer(*offsets: int, preferred: int = -1) -> FetchablePartitionResponse:
    records = b""
    for offset in offsets:
        builder = BatchBuilder()
        builder.append(0, None, b"v")
        records += builder.build(base_offset=offset)
    return FetchablePartitionResponse(
        partition_index=0,
        error_code=0,
        high_watermark=10,
        last_stable_offset=10,
        records=records,
        preferred_read_replica=preferred,
    )


def read(cluster: ScriptedCluster, thread: LoopThread, *, fails: bool = True, topic_id: bytes = ZERO_UUID) -> list[int]:
    link = cast("Link[ReaderConfig]", ScriptedLink(cluster, thread))
    reader = RangeReader(link, LossPolicy(fails), OffsetRange("t", 0, 0, 10, topic_id))
    return [batch.base_offset for batch in reader.batches()]


def test_an_answer_without_records_is_believed_the_second_time(thread: LoopThread) -> None:
    cluster = ScriptedCluster(answer(0), answer(), answer(5), answer(), answer())
    assert read(cluster, thread) == [0, 5]
    assert [offset for _, offset in cluster.asked] == [0, 1, 1, 6, 6]


def test_a_leader_that_sends_to_another_replica(thread: LoopThread) -> None:
    cluster = ScriptedCluster(answer(preferred=OTHER), answer(0, 9))
    assert read(cluster, thread) == [0, 9]
    assert cluster.asked == [(LEADER, 0), (OTHER, 0)]


def test_a_partition_that_is_gone(thread: LoopThread) -> None:
    answers = answer(0), UnknownTopicOrPartitionError(), UnknownTopicOrPartitionError()
    assert read(ScriptedCluster(*answers), thread, fails=False) == [0]
    with pytest.raises(DataLoss, match=r"t-0 \[0, 10\) was to be read, but that partition cannot be found any more"):
        read(ScriptedCluster(*answers), thread)


def test_range_reader_reports_partition_that_ends_inside_the_range(thread: LoopThread) -> None:
    def short() -> ScriptedCluster:
        first, end = answer(0, 4), answer()
        first.high_watermark = end.high_watermark = 5
        cluster = ScriptedCluster(first, end, end)
        cluster.end_offset = 5
        return cluster

    assert read(short(), thread, fails=False) == [0, 4]
    with pytest.raises(DataLoss, match=r"t-0 ends at 5, before t-0 \[0, 10\)"):
        read(short(), thread)


def test_range_reader_waits_for_a_leader_that_does_not_show_its_records_yet(thread: LoopThread) -> None:
    late = answer()
    late.high_watermark = 5
    cluster = ScriptedCluster(answer(0, 4), late, late, answer(5, 9))
    assert read(cluster, thread) == [0, 4, 5, 9]


def test_range_reader_reports_topic_that_was_created_again(thread: LoopThread) -> None:
    """Workers live on, so what one knows of a topic may be newer or older than the range."""

    def replaced() -> ScriptedCluster:
        cluster = ScriptedCluster(UnknownTopicIdError(), answer(0), answer(9))
        cluster.metadata = Metadata(topics={"t": Topic("t", OLD)})
        cluster.fresh = Metadata(topics={"t": Topic("t", NEW)})
        return cluster

    assert read(replaced(), thread, fails=False, topic_id=OLD) == []
    with pytest.raises(DataLoss, match=r"t-0 \[0, 10\) was to be read, but that topic was deleted and created again"):
        read(replaced(), thread, topic_id=OLD)
    assert read(replaced(), thread, topic_id=NEW) == [0, 9]
    assert read(replaced(), thread) == [0, 9]


def test_range_reader_fetches_by_topic_id_if_it_is_known(thread: LoopThread) -> None:
    by_id, by_name = ScriptedCluster(answer(0, 9)), ScriptedCluster(answer(0, 9))
    read(by_id, thread, topic_id=NEW)
    read(by_name, thread)
    # Fetch 13 is the first that names topics by their ids alone (KIP-516).
    assert (by_id.versions, by_name.versions) == ([17], [12])


def test_no_more_is_asked_for_than_is_left(thread: LoopThread) -> None:
    first = ScriptedCluster(answer(0), answer(1, 9))
    assert read(first, thread) == [0, 1, 9]
    whole, rest = first.asked_bytes
    assert whole == ReaderConfig().max_partition_fetch_bytes
    one = len(answer(0).records or b"")
    assert 9 * one < rest < 9 * one + 70_000
    # Who reads the partition next knows that from the beginning.
    again = ScriptedCluster(answer(0, 9))
    assert read(again, thread) == [0, 9]
    assert again.asked_bytes[0] < 100_000


def test_a_first_batch_that_is_cut_is_asked_for_again_as_a_whole(thread: LoopThread) -> None:
    cut = answer(1)
    cut.records = (cut.records or b"")[:-1]
    cluster = ScriptedCluster(answer(0), cut, answer(1, 9))
    assert read(cluster, thread) == [0, 1, 9]
    assert cluster.asked_bytes[2] == 2 * ReaderConfig().max_partition_fetch_bytes
