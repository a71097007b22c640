"""Fetch sessions: the broker remembers what is fetched, and a request names only what has changed.

A session is kept for each broker. `want` and `forget` say what the next request is to be about; `begin` turns the
difference into the request's fields; `accept` takes note of the answer. A broker may decline to keep sessions (it
answers with id 0), may forget one, or a request may be lost: then everything is named again.

    id 0, epoch 0     a full request that would like a session
    id n, epoch 0     the same, and end session n
    id n, epoch 1...  what has changed since the last answer
    id 0, epoch -1    a request beside any session
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from minikafka.client.consumer.assignors.base import by_topic
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic
from minikafka.protocol.schema import ZERO_UUID

_EPOCH_MAX: Final = (1 << 31) - 1

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class Wanted(NamedTuple):
    """From where a partition is fetched."""

    offset: int
    leader_epoch: int
    last_epoch: int
    max_bytes: int
    topic_id: bytes = ZERO_UUID


class SessionFields(NamedTuple):
    """The part of a FetchRequest that belongs to the session."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FetchSession:
    """See the module's description."""

    def __init__(self) -> None:
        self.wanted: dict[TopicPartition, Wanted] = {}
        self._id = 0
        self._epoch = 0
        self._told: dict[TopicPartition, Wanted] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._without_id: set[TopicPartition] = set()
        self._is_by_ids = True

    @property
    def has_ids(self) -> bool:
        """Whether the id of every topic that is wanted is known, so that a request can name them by it."""
        return not self._without_id

    @property
    def is_incremental(self) -> bool:
        return self._epoch > 0

    def want(self, tp: TopicPartition, wanted: Wanted) -> None:
        if self.wanted.get(tp) != wanted:
            # A partition that has just been served goes to the end, so that the limit of an answer is shared.
            self.wanted.pop(tp, None)
            self.wanted[tp] = wanted
            self._changed[tp] = None
            if wanted.topic_id == ZERO_UUID:
                self._without_id.add(tp)
            else:
                self._without_id.discard(tp)
            if tp in self._told and self._told[tp].topic_id != wanted.topic_id:
                # Another topic of the name, which cannot take the place of the first within a session.
                self.restart()

    def forget(self, tp: TopicPartition) -> None:
        self._without_id.discard(tp)
        if self.wanted.pop(tp, None) is not None:
            self._changed[tp] = None

    def begin(self) -> SessionFields:
        """The fields of the next request. One request at a time: `accept` or `restart` comes before the next."""
        if self.has_ids != self._is_by_ids:
            # A session is about names or about ids.
            self._is_by_ids = self.has_ids
            self.restart()
        if not self.is_incremental:
            topics = _topics(self.wanted)
            return SessionFields(self._id, self._epoch, topics, [])
        wanted = {tp: self.wanted[tp] for tp in self._changed if tp in self.wanted}
        changed = {tp: each for tp, each in wanted.items() if self._told.get(tp) != each}
        gone = [tp for tp in self._changed if tp not in self.wanted and tp in self._told]
        forgotten = [
            ForgottenTopic(
                topic=topic, topic_id=self._told[TopicPartition(topic, numbers[0])].topic_id, partitions=numbers
            )
            for topic, numbers in by_topic(gone).items()
        ]
        return SessionFields(self._id, self._epoch, _topics(changed), forgotten)

    def beside(self, partitions: Iterable[TopicPartition]) -> SessionFields:
        """The fields of a request for some of what is wanted, of which the session knows nothing."""
        return SessionFields(0, -1, _topics({tp: self.wanted[tp] for tp in partitions}), [])

    def accept(self, session_id: int) -> None:
        """The request was answered; the broker keeps the session under this id, 0 for none."""
        if self.is_incremental and session_id == self._id:
            for tp in self._changed:
                if tp in self.wanted:
                    self._told[tp] = self.wanted[tp]
                else:
                    self._told.pop(tp, None)
        else:
            self._id = session_id
            self._told = dict(self.wanted) if session_id else {}
        self._changed.clear()
        # After the last number comes 1: 0 would begin a session.
        self._epoch = 0 if session_id == 0 else 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def restart(self, error_code: int = 0) -> None:
        """The request was not answered, or the broker does not know the session: tell it everything again."""
        if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = 0
        self._epoch = 0


def _topics(wanted: dict[TopicPartition, Wanted]) -> list[FetchTopic]:
    """Topics and partitions in the order in which they are to be served."""
    topics: dict[tuple[str, bytes], list[FetchPartition]] = {}
    for tp, each in wanted.items():
        topics.setdefault((tp.topic, each.topic_id), []).append(
            FetchPartition(
                partition=tp.partition,
                current_leader_epoch=each.leader_epoch,
                fetch_offset=each.offset,
                last_fetched_epoch=each.last_epoch,
                partition_max_bytes=each.max_bytes,
            )
        )
    return [
        FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)
        for (topic, topic_id), partitions in topics.items()
    ]
