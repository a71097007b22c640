"""Ranges from brokers that answer strangely, played by a script. Without Spark, and without brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, cast

import pytest

from minikafka.client.cluster import Cluster
from minikafka.client.metadata import Metadata
from minikafka.protocol.errors import KafkaError, UnknownTopicOrPartitionError
from minikafka.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)
from minikafka.protocol.records import BatchBuilder
from minikafka.spark_jobs import broker_ranges
from minikafka.spark_jobs.broker_ranges import RangeReader
from minikafka.spark_jobs.catalog import LossPolicy
from minikafka.spark_jobs.errors import DataLoss
from minikafka.spark_jobs.link import Link, LoopThread
from minikafka.spark_jobs.options import ReaderConfig
from minikafka.spark_jobs.planning import OffsetRange

LEADER, OTHER = 1, 0


class ScriptedCluster:
    """Gives answers one after the other, and knows who was asked for what. Retries at once, a few times."""

    def __init__(self, *answers: FetchablePartitionResponse | KafkaError) -> None:
        self._answers = [*answers]
        self.asked: list[tuple[int, int]] = []
        self.asked_bytes: list[int] = []
        self.metadata = Metadata()

    async def wait_metadata(self, topics: list[str]) -> Metadata:
        return self.metadata

    def leader(self, topic: str, partition: int) -> int | None:
        return LEADER if self._answers else None

    def leader_epoch(self, topic: str, partition: int) -> int:
        return 0

    async def request(self, node_id: int, request: FetchRequest, **options: object) -> FetchResponse:
        self.asked.append((node_id, request.topics[0].partitions[0].fetch_offset))
        self.asked_bytes.append(request.topics[0].partitions[0].partition_max_bytes)
        assert request.max_bytes == self.asked_bytes[-1]
        answer = self._answers.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[answer])])

    async def retry(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        for left in reversed(range(4)):
            try:
                return await attempt()
            except KafkaError as error:
                if not left or not error.retriable:
                    raise
        raise AssertionError("the last attempt returns or raises")


class ScriptedLink:
    def __init__(self, cluster: ScriptedCluster, thread: LoopThread) -> None:
        self.config = ReaderConfig()
        self._cluster = cast(Cluster, cluster)
        self._thread = thread

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


def read(cluster: ScriptedCluster, thread: LoopThread, *, fails: bool = True) -> list[int]:
    link = cast("Link[ReaderConfig]", ScriptedLink(cluster, thread))
    reader = RangeReader(link, LossPolicy(fails), OffsetRange("t", 0, 0, 10))
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
