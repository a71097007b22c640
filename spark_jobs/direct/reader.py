"""Batch reads with the option `logDirs`: the files themselves, read in workers that can reach them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from minikafka.client.structs import TopicPartition
from minikafka.protocol.records import BatchView
from minikafka.spark_jobs.batch_reader import plan
from minikafka.spark_jobs.catalog import LossPolicy
from minikafka.spark_jobs.committed import Visibility
from minikafka.spark_jobs.direct.batches import find_end, iter_batches, map_segments
from minikafka.spark_jobs.direct.catalog import DirectCatalog, aborted_transactions
from minikafka.spark_jobs.options import SourceOptions
from minikafka.spark_jobs.partition import FilePartition
from minikafka.spark_jobs.planning import OffsetRange, split_ranges
from minikafka.spark_jobs.rows import arrow_batches


class DirectBatchReader(DataSourceReader):
    """See the module's description."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        catalog = DirectCatalog(self._options)
        options = self._options
        ranges = split_ranges(plan(options, catalog), options.partitions_min, options.records_per_partition_max)
        places = [catalog.replica(TopicPartition(each.topic, each.partition)).directory for each in ranges]
        return [FilePartition(each, str(place)) for each, place in zip(ranges, places, strict=True)]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        # Where there are no partitions at all, Spark reads one that is None.
        if not isinstance(partition, FilePartition):
            return iter(())
        batches = read_files(self._options, Path(partition.directory), partition.wanted)
        return arrow_batches(
            batches,
            partition.wanted,
            include_headers=self._options.include_headers,
            check_crcs=self._options.config.check_crcs,
            record_bytes_max=self._options.config.max_record_bytes,
            policy=LossPolicy(self._options.fail_on_data_loss),
        )


def read_files(options: SourceOptions, directory: Path, wanted: OffsetRange) -> Iterator[BatchView]:
    """The batches of a range that a reader may see."""
    tp, policy = TopicPartition(wanted.topic, wanted.partition), LossPolicy(options.fail_on_data_loss)
    # Before the files are mapped: indexes that are deleted meanwhile cannot be read any more, as mapped files can.
    aborted = aborted_transactions(directory, wanted.start, wanted.stop) if options.config.reads_committed else None
    segments = map_segments(directory, wanted.start, wanted.stop)
    first = segments[0].segment.base_offset if segments else wanted.stop
    reached = start = policy.clip(tp, wanted.start, min(first, wanted.stop))
    visibility = Visibility(aborted)
    for batch in iter_batches(segments, start, wanted.stop):
        reached = batch.next_offset
        if visibility.shows(batch) and batch.record_count:
            yield batch
    # Compaction may have left nothing of the end of a range, but never takes the end of a log.
    if reached < wanted.stop:
        end = find_end(directory, wanted.stop)
        if end < wanted.stop:
            policy.report(f"{directory} ends at {end}, before {wanted}")
