"""Which records the program has and has not committed, and in which generation it was given them.

The generation belongs to the records (KIP-447). A member that has lost a partition and is in the next generation is a
valid member: if it named that one, the coordinator would take offsets of records that another member reads by now. So:

- A partition is *open* from the moment a record of it is handed out until the program has committed it: by `commit`, or
  by asking for more after `group_metadata`, with which a producer commits.
- If an open partition is taken away, its generation is kept, also if the partition comes back. `group_metadata` names
  it, the coordinator refuses it, and `commit` raises CommitFailed, until the program has heard of it.
- A partition that is kept while the group goes on is in the group's generation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from minikafka.client.consumer.partition import PartitionState
from minikafka.client.structs import ConsumerGroupMetadata, TopicPartition


class HandedOut:
    """See the module's description."""

    def __init__(self) -> None:
        self._open: dict[PartitionState, None] = {}
        self._revoked: dict[TopicPartition, ConsumerGroupMetadata] = {}
        self._had: set[TopicPartition] = set()
        self._is_named = False

    def open(self, state: PartitionState) -> None:
        """A record of a partition is handed out."""
        self._open[state] = None

    def ask(self) -> None:
        """The program asks for more."""
        if self._is_named:
            self._is_named = False
            self._open.clear()
            self._revoked.clear()

    def name(self, current: ConsumerGroupMetadata) -> ConsumerGroupMetadata:
        """The generation for a transaction that commits what is open."""
        self._is_named = True
        return next(iter(self._revoked.values()), current)

    def settle(self, states: Iterable[PartitionState]) -> None:
        """Everything that was handed out of these is committed, or the program has given them back."""
        for state in states:
            self._open.pop(state, None)

    def revoke(self, state: PartitionState, generation: ConsumerGroupMetadata) -> None:
        """A partition is taken away from the member of this generation."""
        self._had.add(state.tp)
        if state in self._open:
            del self._open[state]
            self._revoked.setdefault(state.tp, generation)

    def was_taken_away(self, tp: TopicPartition) -> bool:
        """Whether the group has ever taken this partition away."""
        return tp in self._had

    def take_revoked(self, partitions: Collection[TopicPartition] | None) -> list[TopicPartition]:
        """Those of some partitions, or of all, that were taken away while they were open; the program hears of it."""
        taken = sorted(tp for tp in self._revoked if partitions is None or tp in partitions)
        for tp in taken:
            del self._revoked[tp]
        return taken

    def begin_commit(self, states: Iterable[PartitionState]) -> dict[PartitionState, None]:
        """Take those of some partitions that are open: a commit covers all that was handed out of them so far."""
        return {state: self._open.pop(state) for state in states if state in self._open}
