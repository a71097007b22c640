"""Signs of life to the coordinator, and watching that the program shows some, too.

Heartbeats are sent by a task, however long the program works on its records. A program that does not come back for
`max_poll_interval_ms` is taken to be stuck, and leaves the group, so that others can go on with its partitions.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from minikafka.client.cluster import Cluster, CoordinatorKind
from minikafka.client.consumer.config import ConsumerConfig
from minikafka.client.consumer.delivery import Delivery
from minikafka.client.consumer.member import Member
from minikafka.client.consumer.membership import Event, State
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse

log: Final = logging.getLogger(__name__)


class Heartbeats:
    """See the module's description."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig, member: Member, delivery: Delivery) -> None:
        self._cluster = cluster
        self._config = config
        self._member = member
        self._delivery = delivery
        self._activity = delivery.activity
        self._active_at_ms = cluster.clock.monotonic_ms()
        self._failures = 0

    async def run(self) -> None:
        interval_s = min(self._config.heartbeat_interval_ms, self._config.max_poll_interval_ms) / 1000
        while True:
            delay_s = min(interval_s, self._cluster.backoff.delay_s(self._failures)) if self._failures else interval_s
            await asyncio.sleep(delay_s)
            await self._watch_program()
            if self._member.membership.is_known and not self._member.is_joining:
                await self._beat()

    async def _beat(self) -> None:
        who = self._member.metadata
        request = HeartbeatRequest(
            group_id=who.group_id,
            generation_id=who.generation_id,
            member_id=who.member_id,
            group_instance_id=who.group_instance_id,
        )
        try:
            node_id = await self._cluster.coordinator(CoordinatorKind.GROUP, who.group_id)
            answer: HeartbeatResponse = await self._cluster.request(node_id, request)
            # An answer to who this member was before says nothing about who it is now.
            if answer.error_code and self._member.metadata == who and not self._member.is_joining:
                raise error_for(answer.error_code, f"group {who.group_id!r}")
            self._failures = 0
        except KafkaError as error:
            self._failures += error.retriable
            log.debug("heartbeat: %s", error)
            self._member.take_error(error)

    async def _watch_program(self) -> None:
        now_ms, activity = self._cluster.clock.monotonic_ms(), self._delivery.activity
        if activity != self._activity or self._delivery.is_waiting or not self._member.membership.is_known:
            self._activity, self._active_at_ms = activity, now_ms
        elif now_ms - self._active_at_ms >= self._config.max_poll_interval_ms:
            limit_ms = self._config.max_poll_interval_ms
            log.warning("the program has not asked for records for %d ms: leaving the group", limit_ms)
            member_id = self._member.step_out(Event.POLL_EXPIRED)
            if member_id is not None:
                await self._member.tell_left(member_id)

    def polled(self) -> None:
        """The program asks for records."""
        if self._member.membership.state is State.EXPIRED:
            self._member.on(Event.POLLED)
