"""`spark.readStream.format("minikafka")`: micro-batches, planned on the driver and read in workers.

One reader lives in a Python process beside the driver for as long as the query runs, and is asked where a batch could
end (`latestOffset`) and what it consists of (`partitions`). Another copy of it, without that state, reads in workers.
What a query has read is in Spark's checkpoint alone.

- Without data Spark asks some ninety times a second. The answer waits here until `pollIntervalMs` after the last look.
- Where a query began is part of its first offset; see `offsets`.
- Partitions that are new are read from their beginning. Partitions that are gone, and offsets that are not there any
  more, are a `DataLoss` or, with failOnDataLoss=false, a warning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from minikafka.client.structs import TopicPartition
from minikafka.spark_jobs.batch_reader import read_from_broker
from minikafka.spark_jobs.broker_catalog import BrokerCatalog
from minikafka.spark_jobs.catalog import Catalog, LossPolicy, resolve_start
from minikafka.spark_jobs.link import link_to
from minikafka.spark_jobs.offsets import Json, Positions, StreamOffset
from minikafka.spark_jobs.options import SourceOptions
from minikafka.spark_jobs.partition import StreamPartition
from minikafka.spark_jobs.planning import Trigger, lag_of, limit_by_lag, make_ranges, share_tasks, split_ranges


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class StreamCatalog(Catalog, Protocol):
    """A catalog whose partitions may disappear while it is used."""

    def partitions(self, *, missing_ok: bool = False) -> tuple[TopicPartition, ...]: ...


class Latest:
    """The ends of all partitions, asked for at most once in an interval."""

    def __init__(self, catalog: StreamCatalog, interval_ms: int, now_ms: Callable[[], int] = _monotonic_ms) -> None:
        self._catalog = catalog
        self._interval_ms = interval_ms
        self._now_ms = now_ms
        self._asked_ms: int | None = None
        self.positions: dict[TopicPartition, int] = {}

    def ask(self) -> dict[TopicPartition, int]:
        """How far can be read now; waits if that was asked a moment ago."""
        if self._asked_ms is not None:
            early_ms = self._asked_ms + self._interval_ms - self._now_ms()
            if early_ms > 0:
                time.sleep(early_ms / 1000)
        self._asked_ms = self._now_ms()
        self.positions = self._catalog.latest(self._catalog.partitions(missing_ok=True))
        return self.positions


class MinikafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module's description. The names of its methods are Spark's."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._state: DriverState | None = None

    @property
    def _driver(self) -> DriverState:
        if self._state is None:
            self._state = DriverState(self._options, BrokerCatalog(link_to(self._options.config), self._options))
        return self._state

    def initialOffset(self) -> Json:
        return self._driver.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Not a limit as much as a mark: Spark hands it back, or `ReadAllAvailable` if all must be read at once."""
        pace = self._options.pace
        if pace.offsets_max is not None:
            return ReadMaxRows(pace.offsets_max)
        return ReadAllAvailable() if pace.offsets_min is None else ReadMinRows(pace.offsets_min)

    def prepareForTriggerAvailableNow(self) -> None:
        self._driver.stop_at_latest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Json:
        begun = StreamOffset.from_json(start)
        end = self._driver.next_end(begun, reads_all=isinstance(limit, ReadAllAvailable))
        # The same text, extras and all, is how Spark is told that there is nothing new.
        return start if end is None else end.to_json()

    def reportLatestOffset(self) -> Json | None:
        return self._driver.report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._driver.plan(StreamOffset.from_json(start), StreamOffset.from_json(end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, StreamPartition)
        return read_from_broker(self._options, *partition.ranges)

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options, "_state": None}


class DriverState:
    """What the reader beside the driver knows."""

    def __init__(
        self, options: SourceOptions, catalog: StreamCatalog, now_ms: Callable[[], int] = _monotonic_ms
    ) -> None:
        self._options = options
        self._now_ms = now_ms
        self._catalog = catalog
        self._policy = LossPolicy(options.fail_on_data_loss)
        self._latest = Latest(catalog, options.pace.poll_interval_ms, now_ms)
        self._trigger = Trigger(options.pace.offsets_min, options.pace.delay_ms_max)
        self._initial: StreamOffset | None = None
        # With Trigger.AvailableNow: where the query ends.
        self._target: Positions | None = None

    def initial(self) -> StreamOffset:
        """Where a new query begins: asked for more than once, and always the same."""
        if self._initial is None:
            lenient = self._options.latest_if_no_later_record
            partitions = self._catalog.partitions()
            start = resolve_start(self._catalog, partitions, self._options.starting, latest_if_no_later_record=lenient)
            earliest = self._catalog.earliest(start)
            # One that is gone by now will be missed when a batch is planned.
            clipped = {tp: self._policy.clip(tp, offset, earliest.get(tp, 0)) for tp, offset in start.items()}
            self._initial = StreamOffset(clipped, clipped)
            if self._target is not None:
                self._target = self._not_before(clipped, self._target)
        return self._initial

    def _not_before(self, start: Positions, target: Positions) -> Positions:
        """Where a query ends that begins at what has become the latest offset since its end was asked for."""
        latest = self._catalog.latest(start)
        there = {tp: max(target.get(tp, 0), min(start[tp], offset)) for tp, offset in latest.items()}
        return {**target, **there}

    def stop_at_latest(self) -> None:
        self._target = self._latest.ask()

    def report(self) -> Json | None:
        latest = self._target if self._target is not None else self._latest.positions
        return StreamOffset(latest).to_json() if latest else None

    def next_end(self, begun: StreamOffset, *, reads_all: bool) -> StreamOffset | None:
        """Where the next batch ends, None if there is nothing to be read."""
        latest = self._target if self._target is not None else self._latest.ask()
        start = dict(begun.positions)
        # Until the first batch with rows, however often the query is started.
        is_first = begun.start is not None and begun.start == begun.positions
        self._check_gone(start, latest, "is to be read from" if is_first else "was read up to")
        # Where a partition that appeared begins is found out when it is planned; here it counts from 0.
        known = {tp: start.get(tp, 0) for tp in latest}
        end: Positions = {tp: max(offset, known[tp]) for tp, offset in latest.items()}
        pace = self._options.pace
        if not reads_all:
            if self._target is None and not self._trigger.fires(lag_of(known, latest), self._now_ms()):
                return None
            if pace.offsets_max is not None:
                end = self._limited(known, latest, pace.offsets_max)
        if end == begun.positions:
            return None
        return StreamOffset(end, begun.start if is_first else None)

    def _limited(self, start: Positions, latest: Positions, offsets_max: int) -> Positions:
        if sum(lag_of(start, latest).values()) > offsets_max:
            # What is not there any more does not count, or it would be left out in thousands of empty batches.
            earliest = self._catalog.earliest(latest)
            start = {tp: max(offset, earliest.get(tp, 0)) for tp, offset in start.items()}
        return limit_by_lag(start, latest, offsets_max)

    def _check_gone(self, start: Positions, latest: Positions, verb: str) -> None:
        gone = sorted({*start} - {*latest})
        if gone:
            self._policy.report(f"{_names(gone)} cannot be found any more, or the checkpoint is one of other topics")
        for tp in sorted({*start} & {*latest}):
            if latest[tp] < start[tp]:
                self._policy.report(
                    f"{_names([tp])} ends at {latest[tp]}, but {verb} {start[tp]}: it may be another one"
                )

    def plan(self, start: StreamOffset, end: StreamOffset) -> list[StreamPartition]:
        """The ranges of a batch. The first batch knows itself where it begins."""
        begun = start.positions if end.start is None else end.start
        earliest = self._catalog.earliest(end.positions)
        first: dict[TopicPartition, int] = {}
        stop: dict[TopicPartition, int] = {}
        for tp, offset in end.positions.items():
            if tp not in earliest:
                self._policy.report(f"{_names([tp])} cannot be found any more")
                continue
            # One that was made while the query runs should begin at 0.
            first[tp] = self._policy.clip(tp, begun.get(tp, 0), earliest[tp])
            stop[tp] = offset
        ranges, options = make_ranges(first, stop), self._options
        if options.partitions_min is None and options.records_per_partition_max is None:
            return [StreamPartition(task) for task in share_tasks(ranges)]
        pieces = split_ranges(ranges, options.partitions_min, options.records_per_partition_max)
        return [StreamPartition((piece,)) for piece in pieces]


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in partitions)
