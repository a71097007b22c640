"""`spark.read.format("minikafka")`: everything between two offsets, read once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from minikafka.client.structs import TopicPartition
from minikafka.spark_jobs.broker_catalog import BrokerCatalog
from minikafka.spark_jobs.broker_ranges import RangeReader
from minikafka.spark_jobs.catalog import Catalog, LossPolicy, resolve_end, resolve_start
from minikafka.spark_jobs.errors import BadOption
from minikafka.spark_jobs.link import link_to
from minikafka.spark_jobs.options import SourceOptions
from minikafka.spark_jobs.partition import BrokerPartition
from minikafka.spark_jobs.planning import OffsetRange, make_ranges, make_tasks
from minikafka.spark_jobs.rows import arrow_batches

_RANGES_AHEAD: Final = 4
"""How many of the ranges of one task are asked for at once; each may bring `max.partition.fetch.bytes`."""


def plan(options: SourceOptions, catalog: Catalog) -> list[OffsetRange]:
    """The ranges of a batch read, clipped to what is there."""
    partitions = catalog.partitions()
    lenient = options.latest_if_no_later_record
    start = resolve_start(catalog, partitions, options.starting, latest_if_no_later_record=lenient)
    stop = resolve_end(catalog, partitions, options.ending)
    policy = LossPolicy(options.fail_on_data_loss)
    earliest, latest = catalog.earliest(partitions), catalog.latest(partitions)
    first: dict[TopicPartition, int] = {}
    last: dict[TopicPartition, int] = {}
    for tp in partitions:
        if not all(tp in each for each in (start, stop, earliest, latest)):
            policy.report(f"{tp.topic}-{tp.partition} was deleted a moment ago")
            continue
        if stop[tp] < start[tp]:
            raise BadOption(
                f"{tp.topic}-{tp.partition} would end at {stop[tp]} ({options.ending.option}), "
                f"before it begins at {start[tp]} ({options.starting.option})"
            )
        if stop[tp] > latest[tp]:
            policy.report(f"{tp.topic}-{tp.partition} ends at {latest[tp]}, and was to be read up to {stop[tp]}")
        first[tp] = policy.clip(tp, start[tp], earliest[tp])
        last[tp] = min(stop[tp], latest[tp])
    return make_ranges(first, last, catalog.topic_ids())


def read_from_broker(options: SourceOptions, *ranges: OffsetRange) -> Iterator[Any]:
    """The rows of ranges as Arrow batches; called in workers, whose connections live on."""
    link, policy = link_to(options.task_config), LossPolicy(options.fail_on_data_loss)
    readers = (RangeReader(link, policy, wanted).begin() for wanted in ranges)
    begun = deque(islice(readers, _RANGES_AHEAD))
    for wanted in ranges:
        batches = begun.popleft().batches()
        yield from arrow_batches(
            batches,
            wanted,
            include_headers=options.include_headers,
            check_crcs=options.config.check_crcs,
            record_bytes_max=options.config.max_record_bytes,
            policy=policy,
        )
        begun.extend(islice(readers, 1))


class BrokerBatchReader(DataSourceReader):
    """Through brokers."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        ranges = plan(options, BrokerCatalog(link_to(options.config), options))
        tasks = make_tasks(ranges, options.partitions_min, options.records_per_partition_max)
        return [BrokerPartition(task) for task in tasks]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        # Where there are no partitions at all, Spark reads one that is None.
        if not isinstance(partition, BrokerPartition):
            return iter(())
        return read_from_broker(self._options, *partition.ranges)
