"""DeleteRecords: move the start of a log up, so that what is before it can go.

The answer waits until the start has moved on all replicas: a follower that was elected with an older one would show
deleted records again.
"""

from __future__ import annotations

from minikafka.broker.context import Context
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from minikafka.storage.errors import StorageError
from minikafka.storage.retention import delete_records


def routes(context: Context) -> list[Route]:
    return [Route(APIS[21], _RecordsHandler(context).delete, Operation.DELETE, Resource.TOPIC)]


class _RecordsHandler:
    """See the module's description."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def delete(self, call: Call) -> DeleteRecordsResponse:
        request: DeleteRecordsRequest = call.request
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name, partitions=[self._delete(topic.name, each) for each in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    def _delete(self, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        answer = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
        try:
            partition = self._context.partitions.get(topic, asked.partition_index)
            partition.check_leader()
            try:
                answer.low_watermark = delete_records(partition.log, asked.offset)
            except StorageError as error:
                raise partition.disk_failure(error) from error
            partition.wake()
        except KafkaError as error:
            answer.error_code = error.code
        return answer
