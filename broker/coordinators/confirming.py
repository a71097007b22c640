"""Asking followers whether they still follow: whether nobody else can have committed anything before the answer.

A client that has seen an offset committed must not be shown an earlier one, by whichever broker, and a transaction that
has ended must not be vouched for. While ZooKeeper has
answered of late no other broker coordinates. Later it takes the word of followers, and that they fetched a moment ago
is no proof: one may have gone over to another leader since. So they are asked after the request has come. A follower
that answers a fetch for our leader epoch, even with nothing, has heard of no later one.
"""

from __future__ import annotations

import asyncio
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.network.peer import PeerGone
from minikafka.broker.peers import Peers
from minikafka.broker.replicas.partition import Partition
from minikafka.protocol.errors import ErrorCode, NotCoordinatorError
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

_VERSION: Final = 17
_NO_SESSION: Final = -1
_ANSWER_SECONDS: Final = 1.0
_FOLLOWS: Final = frozenset({ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE})
"""The epoch is looked at before the offset."""


class Confirmer:
    """See the module's description."""

    def __init__(self, context: Context, peers: Peers) -> None:
        self._context = context
        self._peers = peers

    @property
    def is_needed(self) -> bool:
        """Whether `confirm` has anybody to ask; without that an answer needs no wait."""
        return not self._context.contact.has_zookeeper

    async def check(self, partition: Partition | None) -> None:
        """NotCoordinator if another broker may have committed something where this one keeps what it is asked about."""
        if partition is not None and self.is_needed and not await self.confirm(partition):
            raise NotCoordinatorError(f"{partition} may be led by another broker")

    async def confirm(self, partition: Partition) -> bool:
        """Whether this broker led a partition, and nobody else committed anything in it, when this was called."""
        leadership = partition.leadership
        if leadership is None:
            return False
        silent = set(leadership.followers)
        questions = {asyncio.ensure_future(self._follows(each, partition)): each for each in silent}
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                open_questions = set(questions)
                while not (is_sure := self._context.contact.suffices(partition, silent)) and open_questions:
                    answered, open_questions = await asyncio.wait(open_questions, return_when=asyncio.FIRST_COMPLETED)
                    silent -= {questions[each] for each in answered if each.result()}
        except TimeoutError:
            return False
        finally:
            for each in questions:
                each.cancel()
        return is_sure and partition.leadership is leadership

    async def _follows(self, follower_id: int, partition: Partition) -> bool:
        """Whether a replica still is a follower in our epoch."""
        wanted = FetchPartition(
            partition=partition.index,
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=partition.log.log_end_offset,
            partition_max_bytes=0,
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_epoch=_NO_SESSION,
            topics=[FetchTopic(topic_id=partition.topic_id, partitions=[wanted])],
        )
        try:
            response: FetchResponse = await self._peers.ask(follower_id, request, _VERSION, _ANSWER_SECONDS)
        except PeerGone:
            return False
        parts = [part for topic in response.responses for part in topic.partitions]
        return bool(parts) and not response.error_code and all(part.error_code in _FOLLOWS for part in parts)
