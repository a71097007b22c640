"""What Spark calls to write: in tasks `write`, on the driver `commit` or `abort`.

With `delivery=at_least_once` a task's rows are there when `write` returns, and there is nothing left to be committed. A
task that is run again writes them again.

With `delivery=exactly_once` a query's rows are seen once (`exactly_once`), written by the query itself or inside of its
foreachBatch. A batch outside of a query has no checkpoint: its transactions are ended one after the other, and nothing
remembers which.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from minikafka.spark_jobs.errors import MinikafkaSparkError
from minikafka.spark_jobs.options.sink import Delivery, SinkOptions
from minikafka.spark_jobs.sink.exactly_once import (
    ExactlyOnceSink,
    TaskOfQuery,
    Written,
    abort_all,
    link_for,
    transactions_of,
    write_in_transaction,
)
from minikafka.spark_jobs.sink.sending import forget_sender, sender_for
from minikafka.spark_jobs.sink.transactions import check_open, end


def write_at_least_once(options: SinkOptions, batches: Iterator[Any]) -> Written:
    sender = sender_for(options.config)
    try:
        return Written(sender.send(batches, options.topic))
    except BaseException:
        forget_sender(options.config)
        raise


class BatchSink(ExactlyOnceSink, DataSourceArrowWriter):
    """`df.write.format("minikafka")`."""

    def __init__(self, options: SinkOptions) -> None:
        self._job_id = uuid.uuid4().hex
        super().__init__(options, options.write_id or self._job_id)

    def write(self, iterator: Iterator[Any]) -> Written:
        if self._options.delivery is Delivery.AT_LEAST_ONCE:
            return write_at_least_once(self._options, iterator)
        context = _context()
        task = TaskOfQuery.of(context)
        if task is None:
            return write_in_transaction(self._options, f"spark-{self._job_id}-{context.partitionId()}", iterator)
        return self.write_once(task.of_write(self._options.write_id), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if any(isinstance(message, Written) and message.query_id for message in messages):
            self.commit_once(messages)
            return
        transactions = transactions_of(messages)
        if transactions:
            link = link_for(self._options.config)
            check_open(link, transactions)
            end(link, transactions, committed=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if any(isinstance(message, Written) and message.query_id for message in messages):
            self.abort_once(messages)
        else:
            abort_all(self._options, messages)


class StreamSink(ExactlyOnceSink, DataSourceStreamArrowWriter):
    """`df.writeStream.format("minikafka")`."""

    def write(self, iterator: Iterator[Any]) -> Written:
        if self._options.delivery is Delivery.AT_LEAST_ONCE:
            return write_at_least_once(self._options, iterator)
        task = TaskOfQuery.of(_context())
        if task is None:
            raise MinikafkaSparkError("this Spark does not say which batch a task writes, as exactly_once needs")
        return self.write_once(task, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.commit_once(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.abort_once(messages)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context
