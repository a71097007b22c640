"""What a task is told to read: pickled by Spark on the driver, read in a worker."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from minikafka.spark_jobs.planning import OffsetRange


class BrokerPartition(InputPartition):
    """Ranges that are fetched from brokers, one after the other."""

    def __init__(self, ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(", ".join(map(str, ranges)))
        self.ranges = ranges

    def __repr__(self) -> str:
        return f"<BrokerPartition {self.value}>"


class FilePartition(InputPartition):
    """A range that is read from the files in the directory of its partition."""

    def __init__(self, wanted: OffsetRange, directory: str) -> None:
        super().__init__(str(wanted))
        self.wanted = wanted
        self.directory = directory

    def __repr__(self) -> str:
        return f"<FilePartition {self.wanted}>"
