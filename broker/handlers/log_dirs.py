"""DescribeLogDirs, AlterReplicaLogDirs: the log directories of this broker, what is in them, and moving it.

- DescribeLogDirs: null asks for all partitions. Of a directory that failed only that is told. v4 tells the size of the
  disks, which are asked beside the loop: one that hangs is not to stop the broker.
- AlterReplicaLogDirs moves nothing here. Where a replica is already it may stay; any other directory is refused.
"""

from __future__ import annotations

from collections.abc import Collection

from minikafka.broker.context import Context
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.replicas import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from minikafka.storage.log_dirs import DirDescription

Name = tuple[str, int]


def routes(context: Context) -> list[Route]:
    async def describe(call: Call) -> DescribeLogDirsResponse:
        return await _describe(context, call.request)

    def move(call: Call) -> AlterReplicaLogDirsResponse:
        return _move(context, call.request)

    return [
        Route(APIS[35], describe, Operation.DESCRIBE, Resource.CLUSTER),
        Route(APIS[34], move, Operation.ALTER, Resource.CLUSTER),
    ]


async def _describe(context: Context, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {(each.topic, index) for each in request.topics for index in each.partitions}
    log_dirs = context.partitions.log_dirs
    volumes = await context.work.run_blocking(log_dirs.volumes)
    return DescribeLogDirsResponse(results=[_described(each, wanted) for each in log_dirs.describe(volumes)])


def _described(directory: DirDescription, wanted: Collection[Name] | None) -> DescribeLogDirsResult:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for each in directory.logs:
        if wanted is None or (each.topic, each.partition) in wanted:
            topic = topics.setdefault(each.topic, DescribeLogDirsTopic(name=each.topic, partitions=[]))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=each.partition,
                    partition_size=each.size_bytes,
                    offset_lag=each.offset_lag,
                    is_future_key=False,
                )
            )
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE if directory.failure is None else ErrorCode.KAFKA_STORAGE_ERROR,
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
    )


def _move(context: Context, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    # Of a partition that is there several times the last directory counts, as in Kafka.
    wanted = {
        (topic.name, index): each.path for each in request.dirs for topic in each.topics for index in topic.partitions
    }
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for name, path in wanted.items():
        topic = results.setdefault(name[0], AlterReplicaLogDirTopicResult(topic_name=name[0], partitions=[]))
        code = _outcome(context, name, path)
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=name[1], error_code=code))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _outcome(context: Context, name: Name, path: str) -> ErrorCode:
    log_dirs = context.partitions.log_dirs
    directory = next((each for each in log_dirs.dirs if each.path == path), None)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if directory.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if context.metadata.partition(*name) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    holder = log_dirs.dir_of(name)
    if holder is None:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE if holder is directory else ErrorCode.OPERATION_NOT_ATTEMPTED
