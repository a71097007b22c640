"""A member of a group as a process of the history: what it was given, from where, and what it committed.

A stint is the time from an assignment of a partition to its end. Within a stint offsets must follow each other; where
it begins must be what the group has committed, which the judge of groups knows.
"""

from __future__ import annotations

import asyncio

from tests.chaos.history import Kind, Seen
from tests.client.campaign.clients import ConsumerUnderTest, Place, Trouble, Watcher, parse_place
from tests.client.campaign.play import Play

OUT_OF_RANGE = ("LogTruncated", "OffsetOutOfRange", "OffsetOutOfRangeError", "NoOffset", "NoOffsetForPartitionError")
"""Errors that say that there is nothing where a reader goes on. Here nothing is ever truncated or deleted."""


class Member:
    """One life of a consumer in a group."""

    def __init__(self, play: Play, name: str, group: str) -> None:
        self.play, self.name, self.group = play, name, group
        self.positions: dict[Place, int] = {}
        self.values: list[int] = []
        """Everything it was given."""
        self._stints: dict[Place, int] = {}
        self._new: set[Place] = set()
        self._stint = 0

    @property
    def watcher(self) -> Watcher:
        return Watcher(self._assigned, self._revoked)

    def _assigned(self, places: list[Place]) -> None:
        self.play.counts["rebalances"] += 1
        for place in places:
            self._stint += 1
            self._stints[place] = self._stint
            self._new.add(place)
            self.positions.pop(place, None)
            self._write(place, "invoke", "offset", partition=self._key(place))

    def _revoked(self, places: list[Place]) -> None:
        for place in places:
            self.positions.pop(place, None)
            self._new.discard(place)

    async def poll(self, consumer: ConsumerUnderTest, seconds: float, count: int) -> list[Seen]:
        """What comes now, written down. Errors that pass are counted."""
        try:
            records = await consumer.poll(seconds, count)
        except Trouble as trouble:
            self.play.counts["errors"] += 1
            if trouble.name in OUT_OF_RANGE:
                self.play.history.write(self.name, "fail", "poll", partition=self.group, note=str(trouble))
            await asyncio.sleep(0.05)
            return []
        for record in records:
            place = parse_place(record.partition)
            if place in self._new:
                self._new.discard(place)
                self._write(place, "ok", "offset", partition=self._key(place), offset=record.offset)
            self._write(place, "ok", "poll", records=(record,))
            self.positions[place] = record.offset + 1
            self.values.append(record.value)
        return records

    async def commit(self, consumer: ConsumerUnderTest, *, by_name: bool) -> None:
        """Everything that was given, with or without naming the offsets.

        What is refused may have been written all the same, as far as the judge knows."""
        offsets = {**self.positions}
        for place, offset in offsets.items():
            self._write_commit(place, "invoke", offset)
        kind: Kind = "info"
        try:
            await consumer.commit(offsets if by_name else None)
            kind = "ok"
        except Trouble:
            self.play.counts["refused commits"] += 1
        finally:
            for place, offset in offsets.items():
                self._write_commit(place, kind, offset)

    def _write_commit(self, place: Place, kind: Kind, offset: int) -> None:
        self.play.history.write(self.name, kind, "commit", partition=self._key(place), offset=offset)

    def _write(self, place: Place, kind: Kind, f: str, **fields: object) -> None:
        self.play.history.write(f"{self.name}/{self._stints.get(place, 0)}", kind, f, **fields)

    def _key(self, place: Place) -> str:
        return f"{self.group}/{place}"
