"""The segments of a log in the order of their offsets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from minikafka.storage.segment import Segment


class Segments:
    """Never empty; the last one, `active`, is written to."""

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._set(segments)

    def _set(self, segments: Iterable[Segment]) -> None:
        self._all = sorted(segments, key=_base_offset)
        self._bases = [segment.base_offset for segment in self._all]
        self.active = self._all[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def first(self) -> Segment:
        return self._all[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._all)

    def add(self, segment: Segment) -> None:
        assert segment.base_offset > self._bases[-1]
        self._all.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def holding(self, offset: int) -> Segment:
        """The segment in which the offset is or would be."""
        return self._all[max(0, bisect_right(self._bases, offset) - 1)]

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that holds the offset and those after it."""
        return self._all[max(0, bisect_right(self._bases, offset) - 1) :]

    def holding_and_following(self, offset: int) -> tuple[Segment, Segment | None]:
        """The segment in which the offset is or would be, and the next one that is not empty."""
        number = max(0, bisect_right(self._bases, offset) - 1)
        following = number + 1
        while following < len(self._all) and not self._all[following].size:
            following += 1
        return self._all[number], self._all[following] if following < len(self._all) else None

    def next_base(self, segment: Segment) -> int | None:
        """Where the next segment begins; None for the active one."""
        number = bisect_right(self._bases, segment.base_offset)
        return self._bases[number] if number < len(self._bases) else None

    def replace(self, old: Iterable[Segment], new: Iterable[Segment]) -> None:
        """Put other segments in the place of some; the rest stays."""
        gone = {id(segment) for segment in old}
        kept = [segment for segment in self._all if id(segment) not in gone]
        self._set([*kept, *new])


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
