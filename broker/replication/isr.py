"""Proposals of leaders for another ISR, on their way to the controller and back.

All that are waiting go in one request, one request at a time. No answer means that nobody knows: the same is asked
again until there is one, and meanwhile the leader counts with the larger ISR. Any answer but success means that the
leader is behind: what really holds comes, or has come, from the controller as it tells all roles.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from minikafka.broker.context import Context
from minikafka.broker.network.peer import PeerGone
from minikafka.broker.replicas.leadership import NO_BROKER_EPOCH, Leadership
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replication.controller_link import ControllerLink
from minikafka.protocol.control import (
    AlteredPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
    ProposedPartition,
)
from minikafka.protocol.errors import ErrorCode

log: Final = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 0.25

# Asked of the wrong broker, or too early: the same can be asked again.
_ASK_AGAIN: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR})
# The proposal itself cannot be; what was decided before holds.
_WITHDRAWN: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NEW_LEADER_ELECTED, ErrorCode.INVALID_REQUEST})


class _Proposal(NamedTuple):
    """Of one leadership; if there is another by the time of the answer, that does not concern it."""

    partition: Partition
    leadership: Leadership


class IsrProposals:
    """See the module's description."""

    def __init__(self, context: Context, link: ControllerLink) -> None:
        self._context = context
        self._link = link
        self._waiting: dict[Partition, Leadership] = {}
        self._news = asyncio.Event()

    def add(self, partition: Partition) -> None:
        """A leader has made a proposal."""
        assert partition.leadership is not None
        self._waiting[partition] = partition.leadership
        self._news.set()

    async def run(self) -> None:
        """Ask for what is proposed, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            proposals = [_Proposal(*each) for each in self._waiting.items() if _is_open(*each)]
            self._waiting.clear()
            if proposals and not await self._ask(proposals):
                for each in proposals:
                    self._waiting.setdefault(each.partition, each.leadership)
                await asyncio.sleep(_RETRY_SECONDS)
                self._news.set()

    async def watch_lag(self) -> None:
        """Look from time to time whether followers keep up, or have caught up, until cancelled."""
        clock, config = self._context.clock, self._context.config
        looked_ms = clock.monotonic_ms()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            partitions = list(self._context.partitions.all.values())
            for partition in partitions:
                partition.expand_isr()
            now_ms = clock.monotonic_ms()
            # Half of the time that a follower has, so that none has more than half as long again.
            if now_ms - looked_ms >= config.broker.replica_lag_time_max_ms / 2:
                looked_ms = now_ms
                for partition in partitions:
                    partition.shrink_isr()

    async def _ask(self, proposals: Iterable[_Proposal]) -> bool:
        """Whether there was an answer for all of them."""
        membership = self._context.membership
        request = AlterPartitionRequest(
            broker_id=self._context.broker_id,
            broker_epoch=membership.broker_epoch,
            partitions=[self._proposed(each) for each in proposals],
        )
        try:
            answer = await self._link.ask(request, AlterPartitionResponse)
        except PeerGone as error:
            log.info("the controller cannot be asked for another ISR: %s", error)
            return False
        if answer.error_code:
            log.info("the controller does not take proposals now: %s", ErrorCode(answer.error_code).name)
            return False
        answers = {(each.topic, each.partition): each for each in answer.partitions}
        outcomes = [self._take(each, answers.get(each.partition.name)) for each in proposals]
        return all(outcomes)

    def _proposed(self, proposal: _Proposal) -> ProposedPartition:
        partition, leadership = proposal
        assert leadership.proposed is not None
        return ProposedPartition(
            topic=partition.topic,
            topic_id=partition.topic_id,
            partition=partition.index,
            leader_epoch=leadership.epoch,
            partition_epoch=leadership.partition_epoch,
            isr=[self._member(each, leadership) for each in leadership.proposed],
            is_recovering=False,
        )

    def _member(self, broker_id: int, leadership: Leadership) -> IsrMember:
        """Of a replica that joins, the process that had caught up; of one that stays, whoever is alive."""
        if broker_id == self._context.broker_id:
            epoch = self._context.membership.broker_epoch
        elif broker_id in leadership.joining:
            epoch = leadership.joining[broker_id]
        else:
            epoch = self._context.metadata.broker_epochs.get(broker_id, NO_BROKER_EPOCH)
        return IsrMember(broker_id=broker_id, broker_epoch=epoch)

    def _take(self, proposal: _Proposal, answer: AlteredPartition | None) -> bool:
        """False if the same has to be asked again."""
        partition, leadership = proposal
        if answer is None or answer.error_code in _ASK_AGAIN:
            return not _is_open(partition, leadership)
        if not _is_open(partition, leadership):
            return True
        statistics = self._context.partitions.statistics.replicas
        if answer.error_code:
            statistics.failed_isr_updates += 1
            log.info("%s: no other ISR, %s", partition, ErrorCode(answer.error_code).name)
            if answer.error_code in _WITHDRAWN:
                leadership.withdraw()
                partition.settle_isr(leadership)
            # Else the controller knows better, and what it knows comes with the next roles.
            return True
        if answer.leader_epoch == leadership.epoch and answer.partition_epoch > leadership.partition_epoch:
            is_larger = len(answer.isr) > len(leadership.isr)
            statistics.isr_expands += is_larger
            statistics.isr_shrinks += not is_larger
            leadership.accept(answer.isr, answer.partition_epoch, answer.eligible_replicas)
            partition.settle_isr(leadership)
        return True


def _is_open(partition: Partition, leadership: Leadership) -> bool:
    """Whether a proposal still waits for an answer."""
    return partition.leadership is leadership and leadership.proposed is not None
