"""The data source with a sink that kills the driver's JVM at a chosen point, as a crash would.

MINIKAFKA_TEST_CRASH is `<point>:<batch>`; the points are those between which a commit can be interrupted:

    before_decision   all tasks have written, nothing is decided
    after_decision    the decision is written down, no transaction is ended
    half              the first transaction is ended
    after_end         all transactions are ended, Spark does not know yet
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from minikafka.spark_jobs.options.names import Use
from minikafka.spark_jobs.options.sink import parse_sink_options
from minikafka.spark_jobs.sink.decisions import Decision
from minikafka.spark_jobs.sink.transactions import Transaction
from minikafka.spark_jobs.sink.writers import StreamSink
from minikafka.spark_jobs.source import MinikafkaDataSource

VARIABLE = "MINIKAFKA_TEST_CRASH"
POINTS = ("before_decision", "after_decision", "half", "after_end")


def kill_jvm() -> None:
    """Kill the Java process that this one belongs to."""
    pid = os.getpid()
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        # The parent's number follows the name, which is in brackets and may hold anything.
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert pid > 1, "there is no JVM above this process"
    os.kill(pid, signal.SIGKILL)
    time.sleep(60)


class CrashingSink(StreamSink):
    """See the module's description."""

    _batch_id = -1

    def _reach(self, point: str) -> None:
        if os.environ.get(VARIABLE) == f"{point}:{self._batch_id}":
            kill_jvm()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._batch_id = batchId
        super().commit(messages, batchId)
        self._reach("after_end")

    def _decide(self, query_id: str, decision: Decision) -> None:
        self._reach("before_decision")
        super()._decide(query_id, decision)
        self._reach("after_decision")

    def _end(self, transactions: Sequence[Transaction]) -> None:
        assert len(transactions) > 1, "half of one is none"
        super()._end(transactions[:1])
        self._reach("half")
        super()._end(transactions[1:])


class CrashingSource(MinikafkaDataSource):
    """`format("crashing")`."""

    @classmethod
    def name(cls) -> str:
        return "crashing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return CrashingSink(parse_sink_options(dict(self.options), Use.STREAM_WRITE))
