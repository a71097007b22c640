"""Fetch sessions: what a client fetches is remembered, so that it sends and gets only what has changed.

A request of epoch 0 names everything and opens a session, one of epoch -1 names everything and wants none. Any other
continues a session: it must be the one that comes next, adds or changes partitions, and forgets some. The answer to it
leaves out partitions without news; those that had records go to the end, so that all get their turn.

There is room for so many sessions. When it is full, a new one takes the place of one that has not been used for two
minutes, or of a client's if a follower asks; else the client gets none and goes on naming everything.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from minikafka.broker.contact import NEVER_MS
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replicas.waiting import DataWatch, Key
from minikafka.protocol.errors import (
    ErrorCode,
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
)
from minikafka.protocol.messages.fetch import FetchablePartitionResponse, FetchPartition, FetchRequest

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = (1 << 31) - 1

_IDLE_MS_MIN: Final = 120_000
"""A session is not taken from a client that has used it within this time."""


class Fetched:
    """A partition of a session: what is wanted of it, and what was said of it last."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1

    def is_news(self, answer: FetchablePartitionResponse) -> bool:
        """Whether the client has to be told; it has been then."""
        is_news = (
            bool(answer.records)
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
            or answer.preferred_read_replica >= 0
            or answer.diverging_epoch is not None
            or answer.error_code != ErrorCode.NONE
        )
        self.log_start_offset = answer.log_start_offset
        # After an error the next answer is news, whatever it is.
        self.high_watermark = -1 if answer.error_code else answer.high_watermark
        return is_news


class FetchSession:
    """One client's partitions, in the order in which they get their turn."""

    __slots__ = ("epoch", "id", "is_privileged", "partitions", "used_ms", "uses_ids", "watch")

    def __init__(self, session_id: int, uses_ids: bool, is_privileged: bool, watch: DataWatch) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH
        self.uses_ids = uses_ids
        self.is_privileged = is_privileged
        self.used_ms = 0
        self.partitions: OrderedDict[Key, Fetched] = OrderedDict()
        self.watch = watch

    def update(self, request: FetchRequest) -> None:
        """Take over what a request adds, changes and forgets."""
        named = wanted_partitions(request, self.uses_ids)
        self.watch.mark(named)
        for key, wanted in named.items():
            known = self.partitions.get(key)
            if known is None or known.wanted.current_leader_epoch != wanted.current_leader_epoch:
                # In another epoch nothing that was said before counts.
                self.partitions[key] = Fetched(wanted)
            else:
                known.wanted = wanted
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                key = (topic.topic_id if self.uses_ids else topic.topic, index)
                self.partitions.pop(key, None)
                self.watch.forget(key)

    def pending(self) -> dict[Key, FetchPartition]:
        """What may have news, in the order in which it gets its turn."""
        found = {}
        for key in self.watch.pending():
            fetched = self.partitions.get(key)
            if fetched is None:
                # Another request has had it forgotten, while the answer to this one said that there is more of it.
                self.watch.forget(key)
            else:
                found[key] = fetched.wanted
        return found

    def news(self, answers: Iterable[tuple[Key, FetchablePartitionResponse]]) -> list[Key]:
        """The partitions that the client has to be told of."""
        told = []
        for key, answer in answers:
            fetched = self.partitions.get(key)
            if fetched is not None and fetched.is_news(answer):
                told.append(key)
                if answer.records:
                    self.partitions.move_to_end(key)
        return told

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1


def wanted_partitions(request: FetchRequest, uses_ids: bool) -> dict[Key, FetchPartition]:
    """What a request names, in its order; of a partition that is there twice the last counts."""
    return {
        (topic.topic_id if uses_ids else topic.topic, each.partition): each
        for topic in request.topics
        for each in topic.partitions
    }


class FetchSessions:
    """All sessions of one broker; `new_id` draws numbers for them, and `slots` tells how many there may be."""

    def __init__(self, slots: Callable[[], int], new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_id = new_id
        # The one that has not been used for longest first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        # The latest of each follower.
        self._followers: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(each.partitions) for each in self._sessions.values())

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.watch.close()

    def last_fetch_ms(self, follower_id: int, partition: Partition) -> int:
        """When a follower last continued a session in which it follows a partition, in its current leader epoch."""
        session = self._followers.get(follower_id)
        if session is None:
            return NEVER_MS
        fetched = session.partitions.get((partition.topic_id if session.uses_ids else partition.topic, partition.index))
        is_followed = fetched is not None and fetched.wanted.current_leader_epoch == partition.leader_epoch
        return session.used_ms if is_followed else NEVER_MS

    def create(
        self, uses_ids: bool, is_privileged: bool, now_ms: int, watch: DataWatch, follower_id: int = -1
    ) -> FetchSession | None:
        """A new session; None if there is no room for one."""
        if not self._make_room(is_privileged, now_ms):
            return None
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        session = self._sessions[session_id] = FetchSession(session_id, uses_ids, is_privileged, watch)
        session.used_ms = now_ms
        session.advance()
        if follower_id >= 0:
            self._followers[follower_id] = session
        return session

    def resume(self, request: FetchRequest, uses_ids: bool, now_ms: int) -> FetchSession:
        """The session that a request continues, changed as it says; an error if it cannot."""
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFoundError(f"there is no session {request.session_id}")
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpochError(f"epoch {session.epoch} comes next, not {request.session_epoch}")
        if session.uses_ids is not uses_ids:
            raise FetchSessionTopicIdError("the session was begun with topic ids, or with names, and goes on so")
        session.update(request)
        session.advance()
        session.used_ms = now_ms
        self._sessions.move_to_end(session.id)
        return session

    def _make_room(self, is_privileged: bool, now_ms: int) -> bool:
        if len(self._sessions) < self._slots():
            return True
        for session in self._sessions.values():
            is_idle = now_ms - session.used_ms > _IDLE_MS_MIN
            if is_idle or (is_privileged and not session.is_privileged):
                self.close(session.id)
                return True
        return False
