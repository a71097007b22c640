"""Log directories described, and replicas that are not moved between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest

from minikafka.broker.handlers.log_dirs import routes
from minikafka.broker.work import LoopWork
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.replicas import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tests.broker.handlers.recorded import agrees, names_of, play
from tests.broker.handlers.station import Station, station
from tests.protocol.recordings import cases

_T = TypeVar("_T")

Described = dict[str, list[tuple[str, list[int]]]]


@pytest.fixture
async def broker() -> AsyncIterator[Station]:
    async with station(routes, log_dirs=["/a", "/b"]) as made:
        for name in ("t", "u"):
            await made.add_topic(name)
        await made.add_topic("elsewhere", replicas=[2, 3])
        yield made


@pytest.mark.parametrize("name", names_of("describe-log-dirs", "alter-replica-log-dirs"))
async def test_as_recorded(name: str) -> None:
    async with station(routes) as broker:
        for step in cases()[name]["steps"]:
            if "given" in step:
                if "topic" in step["given"]:
                    await broker.add_topic(step["given"]["topic"])
                continue
            answer, shown = await play(broker, step)
            if "has topics" in step["answer"]:
                assert len(answer.results) == 1 and answer.results[0].topics
            else:
                assert agrees(step["answer"], shown), shown


async def describe(broker: Station, *topics: tuple[str, list[int]], version: int = 4) -> DescribeLogDirsResponse:
    asked = [DescribableLogDirTopic(topic=topic, partitions=indexes) for topic, indexes in topics]
    answer: DescribeLogDirsResponse = await broker.ask(DescribeLogDirsRequest(topics=asked or None), version)
    return answer


def places(answer: DescribeLogDirsResponse) -> Described:
    return {
        each.log_dir: [(topic.name, [p.partition_index for p in topic.partitions]) for topic in each.topics]
        for each in answer.results
    }


async def test_where_everything_is(broker: Station) -> None:
    answer = await describe(broker)
    assert places(answer) == {"/a": [("t", [0])], "/b": [("u", [0])]}
    assert all(each.total_bytes >= each.usable_bytes > 0 for each in answer.results)
    assert places(await describe(broker, ("u", [0, 1]), ("elsewhere", [0]))) == {"/a": [], "/b": [("u", [0])]}
    assert places(await describe(broker, ("t", []))) == {"/a": [], "/b": []}
    assert [each.total_bytes for each in (await describe(broker, version=3)).results] == [-1, -1]


async def test_of_a_directory_that_failed_only_that_is_told(broker: Station) -> None:
    broker.context.partitions.log_dirs.dirs[0].fail("it smokes")
    answer = await describe(broker)
    first, second = answer.results
    assert (first.error_code, first.topics, first.total_bytes) == (ErrorCode.KAFKA_STORAGE_ERROR, [], -1)
    assert (second.error_code, len(second.topics)) == (ErrorCode.NONE, 1)


class SlowDisks(LoopWork):
    """Blocking calls take until somebody lets them go on."""

    def __init__(self) -> None:
        super().__init__()
        self.held = asyncio.Event()
        self.held.set()
        self.begun = asyncio.Event()

    async def run_blocking(self, call: Callable[[], _T]) -> _T:
        self.begun.set()
        await self.held.wait()
        return await super().run_blocking(call)


async def test_a_slow_disk_keeps_nobody_waiting() -> None:
    work = SlowDisks()
    async with station(routes, work=work) as broker:
        await broker.add_topic("t")
        work.held.clear()
        work.begun.clear()
        asked = asyncio.create_task(describe(broker))
        await work.begun.wait()
        # Meanwhile a topic comes, and it is told as well.
        broker.context.partitions.log_dirs.create(("u", 0), None, broker.live.topic("u").log, now_ms=0, is_new=True)
        work.held.set()
        assert places(await asked) == {"/data": [("t", [0]), ("u", [0])]}
        assert len([each for each in broker.disk.ops if each.kind == "total_bytes"]) == 1


async def move(broker: Station, *wanted: tuple[str, str, list[int]]) -> dict[tuple[str, int], str]:
    dirs = [
        AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=indexes)])
        for path, topic, indexes in wanted
    ]
    answer = await broker.ask(AlterReplicaLogDirsRequest(dirs=dirs), 2)
    return {
        (topic.topic_name, each.partition_index): ErrorCode(each.error_code).name
        for topic in answer.results
        for each in topic.partitions
    }


async def test_replicas_stay_where_they_are(broker: Station) -> None:
    assert await move(broker, ("/a", "t", [0, 9]), ("/b", "other", [0]), ("/b", "elsewhere", [0])) == {
        ("t", 0): "NONE",
        ("t", 9): "UNKNOWN_TOPIC_OR_PARTITION",
        ("other", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        ("elsewhere", 0): "REPLICA_NOT_AVAILABLE",
    }
    assert await move(broker, ("/b", "t", [0])) == {("t", 0): "OPERATION_NOT_ATTEMPTED"}
    assert await move(broker, ("/b", "t", [0]), ("/none", "t", [0])) == {("t", 0): "LOG_DIR_NOT_FOUND"}
    assert await move(broker, ("/a/", "t", [0])) == {("t", 0): "LOG_DIR_NOT_FOUND"}
    assert await move(broker) == await move(broker, ("/a", "t", [])) == {}
    broker.context.partitions.log_dirs.dirs[1].fail("it smokes")
    assert await move(broker, ("/b", "t", [0])) == {("t", 0): "KAFKA_STORAGE_ERROR"}
