"""The consumer's calls about offsets: positions, seeking, pausing, looking offsets up, committing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from minikafka.client.consumer.core import Core, Group
from minikafka.client.consumer.errors import NoGroup
from minikafka.client.consumer.offsets import find_offsets
from minikafka.client.consumer.partition import EARLIEST, LATEST, NO_OFFSET, Needs, Position
from minikafka.client.errors import ClientClosed, IllegalState
from minikafka.client.structs import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition


class OffsetCalls:
    """See the module's description. A part of `Consumer`."""

    _core: Core | None = None

    def _require_core(self) -> Core:
        if self._core is None:
            raise ClientClosed("the consumer is closed, or was not started")
        return self._core

    def _require_group(self) -> Group:
        group = self._require_core().group
        if group is None:
            raise NoGroup("this needs a group_id")
        return group

    # -------------------------------------------------------------------------------------------- positions

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record; waits until it is known. Raises what stands in its way."""
        core = self._require_core()
        state = core.assigned.get(TopicPartition(*partition))
        while not state.has_position:
            if state.error is not None:
                raise type(state.error)(*state.error.args)
            await core.delivery.wait_change()
            # It may have been taken away, or the consumer closed, while we waited.
            state = self._require_core().assigned.get(state.tp)
        return state.position.offset

    def highwater(self, partition: TopicPartition) -> int | None:
        """The offset after the last record that all in-sync replicas have, as of the last fetch."""
        return _known(self._require_core().assigned.get(TopicPartition(*partition)).high_watermark)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """The offset up to which every transaction has ended, as of the last fetch."""
        return _known(self._require_core().assigned.get(TopicPartition(*partition)).last_stable_offset)

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """When the last fetch was answered, in milliseconds since 1970."""
        return self._require_core().assigned.get(TopicPartition(*partition)).last_fetch_ms or None

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the position is behind the end, as of the last fetch; None if that is not known yet."""
        core = self._require_core()
        state = core.assigned.get(TopicPartition(*partition))
        is_committed = core.config.isolation_level == "read_committed"
        return state.lag(state.last_stable_offset if is_committed else state.high_watermark)

    # ---------------------------------------------------------------------------------------------- seeking

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at another offset of an assigned partition."""
        _require_offset(offset)
        core = self._require_core()
        core.assigned.seek(core.assigned.get(TopicPartition(*partition)), Position(offset))

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        """Go to the oldest records of these partitions, or of all that are assigned."""
        return await self._reset(partitions, EARLIEST)

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        """Go past the newest records of these partitions, or of all that are assigned."""
        return await self._reset(partitions, LATEST)

    async def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> bool:
        """Go to the first record at or after a time; past the newest where all records are older."""
        if timestamp_ms < 0:
            raise ValueError(f"a time is a number of milliseconds from 0 on, not {timestamp_ms}")
        return await self._reset(partitions, timestamp_ms)

    async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Go to what is committed for these partitions, or all that are assigned; where nothing is, stay."""
        group, core = self._require_group(), self._require_core()
        states = core.assigned.some([TopicPartition(*each) for each in partitions])
        committed = await group.commits.fetch([state.tp for state in states])
        for state in states:
            if state.tp in committed and state.tp in core.assigned:
                offset, _, epoch = committed[state.tp]
                core.assigned.seek(state, Position(offset, epoch))
        return {state.tp: committed[state.tp].offset if state.tp in committed else None for state in states}

    async def _reset(self, partitions: Collection[TopicPartition], reset_to: int) -> bool:
        core = self._require_core()
        states = core.assigned.some([TopicPartition(*each) for each in partitions])
        for state in states:
            core.assigned.need(state, Needs.RESET, reset_to)
        for state in states:
            await self.position(state.tp)
        return True

    # --------------------------------------------------------------------------------------------- pausing

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these partitions, and fetch nothing, until `resume`; they stay assigned."""
        core = self._require_core()
        for state in [core.assigned.get(TopicPartition(*each)) for each in partitions]:
            state.is_paused = True
            core.delivery.release(state)
            core.fetcher.touch(state)

    def resume(self, *partitions: TopicPartition) -> None:
        core = self._require_core()
        for state in [core.assigned.get(TopicPartition(*each)) for each in partitions]:
            state.is_paused = False
            core.assigned.touch(state)

    def paused(self) -> set[TopicPartition]:
        return {state.tp for state in self._require_core().assigned if state.is_paused}

    # ------------------------------------------------------------------------------------- looking offsets up

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The oldest offsets of any partitions, assigned or not."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets after the newest records that this consumer may see."""
        return await self._ends(partitions, LATEST)

    async def _ends(self, partitions: Iterable[TopicPartition], which: int) -> dict[TopicPartition, int]:
        core = self._require_core()
        asked = dict.fromkeys((TopicPartition(*each) for each in partitions), which)
        found = await find_offsets(core.cluster, asked, core.config.isolation)
        return {tp: found[tp].offset for tp in asked}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after a time, in milliseconds, for each partition; None where all is older."""
        if any(timestamp < 0 for timestamp in timestamps.values()):
            raise ValueError("a time is a number of milliseconds from 0 on")
        core = self._require_core()
        asked = {TopicPartition(*tp): timestamp for tp, timestamp in timestamps.items()}
        found = await find_offsets(core.cluster, asked, core.config.isolation)
        return {tp: found[tp] if found[tp].offset != NO_OFFSET else None for tp in asked}

    # -------------------------------------------------------------------------------------------- committing

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata | tuple[int, str]] | None = None
    ) -> None:
        """Commit the positions of all partitions, or these offsets: the next to be read, alone or with a note.

        CommitFailed if the group has taken a partition away since its records were handed out, also if it came back:
        whoever has it begins at what was committed before."""
        group, core = self._require_group(), self._require_core()
        if offsets is None and not core.subscription.partitions and not core.subscription.is_automatic:
            raise IllegalState("nothing is subscribed or assigned")
        given = None if offsets is None else {TopicPartition(*tp): _offset(offset) for tp, offset in offsets.items()}
        await group.program.commit(given)

    async def committed(self, partition: TopicPartition) -> int | None:
        """The committed offset of any partition; None if there is none."""
        found = await self.committed_offsets([partition])
        return found[TopicPartition(*partition)].offset if found else None

    async def committed_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed offsets with their notes; partitions without one are left out."""
        return await self._require_group().commits.fetch([TopicPartition(*each) for each in partitions])

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's place in its group, for a producer's `send_offsets_to_transaction`.

        It is that of the records that were handed out: if the group has taken one of their partitions away since, the
        commit is refused. Asking for more records after this call means that these are done, or were given up."""
        group, delivery = self._require_group(), self._require_core().delivery
        delivery.stop_short()
        return delivery.handed_out.name(group.identity)


def _known(offset: int) -> int | None:
    return None if offset == NO_OFFSET else offset


def _offset(given: int | OffsetAndMetadata | tuple[int, str]) -> OffsetAndMetadata:
    made = OffsetAndMetadata(given) if isinstance(given, int) else OffsetAndMetadata(*given)
    _require_offset(made.offset)
    return made


def _require_offset(offset: object) -> None:
    if not isinstance(offset, int) or offset < 0:
        raise ValueError(f"an offset is a number from 0 on, not {offset!r}")
