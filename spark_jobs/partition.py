"""What a task is told to read: pickled by Spark on the driver, read in a worker."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from minikafka.spark_jobs.planning import OffsetRange


class StreamPartition(InputPartition):
    """Ranges that are read one after the other."""

    def __init__(self, ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(", ".join(map(str, ranges)))
        self.ranges = ranges

    def __repr__(self) -> str:
        return f"<StreamPartition {self.value}>"


class RangePartition(InputPartition):
    """One range, and for a direct scan the directory of the partition's files."""

    def __init__(self, wanted: OffsetRange, directory: str | None = None) -> None:
        super().__init__(str(wanted))
        self.wanted = wanted
        self.directory = directory

    def __repr__(self) -> str:
        return f"<RangePartition {self.wanted}>"
