"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments: where leaders and replicas are, by request.

- ElectLeaders: 0 elects the first replica, 1 anybody where nobody leads, at the price of records; v0 knows the first
  only. Null asks for all partitions, of which those that need no election are left out of the answer. It answers when
  this broker has heard of the new leaders. A broker that is not the controller says so for every partition.
- A reassignment is answered when it has begun; without replicas it is the wish to cancel one. Of a partition that is
  there twice the last counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.controller.state import Name
from minikafka.broker.controller.task import ControllerTask
from minikafka.broker.metadata import NO_LEADER
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import (
    ErrorCode,
    KafkaError,
    NotControllerError,
    RequestTimedOutError,
    UnknownServerError,
)
from minikafka.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

_PREFERRED: Final = 0
_UNCLEAN: Final = 1

Outcomes = Mapping[Name, KafkaError | None]


def routes(context: Context, controller: ControllerTask) -> list[Route]:
    handler = _ReplicasHandler(context, controller)
    return [
        Route(APIS[43], handler.elect, Operation.ALTER, Resource.CLUSTER),
        Route(APIS[45], handler.reassign, Operation.ALTER, Resource.CLUSTER),
        Route(APIS[46], handler.list_reassignments, Operation.DESCRIBE, Resource.CLUSTER),
    ]


class _ReplicasHandler:
    """See the module's description."""

    def __init__(self, context: Context, controller: ControllerTask) -> None:
        self._metadata = context.metadata
        self._controller = controller

    # ----------------------------------------------------------------------------------------------- elections

    async def elect(self, call: Call) -> ElectLeadersResponse:
        request: ElectLeadersRequest = call.request
        names: list[Name] | None = None
        if request.topic_partitions is not None:
            names = [(each.topic, index) for each in request.topic_partitions for index in each.partitions]
        if request.election_type not in (_PREFERRED, _UNCLEAN):
            error = UnknownServerError(f"there is no election of type {request.election_type}")
            return _elected(dict.fromkeys(names or (), error), error.code)
        return _elected(await self._elect(names, request))

    async def _elect(self, names: list[Name] | None, request: ElectLeadersRequest) -> Outcomes:
        seconds = max(0, request.timeout_ms) / 1000
        unclean = request.election_type == _UNCLEAN
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(deadline):
                outcomes = await self._controller.controller.elect(names, unclean=unclean)
        except NotControllerError as error:
            return dict.fromkeys(self._all() if names is None else names, error)
        except TimeoutError:
            return dict.fromkeys(self._all() if names is None else names, RequestTimedOutError())
        done = [name for name, error in outcomes.items() if error is None]
        left = deadline - asyncio.get_running_loop().time()
        if done and left > 0:
            await self._metadata.wait_until(lambda: all(self._is_led(each, unclean) for each in done), left)
        late = {each: RequestTimedOutError() for each in done if not self._is_led(each, unclean)}
        return {**outcomes, **late}

    def _all(self) -> list[Name]:
        return [(topic.name, index) for topic in self._metadata.topics.values() for index in topic.partitions]

    def _is_led(self, name: Name, unclean: bool) -> bool:
        """Whether this broker has heard of the election."""
        state = self._metadata.partition(*name)
        if state is None:
            return False
        first = next((each for each in state.replicas if each not in state.removing_replicas), NO_LEADER)
        return state.leader != NO_LEADER if unclean else state.leader == first

    # ------------------------------------------------------------------------------------------- reassignments

    async def reassign(self, call: Call) -> AlterPartitionReassignmentsResponse:
        request: AlterPartitionReassignmentsRequest = call.request
        wanted = {
            (topic.name, each.partition_index): each.replicas for topic in request.topics for each in topic.partitions
        }
        try:
            async with asyncio.timeout(max(0, request.timeout_ms) / 1000):
                errors: Outcomes = await self._controller.controller.reassign(wanted)
        except NotControllerError as error:
            return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
        except TimeoutError:
            return AlterPartitionReassignmentsResponse(error_code=ErrorCode.REQUEST_TIMED_OUT)
        outcomes = {name: errors.get(name) for name in wanted}
        return AlterPartitionReassignmentsResponse(
            error_message="",
            responses=[
                ReassignableTopicResponse(
                    name=topic,
                    partitions=[
                        ReassignablePartitionResponse(
                            partition_index=index, error_code=_code(error), error_message=_message(error)
                        )
                        for index, error in some
                    ],
                )
                for topic, some in _by_topic(outcomes)
            ],
        )

    async def list_reassignments(self, call: Call) -> ListPartitionReassignmentsResponse:
        request: ListPartitionReassignmentsRequest = call.request
        try:
            under_way = dict(await self._controller.controller.reassignments())
        except NotControllerError as error:
            return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
        if request.topics is not None:
            asked = {(each.name, index) for each in request.topics for index in each.partition_indexes}
            under_way = {name: each for name, each in under_way.items() if name in asked}
        topics: dict[str, list[OngoingPartitionReassignment]] = {}
        for (topic, index), assignment in under_way.items():
            topics.setdefault(topic, []).append(
                OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(assignment.replicas),
                    adding_replicas=list(assignment.adding),
                    removing_replicas=list(assignment.removing),
                )
            )
        return ListPartitionReassignmentsResponse(
            error_message="",
            topics=[OngoingTopicReassignment(name=topic, partitions=some) for topic, some in topics.items()],
        )


def _elected(outcomes: Outcomes, error_code: int = 0) -> ElectLeadersResponse:
    results = [
        ElectLeadersTopicResult(
            topic=topic,
            partition_result=[
                ElectLeadersPartitionResult(partition_id=index, error_code=_code(error), error_message=_message(error))
                for index, error in some
            ],
        )
        for topic, some in _by_topic(outcomes)
    ]
    return ElectLeadersResponse(error_code=error_code, replica_election_results=results)


def _by_topic(outcomes: Outcomes) -> Iterable[tuple[str, list[tuple[int, KafkaError | None]]]]:
    topics: dict[str, list[tuple[int, KafkaError | None]]] = {}
    for (topic, index), error in outcomes.items():
        topics.setdefault(topic, []).append((index, error))
    return topics.items()


def _code(error: KafkaError | None) -> int:
    return 0 if error is None else int(error.code)


def _message(error: KafkaError | None) -> str | None:
    return None if error is None else error.message
