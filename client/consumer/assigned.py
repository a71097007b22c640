"""The partitions that are assigned now, and telling every part of the consumer when that changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from minikafka.client.cluster import Cluster
from minikafka.client.consumer.delivery import Delivery
from minikafka.client.consumer.errors import NotAssigned
from minikafka.client.consumer.fetcher import Fetcher
from minikafka.client.consumer.partition import Needs, PartitionState, Position, Reading
from minikafka.client.consumer.positions import Positions
from minikafka.client.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.schema import ZERO_UUID


class Assigned:
    """See the module's description."""

    def __init__(
        self,
        reading: Reading,
        delivery: Delivery,
        positions: Positions,
        fetcher: Fetcher,
        cluster: Cluster,
    ) -> None:
        self._cluster = cluster
        self._reading = reading
        self._delivery = delivery
        self._positions = positions
        self._fetcher = fetcher
        self._states: dict[TopicPartition, PartitionState] = {}

    def __iter__(self) -> Iterator[PartitionState]:
        return iter([*self._states.values()])

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._states

    def holds(self, state: PartitionState) -> bool:
        """Whether a partition was kept: one that was taken away and came back is another state."""
        return self._states.get(state.tp) is state

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self._states)

    def get(self, tp: TopicPartition) -> PartitionState:
        state = self._states.get(tp)
        if state is None:
            raise NotAssigned(f"{tp} is not assigned to this consumer")
        return state

    def some(self, partitions: Collection[TopicPartition]) -> list[PartitionState]:
        """The partitions that were named, or all of them; NotAssigned if one of them is not."""
        return [self.get(tp) for tp in partitions] if partitions else [*self._states.values()]

    # ----------------------------------------------------------------------------------------- coming, going

    def add(self, partitions: Iterable[TopicPartition], *, is_held: bool = False) -> None:
        """Take over partitions. Held ones are not read before `let_go`."""
        new = [
            PartitionState(tp, self._reading, self._cluster.topic_id(tp.topic))
            for tp in sorted(partitions)
            if tp not in self._states
        ]
        for state in new:
            state.is_held = is_held
        self._add(new)

    def _add(self, new: list[PartitionState]) -> None:
        for state in new:
            self._states[state.tp] = state
        self._positions.add(new)
        self._fetcher.add(new)
        self._delivery.wake()

    def renew(self, state: PartitionState, topic_id: bytes, generation: ConsumerGroupMetadata | None) -> None:
        """A topic was deleted and created again: read the partition of the new one as one that has just come."""
        new = PartitionState(state.tp, self._reading, topic_id)
        new.is_paused, new.is_held = state.is_paused, state.is_held
        new.former_offset = max(state.position.offset, state.former_offset)
        self.remove([state.tp], generation)
        self._add([new])

    def let_go(self) -> None:
        """Read all that are still held."""
        for state in self._states.values():
            if state.is_held:
                state.is_held = False
                self.touch(state)

    def hold(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Read no more of these; they are about to be given up."""
        held = [self._states[tp] for tp in partitions if tp in self._states]
        for state in held:
            state.is_held = True
            self._delivery.release(state)
            self._fetcher.touch(state)
        return held

    def remove(self, partitions: Iterable[TopicPartition], generation: ConsumerGroupMetadata | None = None) -> None:
        """Let go of partitions; `generation` is that in which the group takes them away, None if the program did."""
        gone = [state for tp in partitions if (state := self._states.pop(tp, None)) is not None]
        for state in gone:
            self._delivery.forget(state)
            if generation is None:
                self._delivery.handed_out.settle([state])
            else:
                self._delivery.handed_out.revoke(state, generation)
        self._positions.remove(gone)
        self._fetcher.remove(gone)
        self._delivery.wake()

    def _is_current(self, state: PartitionState) -> bool:
        """Whether the topic of a partition still exists, as far as is known."""
        found = self._cluster.metadata.topics.get(state.tp.topic)
        if found is None:
            return state.topic_id == ZERO_UUID
        is_other = found.topic_id != state.topic_id and ZERO_UUID not in (found.topic_id, state.topic_id)
        return not is_other and found.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # --------------------------------------------------------------------------------------------- positions

    def touch(self, state: PartitionState) -> None:
        """Something about a partition has changed."""
        self._fetcher.touch(state, hurry=True)
        self._delivery.wake(state)

    def seek(self, state: PartitionState, position: Position) -> None:
        self._jump(state, lambda: state.seek(position))

    def need(self, state: PartitionState, needs: Needs, reset_to: int | None = None) -> None:
        """Have the position found out anew."""
        self._jump(state, lambda: state.need(needs, reset_to))
        self._positions.wake()

    def _jump(self, state: PartitionState, jump: Callable[[], int]) -> None:
        self._delivery.moved(state)
        self._fetcher.freed(jump())
        self.touch(state)

    def offsets(
        self, partitions: Iterable[TopicPartition] | None, *, finished: bool, with_deleted: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What there is to commit: positions, or what is before all that the program has in hand.

        By itself the consumer commits nothing of a topic that seems to be deleted: commits name it, and would count for
        the next one of the name. A program's commit asks the coordinator."""
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for tp in self._states if partitions is None else partitions:
            state = self._states.get(tp)
            if state is None or not state.has_position or not (with_deleted or self._is_current(state)):
                continue
            position = self._delivery.finished(state) if finished else state.position
            offsets[tp] = OffsetAndMetadata(position.offset, "", position.epoch)
        return offsets
