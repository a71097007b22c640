"""`spark.readStream.format("minikafka")`: micro-batches, planned on the driver and read in workers.

One reader lives in a Python process beside the driver for as long as the query runs, and is asked where a batch could
end (`latestOffset`) and what it consists of (`partitions`). Another copy of it, without that state, reads in workers.
What a query has read is in Spark's checkpoint alone.

- Without data Spark asks some ninety times a second. The answer waits here until `pollIntervalMs` after the last look.
- Where a query began is part of its first offset; see `offsets`.
- Partitions that are new are read from their beginning.
- Partitions that are gone, that end before where they were read up to, or that belong to another topic of the same name
  are a `DataLoss` or, with failOnDataLoss=false, a warning. Then a partition that is gone keeps its place in the
  offsets, as it may come back; one that became shorter is read on from its end; of a topic that was created again,
  which its id shows, everything is read.
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
from minikafka.spark_jobs.offsets import Json, Positions, StreamOffset, TopicIds
from minikafka.spark_jobs.options import SourceOptions
from minikafka.spark_jobs.partition import BrokerPartition
from minikafka.spark_jobs.planning import Trigger, lag_of, limit_by_lag, make_ranges, make_tasks


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
        self.ends = StreamOffset({})

    def ask(self) -> StreamOffset:
        """How far can be read now; waits if that was asked a moment ago."""
        if self._asked_ms is not None:
            early_ms = self._asked_ms + self._interval_ms - self._now_ms()
            if early_ms > 0:
                time.sleep(early_ms / 1000)
        self._asked_ms = self._now_ms()
        positions = self._catalog.latest(self._catalog.partitions(missing_ok=True))
        self.ends = StreamOffset(positions, topic_ids=_ids_of(positions, self._catalog.topic_ids()))
        return self.ends


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
        assert isinstance(partition, BrokerPartition)
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
        self._target: StreamOffset | None = None

    def initial(self) -> StreamOffset:
        """Where a new query begins: asked for more than once, and always the same."""
        if self._initial is None:
            lenient = self._options.latest_if_no_later_record
            partitions = self._catalog.partitions()
            start = resolve_start(self._catalog, partitions, self._options.starting, latest_if_no_later_record=lenient)
            earliest = self._catalog.earliest(start)
            # One that is gone by now will be missed when a batch is planned.
            clipped = {tp: self._policy.clip(tp, offset, earliest.get(tp, 0)) for tp, offset in start.items()}
            self._initial = StreamOffset(clipped, clipped, _ids_of(clipped, self._catalog.topic_ids()))
            if self._target is not None:
                self._target = self._not_before(self._initial, self._target)
        return self._initial

    def _not_before(self, start: StreamOffset, target: StreamOffset) -> StreamOffset:
        """Where a query ends that begins at what has become the latest offset since its end was asked for."""
        latest = self._catalog.latest(start.positions)
        there = {
            tp: max(target.positions.get(tp, 0), min(start.positions[tp], offset)) for tp, offset in latest.items()
        }
        return StreamOffset({**target.positions, **there}, None, {**target.topic_ids, **start.topic_ids})

    def stop_at_latest(self) -> None:
        self._target = self._latest.ask()

    def report(self) -> Json | None:
        latest = (self._target or self._latest.ends).positions
        return StreamOffset(latest).to_json() if latest else None

    def next_end(self, begun: StreamOffset, *, reads_all: bool) -> StreamOffset | None:
        """Where the next batch ends, None if there is nothing to be read."""
        ends = self._target or self._latest.ask()
        latest = ends.positions
        # Until the first batch with rows, however often the query is started.
        is_first = begun.start is not None and begun.start == begun.positions
        replaced = self._check_replaced(begun, ends)
        start = {tp: offset for tp, offset in begun.positions.items() if tp.topic not in replaced}
        start.update((tp, 0) for tp in latest if tp.topic in replaced)
        self._check_gone(start, latest, "is to be read from" if is_first else "was read up to")
        # Where a partition that appeared begins is found out when it is planned; here it counts from 0.
        known = {tp: min(start.get(tp, 0), offset) for tp, offset in latest.items()}
        end: Positions = latest
        pace = self._options.pace
        if not reads_all:
            if self._target is None and not self._trigger.fires(lag_of(known, latest), self._now_ms()):
                return None
            if pace.offsets_max is not None:
                end = self._limited(known, latest, pace.offsets_max)
        end = {**start, **end}
        if end == begun.positions and not replaced:
            return None
        topic_ids = _ids_of(end, {**begun.topic_ids, **ends.topic_ids})
        return StreamOffset(end, start if is_first else None, topic_ids)

    def _limited(self, start: Positions, latest: Positions, offsets_max: int) -> Positions:
        if sum(lag_of(start, latest).values()) > offsets_max:
            # What is not there any more does not count, or it would be left out in thousands of empty batches.
            earliest = self._catalog.earliest(latest)
            start = {tp: max(offset, earliest.get(tp, 0)) for tp, offset in start.items()}
        return limit_by_lag(start, latest, offsets_max)

    def _check_replaced(self, begun: StreamOffset, ends: StreamOffset) -> set[str]:
        """The topics that were deleted and created again since the offsets were written."""
        replaced = {topic for topic, topic_id in begun.topic_ids.items() if _is_other(topic_id, ends.topic_ids, topic)}
        for topic in sorted(replaced):
            positions = {tp: offset for tp, offset in begun.positions.items() if tp.topic == topic}
            self._policy.report(f"topic {topic} was deleted and created again, after reading {_places(positions)}")
        return replaced

    def _check_gone(self, start: Positions, latest: Positions, verb: str) -> None:
        gone = sorted({*start} - {*latest})
        if gone:
            self._policy.report(
                f"{', '.join(f'{tp.topic}-{tp.partition}' for tp in gone)} cannot be found any more, or the checkpoint "
                f"is one of other topics; it has {_places({tp: start[tp] for tp in gone})}"
            )
        for tp in sorted({*start} & {*latest}):
            if latest[tp] < start[tp]:
                self._policy.report(f"{tp.topic}-{tp.partition} ends at {latest[tp]}, but {verb} {start[tp]}")

    def plan(self, start: StreamOffset, end: StreamOffset) -> list[BrokerPartition]:
        """The tasks of a batch. The first batch knows itself where it begins."""
        wanted = {tp: (self._begin_of(tp, start, end), offset) for tp, offset in end.positions.items()}
        wanted = {tp: (first, stop) for tp, (first, stop) in wanted.items() if first < stop}
        earliest = self._catalog.earliest(wanted)
        topic_ids = self._catalog.topic_ids()
        first: dict[TopicPartition, int] = {}
        stop: dict[TopicPartition, int] = {}
        for tp, (begin, offset) in wanted.items():
            name = f"{tp.topic}-{tp.partition} [{begin}, {offset})"
            if tp not in earliest:
                self._policy.report(f"{name} was to be read, but that partition cannot be found any more")
            elif tp.topic in end.topic_ids and _is_other(end.topic_ids[tp.topic], topic_ids, tp.topic):
                self._policy.report(f"{name} was to be read, but that topic was deleted and created again")
            else:
                # One that was made while the query runs should begin at 0.
                first[tp] = self._policy.clip(tp, begin, earliest[tp])
                stop[tp] = offset
        options = self._options
        ranges = make_ranges(first, stop, end.topic_ids)
        tasks = make_tasks(ranges, options.partitions_min, options.records_per_partition_max)
        return [BrokerPartition(task) for task in tasks]

    def _begin_of(self, tp: TopicPartition, start: StreamOffset, end: StreamOffset) -> int:
        if end.start is not None:
            return end.start.get(tp, 0)
        is_replaced = tp.topic in start.topic_ids and _is_other(start.topic_ids[tp.topic], end.topic_ids, tp.topic)
        return 0 if is_replaced else start.positions.get(tp, 0)


def _is_other(topic_id: bytes, topic_ids: TopicIds, topic: str) -> bool:
    """Whether the name stands for another topic there; what is not known is taken for the same."""
    return topic_ids.get(topic, topic_id) != topic_id


def _ids_of(partitions: Iterable[TopicPartition], topic_ids: TopicIds) -> TopicIds:
    return {topic: topic_ids[topic] for topic in sorted({tp.topic for tp in partitions}) if topic in topic_ids}


def _places(positions: Positions) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition} up to {offset}" for tp, offset in sorted(positions.items()))
