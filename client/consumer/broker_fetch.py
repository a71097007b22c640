"""Fetching from one broker: one request at a time, as long as there is room for what it brings.

Partitions are *touched* when something about them changes; before a request is made those alone are looked at, so a
consumer of thousands of quiet partitions costs no more than one of a few.

When there is no room, since what waits is all of partitions that the program has paused or does not ask for now, and
the program waits for others, those are asked for beside the session, and the limit is overdrawn by that one request.

A broker holds a request back until there is something new. If the program wants to read elsewhere meanwhile, that
request is given up: the next one goes by a second connection, and what comes by the first is thrown away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final, NamedTuple, Protocol

from minikafka.client.cluster import Cluster
from minikafka.client.consumer.config import ConsumerConfig
from minikafka.client.consumer.memory import Memory
from minikafka.client.consumer.partition import PartitionState
from minikafka.client.consumer.sessions import SESSION_ERRORS, FetchSession, Wanted
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.fetch import FetchablePartitionResponse, FetchRequest, FetchResponse

log: Final = logging.getLogger(__name__)

_VERSION_OF_NAMES: Final = 12
_VERSION_OF_IDS: Final = 13
"""The first version that names topics by their ids (KIP-516). A topic that was deleted and created again is refused at
once, where by its name the new one would be read on at the old offset."""

_HELD_BACK_WAIT_MS: Final = 10
"""How long a broker may hold a request while another of its partitions waits for room: as soon as the program has read
some of it, that one should be asked for again."""

_HURRY_S: Final = 0.02
"""How long an answer may still come before the request is given up for another; most need less than this."""

_PURPOSES: Final = ("fetch", "fetch elsewhere")


class FetchRules(Protocol):
    """What fetching from a broker needs to know of the whole."""

    def node_of(self, state: PartitionState) -> int | None:
        """The broker to fetch a partition from now; None if it is not to be fetched."""

    def touch(self, state: PartitionState, hurry: bool = False) -> None:
        """Have a partition looked at by the broker that it is to be fetched from."""

    def is_held_back(self, state: PartitionState, node_id: int) -> bool:
        """Whether it would be fetched from this broker if there were room for it."""

    def take_in(self, state: PartitionState, answer: FetchablePartitionResponse, node_id: int) -> None:
        """Deal with the answer for a partition."""

    def still_wants(self, state: PartitionState) -> bool:
        """Whether the partition is assigned."""

    @property
    def sharers(self) -> int:
        """How many brokers there are to fetch from."""

    @property
    def starving(self) -> Collection[TopicPartition] | None:
        """What the program waits for while nothing of it is here, empty for any partition; None if it does not."""


class _Asked(NamedTuple):
    state: PartitionState
    version: int
    offset: int


class BrokerFetch:
    """See the module's description."""

    def __init__(
        self, node_id: int, cluster: Cluster, config: ConsumerConfig, memory: Memory, rules: FetchRules
    ) -> None:
        self.node_id = node_id
        self.requests = 0
        self._cluster = cluster
        self._config = config
        self._memory = memory
        self._rules = rules
        self._session = FetchSession()
        # In the order they were touched, so that a run can be repeated.
        self._touched: dict[PartitionState, None] = {}
        self._names: dict[bytes, str] = {}
        self._held_back: set[PartitionState] = set()
        self._asked: dict[TopicPartition, _Asked] = {}
        self._woken = asyncio.Event()
        self._answered: asyncio.Future[None] | None = None
        self._purpose = 0
        # What is asked for beside the session at the moment.
        self._urgent: frozenset[TopicPartition] = frozenset()

    def touch(self, state: PartitionState, hurry: bool = False) -> None:
        """Look at a partition before the next request; in a hurry, have that sent soon."""
        self._touched[state] = None
        self._woken.set()
        asked = self._asked.get(state.tp)
        has_moved = asked is not None and asked.state is state and asked.version != state.version
        if hurry or has_moved:
            self._hurry()

    def _hurry(self) -> None:
        if self._answered is not None:
            asyncio.get_running_loop().call_later(_HURRY_S, _set, self._answered)

    def wake(self) -> None:
        """There is room again."""
        self._woken.set()
        if self._urgent:
            self._hurry()

    def starve(self) -> None:
        """The program waits for something, and there is no room."""
        self._woken.set()
        if self._urgent and self._urgent != self._find_urgent():
            self._hurry()

    async def run(self) -> None:
        """Fetch until cancelled."""
        failures = 0
        while True:
            self._woken.clear()
            self._look_at_touched()
            room = self._reserve()
            self._urgent = frozenset() if room else self._find_urgent()
            if self._urgent:
                room = self._memory.overdraw()
            if not room:
                await self._woken.wait()
                continue
            throttle_ms = 0
            try:
                throttle_ms = await self._fetch(room)
                failures = 0
            except KafkaError as error:
                failures += 1
                log.debug("fetching from broker %d: %s", self.node_id, error)
                self._session.restart()
                self._give_up_replica()
                if error.refresh_metadata:
                    self._cluster.refresh_soon()
                await asyncio.sleep(self._cluster.backoff.delay_s(failures))
            finally:
                self._memory.settle(room)
            if throttle_ms > 0:
                await asyncio.sleep(throttle_ms / 1000)

    def _give_up_replica(self) -> None:
        """The broker does not answer: the partitions may have another leader by now, and those that are read here since
        the leader has named this replica go back to it."""
        states = [asked.state for asked in self._asked.values()]
        self._touched.update(dict.fromkeys(states))
        for state in states:
            if state.preferred_replica == self.node_id:
                state.preferred_replica = None
                self._rules.touch(state)

    def _reserve(self) -> int:
        """Room for what the broker may answer; 0 if there is none, or nothing to ask for."""
        wanted = len(self._session.wanted) * self._config.max_partition_fetch_bytes
        wanted = min(wanted, self._config.fetch_max_bytes)
        return self._memory.reserve(wanted, max(1, self._rules.sharers)) if wanted else 0

    def _find_urgent(self) -> frozenset[TopicPartition]:
        """What to ask for although there is no room."""
        starving = self._rules.starving
        if starving is None:
            return frozenset()
        return frozenset(
            tp for tp, asked in self._asked.items() if (not starving or tp in starving) and not asked.state.has_data
        )

    async def end_session(self) -> None:
        """Let the broker forget the session; it would do so itself after some minutes."""
        if self._session.is_incremental:
            fields = self._session.begin()
            request = FetchRequest(
                max_wait_ms=0, min_bytes=0, session_id=fields.session_id, session_epoch=-1, topics=[]
            )
            try:
                connection = self._cluster.connection_nowait(self.node_id)
                if connection is not None:
                    await connection.request(request, max_version=self._version, timeout_ms=1_000)
            except KafkaError as error:
                log.debug("ending the session at broker %d: %s", self.node_id, error)

    @property
    def _version(self) -> int:
        return _VERSION_OF_IDS if self._session.has_ids else _VERSION_OF_NAMES

    def _look_at_touched(self) -> None:
        touched, self._touched = self._touched, {}
        for state in touched:
            self._held_back.discard(state)
            known = self._asked.get(state.tp)
            node_id = self._rules.node_of(state)
            if node_id == self.node_id:
                epoch = self._cluster.leader_epoch(*state.tp)
                offset, last_epoch = state.fetch_position
                wanted = Wanted(offset, epoch, last_epoch, self._config.max_partition_fetch_bytes, state.topic_id)
                self._names[state.topic_id] = state.tp.topic
                self._session.want(state.tp, wanted)
                self._asked[state.tp] = _Asked(state, state.version, offset)
            # A partition that was taken away and came back is another state under the same name.
            elif known is not None and known.state is state:
                self._session.forget(state.tp)
                del self._asked[state.tp]
                if node_id is not None:
                    self._rules.touch(state, hurry=True)
            if self._rules.is_held_back(state, self.node_id):
                self._held_back.add(state)

    async def _fetch(self, room: int) -> int:
        """Ask once and take in the answer; returns for how long the broker would like to be left alone."""
        self._held_back = {state for state in self._held_back if self._rules.is_held_back(state, self.node_id)}
        wait_ms = self._config.fetch_max_wait_ms
        fields = self._session.beside(self._urgent) if self._urgent else self._session.begin()
        request = FetchRequest(
            max_wait_ms=min(wait_ms, _HELD_BACK_WAIT_MS) if self._held_back and not self._urgent else wait_ms,
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=room,
            isolation_level=self._config.isolation,
            session_id=fields.session_id,
            session_epoch=fields.session_epoch,
            topics=fields.topics,
            forgotten_topics_data=fields.forgotten,
            rack_id=self._config.client_rack or "",
        )
        self.requests += 1
        answer = await self._ask(request)
        if answer is None:
            self._session.restart()
            self._touched.update(dict.fromkeys(asked.state for asked in self._asked.values()))
            return 0
        if answer.error_code in SESSION_ERRORS:
            log.debug("broker %d: %s", self.node_id, error_for(answer.error_code))
            self._session.restart(answer.error_code)
        elif answer.error_code:
            raise error_for(answer.error_code)
        else:
            if not self._urgent:
                self._session.accept(answer.session_id)
            self._take_in(answer)
        return answer.throttle_time_ms

    async def _ask(self, request: FetchRequest) -> FetchResponse | None:
        """The answer, or None if it was given up."""
        connection = await self._cluster.connection(self.node_id, _PURPOSES[self._purpose])
        timeout_ms = self._config.request_timeout_ms + self._config.fetch_max_wait_ms
        asked = connection.send_nowait(request, max_version=self._version, timeout_ms=timeout_ms)
        self._answered = answered = asyncio.get_running_loop().create_future()
        asked.add_done_callback(lambda _: _set(answered))
        try:
            await answered
        finally:
            self._answered = None
            if not asked.done():
                asked.cancel()
        if asked.cancelled():
            self._purpose = 1 - self._purpose
            return None
        answer: FetchResponse = asked.result()
        return answer

    def _take_in(self, answer: FetchResponse) -> None:
        for topic in answer.responses:
            name = topic.topic or self._names.get(topic.topic_id, "")
            for partition in topic.partitions:
                asked = self._asked.get(TopicPartition(name, partition.partition_index))
                if asked is None:
                    continue
                state, version, offset = asked
                # Where it was moved meanwhile, the answer is of no use, and the next request asks for the new place.
                if (
                    state.version == version
                    and state.fetch_position.offset == offset
                    and self._rules.still_wants(state)
                ):
                    self._rules.take_in(state, partition, self.node_id)
                self._touched[state] = None


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
