"""What is there to be read: partitions and their offsets, asked of brokers or of files.

`Catalog` is the seam. The rest of this module turns options into positions by asking one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from minikafka.client.structs import TopicPartition
from minikafka.spark_jobs.errors import BadOption, DataLoss
from minikafka.spark_jobs.offsets import Positions, TopicIds
from minikafka.spark_jobs.options import EARLIEST, LATEST, Bound, Limit

log: Final = logging.getLogger(__name__)


class Catalog(Protocol):
    """The selected partitions, as they are now."""

    def partitions(self) -> tuple[TopicPartition, ...]:
        """Those that the options select, in order. An error if a topic or partition that they name does not exist."""

    def topic_ids(self) -> TopicIds:
        """The ids of the topics that `partitions` has named last."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that is still there."""

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last one that may be read."""

    def at_time(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset whose record is at or after a time, None if there is none."""


def resolve_start(
    catalog: Catalog, partitions: tuple[TopicPartition, ...], limit: Limit, *, latest_if_no_later_record: bool
) -> dict[TopicPartition, int]:
    """Where reading begins."""
    if limit.bound in (Bound.TIMESTAMP, Bound.TIMESTAMPS):
        found = catalog.at_time(_timestamps(limit, partitions))
        missing = sorted(tp for tp, offset in found.items() if offset is None)
        if missing and not latest_if_no_later_record:
            names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in missing)
            raise BadOption(
                f"{limit.option}: no record of {names} is at or after the timestamp; "
                "startingOffsetsByTimestampStrategy=latest would begin at the end of those"
            )
        return _filled(found, catalog.latest(missing))
    return _resolve(catalog, limit, partitions)


def resolve_end(catalog: Catalog, partitions: tuple[TopicPartition, ...], limit: Limit) -> dict[TopicPartition, int]:
    """Where reading ends; where no record is at or after a timestamp, at the end of the partition."""
    if limit.bound in (Bound.TIMESTAMP, Bound.TIMESTAMPS):
        found = catalog.at_time(_timestamps(limit, partitions))
        return _filled(found, catalog.latest(tp for tp, offset in found.items() if offset is None))
    return _resolve(catalog, limit, partitions)


def _timestamps(limit: Limit, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    if limit.positions is None:
        return dict.fromkeys(partitions, limit.timestamp_ms)
    _check_same(limit, partitions)
    return dict(limit.positions)


def _filled(found: Mapping[TopicPartition, int | None], rest: Positions) -> dict[TopicPartition, int]:
    return {tp: rest[tp] if offset is None else offset for tp, offset in found.items()}


def _resolve(catalog: Catalog, limit: Limit, partitions: tuple[TopicPartition, ...]) -> dict[TopicPartition, int]:
    if limit.bound is Bound.EARLIEST:
        return catalog.earliest(partitions)
    if limit.bound is Bound.LATEST:
        return catalog.latest(partitions)
    assert limit.positions is not None
    _check_same(limit, partitions)
    given = dict(limit.positions)
    given.update(catalog.earliest(tp for tp, offset in limit.positions.items() if offset == EARLIEST))
    given.update(catalog.latest(tp for tp, offset in limit.positions.items() if offset == LATEST))
    return given


def _check_same(limit: Limit, partitions: Iterable[TopicPartition]) -> None:
    """Offsets are for all partitions or for none: one that was forgotten would be read from nobody knows where."""
    named, there = {*(limit.positions or ())}, {*partitions}
    if named != there:
        wrong = ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(named ^ there))
        raise BadOption(f"{limit.option} must name exactly the partitions that are read; the difference is {wrong}")


class LossPolicy:
    """What happens when records are missing: an error, or one warning that says what was left out."""

    def __init__(self, fails: bool) -> None:
        self.fails = fails
        # A query asks several times a second.
        self._reported: set[str] = set()

    def report(self, what: str) -> None:
        if self.fails:
            raise DataLoss(what)
        if what not in self._reported:
            self._reported.add(what)
            log.warning("data may have been lost: %s", what)

    def clip(self, tp: TopicPartition, start: int, earliest: int) -> int:
        """Where to begin instead, if the beginning is not there any more."""
        if start < earliest:
            self.report(f"{tp.topic}-{tp.partition} begins at offset {earliest} now, and was to be read from {start}")
        return max(start, earliest)
