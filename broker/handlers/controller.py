"""What brokers ask of the controller: another ISR, and to be relieved of their partitions.

Asked of a broker that is not the controller, it says so, and the asker looks for the right one.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.controller.task import ControllerTask
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.control import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from minikafka.protocol.control_codec import ControlApi
from minikafka.protocol.errors import KafkaError

CONTROLLED_SHUTDOWN: Final = ControlApi.of(ControlledShutdownRequest, ControlledShutdownResponse)
ALTER_PARTITION: Final = ControlApi.of(AlterPartitionRequest, AlterPartitionResponse)


def routes(context: Context, controller: ControllerTask) -> list[Route]:
    del context

    async def shut_down(call: Call) -> ControlledShutdownResponse:
        try:
            return await controller.controller.controlled_shutdown(call.request)
        except KafkaError as error:
            return ControlledShutdownResponse(error_code=error.code)

    async def alter(call: Call) -> AlterPartitionResponse:
        try:
            return await controller.controller.alter_partition(call.request)
        except KafkaError as error:
            return AlterPartitionResponse(error_code=error.code)

    return [
        Route(api, handler, Operation.CLUSTER_ACTION, Resource.CLUSTER, is_advertised=False, is_control=True)
        for api, handler in ((CONTROLLED_SHUTDOWN, shut_down), (ALTER_PARTITION, alter))
    ]
