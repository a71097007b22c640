"""A consumer's part in its group: joining, taking its assignment, staying alive, leaving.

`membership` decides, this module talks. One task joins whenever the state says so, another sends heartbeats; the
program does nothing for either. JoinGroup and SyncGroup are answered when all members have come, and travel by a
connection of their own, so that heartbeats and commits do not wait behind them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from minikafka.client.cluster import Cluster, CoordinatorKind
from minikafka.client.consumer.assignors.base import Subscription as Joining
from minikafka.client.consumer.assignors.base import decode_assignment, encode_subscription
from minikafka.client.consumer.commits import COORDINATOR_ERRORS
from minikafka.client.consumer.config import ConsumerConfig
from minikafka.client.consumer.leader import GroupLeader
from minikafka.client.consumer.membership import Event, Membership, State
from minikafka.client.consumer.rebalance import Rebalance
from minikafka.client.consumer.subscription import Subscription
from minikafka.client.errors import ClientClosed
from minikafka.client.structs import ConsumerGroupMetadata
from minikafka.protocol.errors import (
    DecodeError,
    ErrorCode,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    KafkaError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    error_for,
)
from minikafka.protocol.message import Request
from minikafka.protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)

log: Final = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "consumer"

_GRACE_MS: Final = 5_000
"""What a coordinator may take beyond the time for which it waits for members."""

_LEAVE_MS: Final = 2_000


class Member:
    """See the module's description."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        rebalance: Rebalance,
        fail: Callable[[KafkaError], None],
    ) -> None:
        assert config.group_id is not None
        self.membership = Membership()
        self.is_joining = False
        """Whether a JoinGroup is on its way, during which the coordinator asks for no other sign of life."""
        self._cluster = cluster
        self._config = config
        self._group_id = config.group_id
        self._subscription = subscription
        self._rebalance = rebalance
        self._fail = fail
        self._leader = GroupLeader(cluster, config)
        self._joined_topics: frozenset[str] = frozenset()
        self._is_prepared = False
        self._waits_for_others = False
        self._is_over = False
        self._departures = 0
        self._woken = asyncio.Event()
        self._called_back = asyncio.Event()

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """Who this member is at the moment; without a generation if it takes no part in a group.

        As long as it still has partitions of a generation that it was thrown out of, it is a member of that one: a
        coordinator takes what is committed without any generation."""
        membership = self.membership
        if not membership.is_known and not self._rebalance.has_partitions:
            return ConsumerGroupMetadata(self._group_id)
        return ConsumerGroupMetadata(
            self._group_id,
            membership.last_generation_id,
            membership.last_member_id,
            self._config.group_instance_id,
        )

    @property
    def is_between_generations(self) -> bool:
        """Whether this member waits for the others; not while it or the program's listener has something to do."""
        return self._waits_for_others

    async def wait_for_others(self) -> None:
        """Wait until the others have come, or this member has something to do; ClientClosed if it never will."""
        await self._called_back.wait()
        if self._is_over:
            raise ClientClosed("the consumer was closed before the group's next generation")

    def _wait(self, *, for_others: bool) -> None:
        self._waits_for_others = for_others
        if for_others:
            self._called_back.clear()
        else:
            self._called_back.set()

    # ---------------------------------------------------------------------------------------- what happens

    def on(self, event: Event) -> None:
        """Let something happen to the member, and have it acted upon."""
        before = self.membership.state
        state = self.membership.on(event)
        if state is not before:
            log.debug("group %s: %s, %s -> %s", self._group_id, event.name, before.name, state.name)
        if self.membership.has_lost:
            self._rebalance.hurry()
        self._woken.set()

    def look_at_topics(self) -> None:
        """The cluster has changed: does the group have to divide other partitions now?"""
        if self.membership.state is State.STABLE:
            if self._subscription.topics != self._joined_topics:
                self.on(Event.SUBSCRIBED)
            elif self._leader.sees_change():
                log.info("group %s: partitions were added, or topics came or went", self._group_id)
                self.on(Event.REBALANCE)

    def take_error(self, error: KafkaError) -> None:
        """What an answer of the coordinator means for the member."""
        if isinstance(error, COORDINATOR_ERRORS):
            self._cluster.invalidate_coordinator(CoordinatorKind.GROUP, self._group_id)
        elif isinstance(error, RebalanceInProgressError):
            self.on(Event.REBALANCE)
        elif isinstance(error, UnknownMemberIdError):
            self.on(Event.UNKNOWN_MEMBER)
        elif isinstance(error, IllegalGenerationError):
            self.on(Event.ILLEGAL_GENERATION)
        elif not error.retriable:
            self.on(Event.FATAL)
            self._fail(error)

    # ------------------------------------------------------------------------------------------ the member's task

    async def run(self) -> None:
        """Join whenever it is time to, until cancelled."""
        try:
            await self._go_on_joining()
        finally:
            self._is_over = True
            self._wait(for_others=False)

    async def _go_on_joining(self) -> None:
        failures = 0
        while True:
            self._woken.clear()
            if self.membership.take_lost():
                self._wait(for_others=False)
                self._is_prepared = True
                await self._rebalance.lose()
            elif self.membership.state is not State.JOINING:
                self._wait(for_others=False)
                await self._woken.wait()
            elif not self._is_prepared:
                self._wait(for_others=False)
                # Also gives time to events that come in swarms, such as topics that appear one by one.
                await self._rebalance.prepare()
                self._is_prepared = True
            else:
                self._wait(for_others=True)
                failures = 0 if await self._try_joining() else failures + 1
                await asyncio.sleep(self._cluster.backoff.delay_s(failures))

    async def _try_joining(self) -> bool:
        try:
            joined = await self._join()
            if joined is not None:
                await self._sync(joined)
            return True
        except MemberIdRequiredError:
            return True
        except DecodeError as error:
            # Another member's bytes: whoever wrote them cannot be in a group with us.
            self.take_error(InconsistentGroupProtocolError(f"a member of group {self._group_id!r} sent {error}"))
        except KafkaError as error:
            log.debug("joining group %s: %s", self._group_id, error)
            self.take_error(error)
            if self.membership.state is State.SYNCING:
                # The assignment is lost, and the coordinator, which gets heartbeats, would wait for nothing more of us.
                self.on(Event.REBALANCE)
            # The coordinator does not want it to wait before it joins again.
            return isinstance(error, RebalanceInProgressError | UnknownMemberIdError | IllegalGenerationError)
        return False

    async def _join(self) -> JoinGroupResponse | None:
        topics = self._subscription.topics
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._config.session_timeout_ms,
            rebalance_timeout_ms=self._config.rebalance_wait_ms,
            member_id=self.membership.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=self._protocols(topics),
        )
        departures = self._departures
        self.is_joining = True
        try:
            answer: JoinGroupResponse = await self._ask(request, self._config.rebalance_wait_ms)
        finally:
            self.is_joining = False
        if departures != self._departures and request.member_id:
            # It is that member's, of whom the coordinator is about to be told that it has left.
            return None
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.membership.name(answer.member_id)
        if answer.error_code:
            raise error_for(answer.error_code, f"joining group {self._group_id!r}")
        if self.membership.joined(answer.generation_id, answer.member_id) is not State.SYNCING:
            # The program has changed its mind meanwhile.
            await self.tell_left(answer.member_id)
            return None
        self._joined_topics = topics
        return answer

    def _protocols(self, topics: frozenset[str]) -> list[JoinGroupRequestProtocol]:
        had, generation_id = self._rebalance.owned, self._rebalance.owned_generation
        owned = had if self._rebalance.is_cooperative else ()
        rack = self._config.client_rack
        names = tuple(sorted(topics))
        return [
            JoinGroupRequestProtocol(
                name=assignor.name,
                metadata=encode_subscription(
                    Joining(names, assignor.user_data(had, generation_id), owned, generation_id, rack)
                ),
            )
            for assignor in self._config.assignors
        ]

    async def _sync(self, joined: JoinGroupResponse) -> None:
        assignments = await self._leader.assignments(joined)
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=joined.protocol_type or PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        answer: SyncGroupResponse = await self._ask(request, self._config.rebalance_wait_ms)
        if answer.error_code:
            raise error_for(answer.error_code, f"assignment of group {self._group_id!r}")
        if self.membership.state is not State.SYNCING:
            return
        partitions = frozenset(decode_assignment(answer.assignment))
        log.info("group %s, generation %d: %d partitions", self._group_id, joined.generation_id, len(partitions))

        def is_current() -> bool:
            return self.membership.generation_id == joined.generation_id

        self._wait(for_others=False)
        meets_again = await self._rebalance.complete(partitions, joined.generation_id, is_current)
        if is_current():
            self._is_prepared = False
            self.on(Event.SYNCED)
            if meets_again:
                self.on(Event.REBALANCE)
            self.look_at_topics()

    async def _ask(self, request: Request, wait_ms: int) -> Any:
        node_id = await self._cluster.coordinator(CoordinatorKind.GROUP, self._group_id)
        timeout_ms = max(self._config.request_timeout_ms, wait_ms + _GRACE_MS)
        return await self._cluster.request(node_id, request, purpose="group", timeout_ms=timeout_ms)

    # ------------------------------------------------------------------------------------------------ leaving

    def step_out(self, why: Event) -> str | None:
        """Be no member any more; returns the id under which the coordinator is to be told (`tell_left`).

        A static member does not tell: it is to find its partitions when it comes back."""
        member_id = self.membership.member_id
        self._departures += 1
        self._leader.stop_watching()
        self.on(why)
        return member_id if member_id and self._config.group_instance_id is None else None

    async def tell_left(self, member_id: str) -> None:
        """Tell the coordinator not to wait for a member any more."""
        request = LeaveGroupRequest(
            group_id=self._group_id,
            member_id=member_id,
            members=[MemberIdentity(member_id=member_id, reason="the consumer is closed or has other plans")],
        )
        try:
            node_id = await self._cluster.coordinator(CoordinatorKind.GROUP, self._group_id, timeout_ms=_LEAVE_MS)
            await self._cluster.request(node_id, request, timeout_ms=_LEAVE_MS)
        except KafkaError as error:
            # It is noticed without our help, a session timeout later.
            log.debug("leaving group %s: %s", self._group_id, error)
