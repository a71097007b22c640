"""What Spark calls to write: in tasks `write`, on the driver `commit` or `abort`.

With `delivery=at_least_once` a task's rows are there when `write` returns, and there is nothing left to be committed. A
task that is run again writes them again.

With `delivery=exactly_once` a task writes in a transaction and leaves it open. Its id is the same whenever the same
part of the query is written, so a task that is run again fences and aborts what it had written before. The driver looks
whether all transactions can be committed, for a stream writes its decision down (`decisions`), and ends them. Between
the first and the last, readers see a part of the batch.

From the moment that a decision may have been written, only a commit may end the transactions of a stream's batch. If
the commit fails, they stay open for the next run of the batch, which finishes them if there is a decision, and fences
them if there is none.

For each micro-batch Spark makes the writer anew, in tasks as on the driver, so it remembers nothing.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from minikafka.client.config import ClientConfig
from minikafka.spark_jobs.errors import BadCheckpoint, MinikafkaSparkError, TransactionLost
from minikafka.spark_jobs.link import Link, link_to
from minikafka.spark_jobs.options.kafka import ReaderConfig, WriterConfig
from minikafka.spark_jobs.options.sink import Delivery, SinkOptions
from minikafka.spark_jobs.sink.decisions import Decision, Decisions, decisions_for, write_decision
from minikafka.spark_jobs.sink.sending import Sender, forget_sender, sender_for
from minikafka.spark_jobs.sink.transactions import Transaction, check_open, end

# Names that Spark gives its tasks; not documented, and the same in all versions so far.
_BATCH_PROPERTY: Final = "streaming.sql.batchId"
_QUERY_PROPERTY: Final = "sql.streaming.queryId"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    rows: int
    query_id: str = ""
    transaction: Transaction | None = None
    """None if there is none: nothing was written, or without one."""
    is_decided: bool = False
    """The batch was decided to be committed in an earlier run, and the rows were not written again."""


def link_for(config: WriterConfig) -> Link[ReaderConfig]:
    """A link to the cluster that a sink writes to."""
    common = {field.name: getattr(config, field.name) for field in fields(ClientConfig)}
    return link_to(ReaderConfig(**{**common, "allow_auto_create_topics": False}))


def write_at_least_once(options: SinkOptions, batches: Iterator[Any]) -> Written:
    sender = sender_for(options.config)
    try:
        return Written(sender.send(batches, options.topic))
    except BaseException:
        forget_sender(options.config)
        raise


def write_in_transaction(options: SinkOptions, name: str, batches: Iterator[Any]) -> Written:
    """Write rows in a transaction that stays open, unless they cannot all be written; none is begun for no rows."""
    sender = Sender(replace(options.config, transactional_id=name))
    try:
        rows = sender.send(batches, options.topic)
        identity = sender.identity
    except BaseException:
        sender.try_abort()
        raise
    finally:
        sender.close()
    return Written(rows, transaction=Transaction(name, identity.producer_id, identity.epoch) if rows else None)


def transactions_of(messages: Sequence[WriterCommitMessage | None]) -> list[Transaction]:
    return [each.transaction for each in messages if isinstance(each, Written) and each.transaction is not None]


def abort_all(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Abort what can be aborted; what cannot was fenced, or will time out."""
    transactions = transactions_of(messages)
    if transactions:
        with suppress(TransactionLost):
            end(link_for(options.config), transactions, committed=False)


class BatchSink(DataSourceArrowWriter):
    """`df.write.format("minikafka")`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._job_id = uuid.uuid4().hex

    def write(self, iterator: Iterator[Any]) -> Written:
        if self._options.delivery is Delivery.AT_LEAST_ONCE:
            return write_at_least_once(self._options, iterator)
        return write_in_transaction(self._options, f"spark-{self._job_id}-{_context().partitionId()}", iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        transactions = transactions_of(messages)
        if transactions:
            link = link_for(self._options.config)
            check_open(link, transactions)
            end(link, transactions, committed=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort_all(self._options, messages)


class StreamSink(DataSourceStreamArrowWriter):
    """`df.writeStream.format("minikafka")`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        if self._options.delivery is Delivery.AT_LEAST_ONCE:
            return write_at_least_once(self._options, iterator)
        context = _context()
        query_id, batch = (context.getLocalProperty(name) for name in (_QUERY_PROPERTY, _BATCH_PROPERTY))
        if query_id is None or batch is None:
            raise MinikafkaSparkError("this Spark does not tell tasks which batch they write, as exactly_once needs")
        if self._is_decided(query_id, int(batch)):
            return Written(sum(each.num_rows for each in iterator), query_id, is_decided=True)
        name = f"spark-{query_id}-{context.partitionId()}"
        return replace(write_in_transaction(self._options, name, iterator), query_id=query_id)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = [each for each in messages if isinstance(each, Written)]
        if any(each.is_decided for each in written):
            self._commit_again(written, batchId)
            return
        transactions = tuple(transactions_of(messages))
        if transactions:
            try:
                self._check(transactions)
            except TransactionLost:
                # Nothing is decided yet, and will not be.
                abort_all(self._options, messages)
                raise
            self._decide(written[0].query_id, Decision(batchId, transactions))
            self._end(transactions)

    def _commit_again(self, written: Sequence[Written], batch_id: int) -> None:
        """The batch was decided in an earlier run: only its transactions may be left to be ended."""
        if any(each.transaction is not None for each in written):
            raise MinikafkaSparkError(f"batch {batch_id} was decided while it was written: is the query running twice?")
        if self._is_decided(written[0].query_id, batch_id):
            decided = self._decisions().last(written[0].query_id)
            assert decided is not None
            self._end(decided.transactions)

    def _is_decided(self, query_id: str, batch_id: int) -> bool:
        """Whether the batch was decided in an earlier run; BadCheckpoint if a later one was."""
        decided = self._decisions().last(query_id)
        if decided is not None and decided.batch_id > batch_id:
            raise BadCheckpoint(
                f"batch {batch_id} is to be written, but {self._options.decision_topic} says that batch "
                f"{decided.batch_id} of this query was written already: the checkpoint is an older copy. To write its "
                "rows once more, give the query another decisionTopic; to leave them out, use the newer checkpoint."
            )
        return decided is not None and decided.batch_id == batch_id

    def _check(self, transactions: Sequence[Transaction]) -> None:
        check_open(link_for(self._options.config), transactions)

    def _decide(self, query_id: str, decision: Decision) -> None:
        asyncio.run(write_decision(self._options.config, self._options.decision_topic, query_id, decision))

    def _end(self, transactions: Sequence[Transaction]) -> None:
        end(link_for(self._options.config), transactions, committed=True)

    def _decisions(self) -> Decisions:
        return decisions_for(link_for(self._options.config), self._options.decision_topic)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Called when a task has failed, or `commit` itself: then no message is missing."""
        written = [each for each in messages if isinstance(each, Written) and each.transaction is not None]
        if written and None in messages and not self._is_decided(written[0].query_id, batchId):
            abort_all(self._options, messages)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context
