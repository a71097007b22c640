"""DescribeCluster: the brokers by the listener that the client has chosen, and which of them is the controller.

- v1 says which kind of endpoint is wanted. Controllers have none of their own here: a controller is a broker.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.endpoints import endpoints_for
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import KafkaError, MismatchedEndpointTypeError, UnsupportedEndpointTypeError
from minikafka.protocol.messages.cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.common import OPERATIONS_UNKNOWN

_BROKERS: Final = 1
_CONTROLLERS: Final = 2

_NO_CONTROLLER: Final = -1

# One bit for each operation that there is on a cluster, since everybody may do everything: Create, Alter, Describe,
# ClusterAction, DescribeConfigs, AlterConfigs and IdempotentWrite, by Kafka's numbers.
_ALL_OPERATIONS: Final = sum(1 << number for number in (5, 7, 8, 9, 10, 11, 12))


def routes(context: Context) -> list[Route]:
    def describe(call: Call) -> DescribeClusterResponse:
        try:
            return _described(context, call)
        except KafkaError as error:
            return DescribeClusterResponse(error_code=error.code, error_message=error.message)

    return [Route(APIS[60], describe, Operation.DESCRIBE, Resource.CLUSTER)]


def _described(context: Context, call: Call) -> DescribeClusterResponse:
    request: DescribeClusterRequest = call.request
    if request.endpoint_type == _CONTROLLERS:
        raise MismatchedEndpointTypeError("this is the endpoint of a broker, and controllers have none of their own")
    if request.endpoint_type != _BROKERS:
        raise UnsupportedEndpointTypeError(f"there are no endpoints of type {request.endpoint_type}")
    brokers = endpoints_for(context, call.connection)
    is_asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=context.cluster_id,
        controller_id=_controller(context, {each.node_id for each in brokers}),
        brokers=[
            DescribeClusterBroker(broker_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
            for each in brokers
        ],
        cluster_authorized_operations=_ALL_OPERATIONS if is_asked else OPERATIONS_UNKNOWN,
    )


def _controller(context: Context, known: set[int]) -> int:
    """The controller, if it is one of those that the client can reach."""
    controller_id = context.metadata.controller_id
    return controller_id if controller_id is not None and controller_id in known else _NO_CONTROLLER
