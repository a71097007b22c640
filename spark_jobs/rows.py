"""From batches to Arrow: the same for batches that came from a broker and for those that lie in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records import BatchView, read_columns
from minikafka.spark_jobs.arrow import ArrowBatches, Rows
from minikafka.spark_jobs.errors import LogNotReadable
from minikafka.spark_jobs.planning import OffsetRange


def arrow_batches(
    batches: Iterable[BatchView], wanted: OffsetRange, *, include_headers: bool, check_crcs: bool
) -> Iterator[Any]:
    """Arrow batches of the records of a range. The first and the last batch may reach over its ends."""
    made = ArrowBatches(wanted.topic, wanted.partition, include_headers=include_headers)
    for batch in batches:
        try:
            if check_crcs:
                batch.check_crc()
            rows = _rows(batch, wanted)
        except CorruptRecord as error:
            where = f"{wanted.topic}-{wanted.partition} at offset {batch.base_offset}"
            raise LogNotReadable(f"the batch of {where} is damaged: {error}") from error
        if rows.size:
            yield from made.add(rows)
    yield from made.flush()


def _rows(batch: BatchView, wanted: OffsetRange) -> Rows:
    columns = read_columns(batch)
    start, stop = 0, len(columns)
    if batch.base_offset < wanted.start or batch.next_offset > wanted.stop:
        offsets = np.asarray(columns.offsets, np.int64)
        start, stop = (int(each) for each in np.searchsorted(offsets, [wanted.start, wanted.stop]))
    return Rows(columns, start, stop, int(batch.timestamp_type))
