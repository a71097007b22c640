"""`format("ready")`: rows that need no reading, as columns made once and sliced. What Spark's side alone can take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from minikafka.spark_jobs.schema import DDL

_ROWS = 8192


class Numbered(InputPartition):
    """One partition."""

    def __init__(self, number: int, rows: int) -> None:
        super().__init__(number)
        self.number, self.rows = number, rows


class ReadyReader(DataSourceReader):
    """Options: rows, size, partitions."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        count = int(self._options["partitions"])
        return [Numbered(number, int(self._options["rows"]) // count) for number in range(count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Numbered)
        size = int(self._options["size"])
        stamps = np.arange(_ROWS, dtype=np.int64) + 1_700_000_000_000_000
        batch = pa.RecordBatch.from_arrays(
            [
                pa.nulls(_ROWS, pa.binary()),
                pa.array([b"x" * size] * _ROWS, pa.binary()),
                pa.repeat("topic", _ROWS),
                pa.array(np.full(_ROWS, partition.number, np.int32)),
                pa.array(np.arange(_ROWS, dtype=np.int64)),
                pa.array(stamps).view(pa.timestamp("us", tz="UTC")),
                pa.array(np.zeros(_ROWS, np.int32)),
            ],
            names=["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"],
        )
        for start in range(0, partition.rows, _ROWS):
            yield batch.slice(0, min(_ROWS, partition.rows - start))


class ReadySource(DataSource):
    """See the module's description."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyReader(dict(self.options))
