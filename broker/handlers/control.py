"""The control plane, receiving side: what the controller tells this broker to be, to give up, and to know.

Every request carries the controller's epoch and the epoch of the broker it was meant for. One of an older controller
changes nothing, nor does one for any other registration than ours (KIP-380). Kafka accepts newer broker epochs, as of a
registration whose answer is on its way. Here a broker without a registration accepts nothing: it answers that it has
none, and the controller sends the same again until it is registered, or gone.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, Protocol

from minikafka.broker.context import Context
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.broker.replicas.partitions import Errors
from minikafka.protocol.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from minikafka.protocol.control_codec import ControlApi
from minikafka.protocol.errors import ErrorCode

LEADER_AND_ISR: Final = ControlApi.of(LeaderAndIsrRequest, LeaderAndIsrResponse)
STOP_REPLICA: Final = ControlApi.of(StopReplicaRequest, StopReplicaResponse)
UPDATE_METADATA: Final = ControlApi.of(UpdateMetadataRequest, UpdateMetadataResponse)


class _FromController(Protocol):
    controller_epoch: int
    broker_epoch: int


def routes(context: Context) -> list[Route]:
    handler = _ControlHandler(context)
    rows = (
        (LEADER_AND_ISR, handler.leader_and_isr),
        (STOP_REPLICA, handler.stop_replica),
        (UPDATE_METADATA, handler.update_metadata),
    )
    return [
        Route(api, handle, Operation.CLUSTER_ACTION, Resource.CLUSTER, is_advertised=False, is_control=True)
        for api, handle in rows
    ]


class _ControlHandler:
    """See the module's description."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def _fence(self, request: _FromController) -> ErrorCode:
        membership = self._context.membership
        if request.controller_epoch < membership.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if not membership.is_registered:
            return ErrorCode.BROKER_ID_NOT_REGISTERED
        if request.broker_epoch != membership.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        membership.controller_epoch = request.controller_epoch
        return ErrorCode.NONE

    def leader_and_isr(self, call: Call) -> LeaderAndIsrResponse | Awaitable[LeaderAndIsrResponse]:
        request: LeaderAndIsrRequest = call.request
        if error := self._fence(request):
            return LeaderAndIsrResponse(error_code=error)
        # Handed over at once: it counts only if the session is still the one that was looked at.
        return self._become(
            self._context.partitions.apply(request.partitions, is_full=request.is_full, kept_topics=request.kept_topics)
        )

    async def _become(self, asked: Awaitable[Errors]) -> LeaderAndIsrResponse:
        return LeaderAndIsrResponse(errors=_listed(await asked))

    def stop_replica(self, call: Call) -> StopReplicaResponse | Awaitable[StopReplicaResponse]:
        request: StopReplicaRequest = call.request
        if error := self._fence(request):
            return StopReplicaResponse(error_code=error)
        return self._stop(request)

    async def _stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        return StopReplicaResponse(errors=_listed(await self._context.partitions.stop(request.partitions)))

    def update_metadata(self, call: Call) -> UpdateMetadataResponse:
        request: UpdateMetadataRequest = call.request
        if error := self._fence(request):
            return UpdateMetadataResponse(error_code=error)
        self._context.metadata.update(request)
        return UpdateMetadataResponse()


def _listed(errors: Errors) -> list[PartitionError]:
    return [PartitionError(topic=topic, partition=index, error_code=code) for (topic, index), code in errors.items()]
