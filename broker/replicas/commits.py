"""Producers that wait until their batches are where they have to be: one queue a partition, ordered by offset.

An offset that moves settles the promises it has passed and looks at no others, so n waiting requests cost n and not the
square of it, however long a follower pauses (Kafka's purgatory looks through its watchers of a key). Only another role
concerns all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from minikafka.broker.replicas.leadership import Leadership
from minikafka.protocol.errors import KafkaError, NotEnoughReplicasAfterAppendError, NotLeaderOrFollowerError

if TYPE_CHECKING:
    from minikafka.broker.replicas.partition import Partition


class Promise(NamedTuple):
    """A batch that counts as written when it is where its producer wants it; `offset` is the one after its last."""

    partition: Partition
    leader_epoch: int
    offset: int
    is_for_all: bool
    """All in-sync replicas must have it, not only this one on its disk."""

    def outcome(self) -> KafkaError | bool:
        """True if it is kept, False if that is open, an error if it cannot be kept any more."""
        partition = self.partition
        leadership = partition.leadership
        if leadership is None or partition.leader_epoch != self.leader_epoch:
            # Another leader may have other records at these offsets, whatever the high watermark says.
            return NotLeaderOrFollowerError(f"{partition}: leadership moved before all replicas had the batch")
        if not self.is_for_all:
            return partition.own_end_offset >= self.offset
        if partition.log.high_watermark < self.offset:
            return False
        if len(leadership.isr) < partition.min_isr:
            return NotEnoughReplicasAfterAppendError(f"{partition}: {len(leadership.isr)} in-sync replicas are left")
        return True


class Pending:
    """A promise in the queue of its partition, and whom to call with its outcome."""

    __slots__ = ("number", "offset", "on_outcome", "promise")

    def __init__(self, promise: Promise, number: int, on_outcome: Callable[[Pending, KafkaError | bool], None]) -> None:
        self.promise = promise
        self.offset = promise.offset
        self.number = number
        self.on_outcome = on_outcome


_place: Final = attrgetter("offset", "number")


class CommitQueue:
    """See the module's description."""

    __slots__ = ("_for_all", "_leadership", "_number", "_own")

    def __init__(self) -> None:
        # By what they wait for: the high watermark, or this replica's own disk.
        self._for_all: list[Pending] = []
        self._own: list[Pending] = []
        self._number = 0
        self._leadership: Leadership | None = None

    def __len__(self) -> int:
        return len(self._for_all) + len(self._own)

    def add(self, promise: Promise, on_outcome: Callable[[Pending, KafkaError | bool], None]) -> Pending:
        """Have a promise looked at when something settles it; whether it is settled by now is for the caller to see."""
        self._number += 1
        pending, queue = Pending(promise, self._number, on_outcome), self._queue(promise)
        # A duplicate is answered for an earlier offset; everything else comes in order.
        if queue and queue[-1].offset > promise.offset:
            queue.insert(bisect_right(queue, _place(pending), key=_place), pending)
        else:
            queue.append(pending)
        return pending

    def remove(self, pending: Pending) -> None:
        """Nobody waits for it any more."""
        queue = self._queue(pending.promise)
        at = bisect_left(queue, _place(pending), key=_place)
        if at < len(queue) and queue[at] is pending:
            del queue[at]

    def settle(self, leadership: Leadership | None, high_watermark: int, own_end_offset: int) -> None:
        """The partition has changed: answer each request that has got what it waited for, or never will."""
        is_other_role, self._leadership = leadership is None or leadership is not self._leadership, leadership
        for queue, reached in ((self._for_all, high_watermark), (self._own, own_end_offset)):
            if not queue or not (is_other_role or queue[0].offset <= reached):
                continue
            stop = len(queue) if is_other_role else bisect_right(queue, reached, key=attrgetter("offset"))
            some = queue[:stop]
            del queue[:stop]
            outcomes = [(pending, pending.promise.outcome()) for pending in some]
            queue[:0] = [pending for pending, outcome in outcomes if outcome is False]
            for pending, outcome in outcomes:
                if outcome is not False:
                    pending.on_outcome(pending, outcome)

    def _queue(self, promise: Promise) -> list[Pending]:
        return self._for_all if promise.is_for_all else self._own
