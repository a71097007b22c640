"""The partitions that are assigned now, and telling every part of the consumer when that changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from minikafka.client.consumer.delivery import Delivery
from minikafka.client.consumer.errors import NotAssigned
from minikafka.client.consumer.fetcher import Fetcher
from minikafka.client.consumer.partition import Needs, PartitionState, Position, Reading
from minikafka.client.consumer.positions import Positions
from minikafka.client.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition


class Assigned:
    """See the module's description."""

    def __init__(self, reading: Reading, delivery: Delivery, positions: Positions, fetcher: Fetcher) -> None:
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
        new = [PartitionState(tp, self._reading) for tp in sorted(partitions) if tp not in self._states]
        for state in new:
            state.is_held = is_held
            self._states[state.tp] = state
        self._positions.add(new)
        self._fetcher.add(new)
        self._delivery.wake()

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
            if generation is not None:
                self._delivery.handed_out.revoke(state, generation)
        self._positions.remove(gone)
        self._fetcher.remove(gone)
        self._delivery.wake()

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
        self, partitions: Iterable[TopicPartition] | None, *, finished: bool
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What there is to commit: positions, or what is before all that the program has in hand."""
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for tp in self._states if partitions is None else partitions:
            state = self._states.get(tp)
            if state is None or not state.has_position:
                continue
            position = self._delivery.finished(state) if finished else state.position
            offsets[tp] = OffsetAndMetadata(position.offset, "", position.epoch)
        return offsets
