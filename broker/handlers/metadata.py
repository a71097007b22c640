"""Metadata: brokers, topics, partitions and who leads them; and topics that are made by being asked for.

- v0: an empty list asks for all topics; from v1 on null does, and an empty list asks for none.
- A topic that is being made is answered with LEADER_NOT_AVAILABLE, and clients ask again.
- From v12 on topics may be asked for by id, which no topic is made for.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.endpoints import NodeAddress, endpoints_for
from minikafka.broker.internal_topics import is_internal
from minikafka.broker.metadata import NO_LEADER, Topic
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.broker.topic_admin import auto_create
from minikafka.broker.zookeeper.coord import CoordError
from minikafka.protocol.apis import APIS
from minikafka.protocol.control import PartitionState
from minikafka.protocol.errors import ErrorCode, InvalidTopicError, KafkaError
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.schema import ZERO_UUID
from minikafka.storage.formats import check_topic_name

log: Final = logging.getLogger(__name__)

_BY_ID_VERSION: Final = 12
_LISTENER_VERSION: Final = 6
"""From here on a leader without an address for the client is told apart from no leader at all."""


def routes(context: Context) -> list[Route]:
    return [Route(APIS[3], _MetadataHandler(context).describe, Operation.DESCRIBE, Resource.TOPIC)]


class _MetadataHandler:
    """See the module's description."""

    def __init__(self, context: Context) -> None:
        self._context = context
        # Topics that are being made for somebody who asked for them.
        self._creating: set[str] = set()

    def describe(self, call: Call) -> MetadataResponse:
        request: MetadataRequest = call.request
        if call.version < _BY_ID_VERSION and any(each.name is None for each in request.topics or ()):
            return _refused(request.topics or ())
        addresses = {each.node_id: each for each in endpoints_for(self._context, call.connection)}
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
                for each in addresses.values()
            ],
            cluster_id=self._context.cluster_id,
            controller_id=self._controller_id(addresses),
            topics=self._topics(call, addresses),
        )

    def _controller_id(self, addresses: Mapping[int, NodeAddress]) -> int:
        controller_id = self._context.metadata.controller_id
        return NO_LEADER if controller_id is None or controller_id not in addresses else controller_id

    def _topics(self, call: Call, addresses: Mapping[int, NodeAddress]) -> list[MetadataResponseTopic]:
        request: MetadataRequest = call.request
        topics, doubtful = self._context.metadata.topics, self._doubtful()
        if request.topics is None or (call.version == 0 and not request.topics):
            return [_described(each, addresses, doubtful, call.version) for each in topics.values()]
        answers = []
        for name, asked in {(each.name, each.topic_id): each for each in request.topics}.items():
            found = self._find(asked)
            if found is not None:
                answers.append(_described(found, addresses, doubtful, call.version))
            elif name[0] is None:
                answers.append(_unknown(asked, ErrorCode.UNKNOWN_TOPIC_ID))
            else:
                may_create = call.version < 4 or request.allow_auto_topic_creation
                answers.append(_unknown(asked, self._missing(name[0], may_create)))
        return answers

    def _doubtful(self) -> frozenset[tuple[str, int]]:
        """Partitions that are led here as far as is known, and not served: clients have to ask others about them."""
        contact, partitions = self._context.contact, self._context.partitions
        if contact.has_zookeeper:
            return frozenset()
        own = (each for each in partitions.all.values() if contact.is_doubtful(each))
        state_of = self._context.metadata.partition
        return frozenset(
            each.name for each in own if (state := state_of(*each.name)) and state.leader == self._context.broker_id
        )

    def _find(self, asked: MetadataRequestTopic) -> Topic | None:
        name = asked.name if asked.name is not None else self._context.metadata.name_of(asked.topic_id)
        return None if name is None else self._context.metadata.topics.get(name)

    # -------------------------------------------------------------------------------------- making what is missing

    def _missing(self, name: str, may_create: bool) -> ErrorCode:
        """What to answer for a topic that is not there, which may be about to be."""
        try:
            check_topic_name(name)
        except InvalidTopicError as error:
            return error.code
        if not may_create or not self._context.config.broker.auto_create_topics_enable:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if name not in self._creating:
            self._creating.add(name)
            self._context.work.spawn(self._create(name), f"making topic {name}")
        return ErrorCode.LEADER_NOT_AVAILABLE

    async def _create(self, name: str) -> None:
        try:
            await auto_create(self._context, name)
        except (KafkaError, CoordError) as error:
            log.warning("topic %s was asked for and cannot be made: %s", name, error)
        finally:
            self._creating.discard(name)


def _described(
    topic: Topic, addresses: Mapping[int, NodeAddress], doubtful: Collection[tuple[str, int]], version: int
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[
            _partition(state, NO_LEADER if (topic.name, index) in doubtful else state.leader, addresses, version)
            for index, state in sorted(topic.partitions.items())
        ],
    )


def _partition(
    state: PartitionState, leader: int, addresses: Mapping[int, NodeAddress], version: int
) -> MetadataResponsePartition:
    error = ErrorCode.NONE
    if leader not in addresses:
        error = ErrorCode.LEADER_NOT_AVAILABLE
        if leader != NO_LEADER and version >= _LISTENER_VERSION:
            error = ErrorCode.LISTENER_NOT_FOUND
        leader = NO_LEADER
    return MetadataResponsePartition(
        error_code=error,
        partition_index=state.partition,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        offline_replicas=[each for each in state.replicas if each not in addresses or each in state.offline_replicas],
    )


def _unknown(asked: MetadataRequestTopic, error: ErrorCode) -> MetadataResponseTopic:
    topic_id = asked.topic_id if asked.name is None else ZERO_UUID
    is_one_of_ours = asked.name is not None and is_internal(asked.name)
    return MetadataResponseTopic(
        error_code=error, name=asked.name, topic_id=topic_id, is_internal=is_one_of_ours, partitions=[]
    )


def _refused(topics: Iterable[MetadataRequestTopic]) -> MetadataResponse:
    """Before v12 the id is part of the request, but asking by it is not."""
    return MetadataResponse(
        brokers=[],
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=each.name or "", topic_id=each.topic_id, partitions=[]
            )
            for each in topics
        ],
    )
