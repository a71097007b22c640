"""From batches to Arrow: the same for batches that came from a broker and for those that lie in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from minikafka.protocol.errors import CorruptRecord, RecordTooLarge
from minikafka.protocol.records import RECORD_BYTES_MAX, BatchView, RecordColumns, iter_columns
from minikafka.spark_jobs.arrow import ArrowBatches, Rows
from minikafka.spark_jobs.catalog import LossPolicy
from minikafka.spark_jobs.errors import LogNotReadable
from minikafka.spark_jobs.planning import OffsetRange


def arrow_batches(
    batches: Iterable[BatchView],
    wanted: OffsetRange,
    *,
    include_headers: bool,
    check_crcs: bool,
    record_bytes_max: int = RECORD_BYTES_MAX,
    policy: LossPolicy | None = None,
) -> Iterator[Any]:
    """Arrow batches of the records of a range. The first and the last batch may reach over its ends.

    Batches may inflate to any size; a record above the limit is for the policy to fail for, or to leave out.
    """
    made = ArrowBatches(wanted.topic, wanted.partition, include_headers=include_headers)
    on_too_large = _TooLarge(wanted, policy or LossPolicy(True))
    for batch in batches:
        try:
            if check_crcs:
                batch.check_crc()
            for columns in iter_columns(batch, record_bytes_max, on_too_large):
                rows = _rows(batch, columns, wanted)
                if rows.size:
                    yield from made.add(rows)
        except CorruptRecord as error:
            where = f"{wanted.topic}-{wanted.partition} at offset {batch.base_offset}"
            raise LogNotReadable(f"the batch of {where} is damaged: {error}") from error
    yield from made.flush()


class _TooLarge:
    """Reports records of a range that are too large to be read."""

    def __init__(self, wanted: OffsetRange, policy: LossPolicy) -> None:
        self._wanted = wanted
        self._policy = policy

    def __call__(self, error: RecordTooLarge) -> None:
        wanted = self._wanted
        if wanted.start <= error.offset < wanted.stop:
            self._policy.report(
                f"the record of {wanted.topic}-{wanted.partition} at offset {error.offset} takes {error.size} bytes, "
                f"more than the {error.limit} of kafka.max.record.bytes"
            )


def _rows(batch: BatchView, columns: RecordColumns, wanted: OffsetRange) -> Rows:
    start, stop = 0, len(columns)
    if batch.base_offset < wanted.start or batch.next_offset > wanted.stop:
        offsets = np.asarray(columns.offsets, np.int64)
        start, stop = (int(each) for each in np.searchsorted(offsets, [wanted.start, wanted.stop]))
    return Rows(columns, start, stop, int(batch.timestamp_type))
