"""Rows of a query that readers of committed records see once, whichever run of it writes them, and how often.

A task writes in a transaction and leaves it open. The driver looks whether all of a batch can be committed, writes its
decision down (`decisions`), and ends them. Between the first and the last, readers see a part of the batch.

From the moment that a decision may have been written, only a commit may end the transactions of a batch. If the commit
fails, they stay open for the next run of the batch, which finishes them if there is a decision.

The first tasks of a run write that it has begun, so that no older run can decide any more, and abort what older runs
have left open. No two attempts share a transactional id: an attempt that was given up ends nobody's transaction but its
own. That needs spark.speculation to be off, so that of the attempts of a task the last one is committed. Known weak
spot: Python does not learn the attempts of a stage, so a task that Spark has given up together with its stage, and that
stands still just before it asks for its transaction, until its successor's is decided, still ends that one. The query
then fails with TransactionLost.

Spark makes the sink again for each micro-batch, in tasks as on the driver, so it remembers nothing.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from minikafka.client.config import ClientConfig
from minikafka.spark_jobs.errors import BadCheckpoint, MinikafkaSparkError, QuerySuperseded, TransactionLost
from minikafka.spark_jobs.link import Link, link_to
from minikafka.spark_jobs.options.kafka import ReaderConfig, WriterConfig
from minikafka.spark_jobs.options.sink import SinkOptions
from minikafka.spark_jobs.sink.decisions import (
    Decision,
    Decisions,
    QueryState,
    Run,
    committed_attempts,
    decisions_for,
    run_number_of,
    transactional_id,
    write_decision,
    write_run,
)
from minikafka.spark_jobs.sink.sending import Sender
from minikafka.spark_jobs.sink.transactions import Transaction, abort_open, check_open, end

# Names that Spark gives its tasks; not documented, and the same in all versions so far.
_BATCH_PROPERTY: Final = "streaming.sql.batchId"
_QUERY_PROPERTY: Final = "sql.streaming.queryId"
# A query runs its jobs in a group that is named after the run.
_RUN_PROPERTY: Final = "spark.jobGroup.id"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task returns to the driver."""

    rows: int
    query_id: str = ""
    transaction: Transaction | None = None
    """None without rows, or if they were written without a transaction."""
    is_decided: bool = False
    """The batch was decided to be committed in an earlier run, and the rows were not written again."""
    run: str = ""
    batch_id: int = -1


@dataclass(frozen=True)
class TaskOfQuery:
    """Which part of which batch a task writes, in which run."""

    query: str
    run: str
    batch_id: int
    task: int
    attempt: int

    @classmethod
    def of(cls, context: TaskContext) -> TaskOfQuery | None:
        """None outside of a streaming query."""
        query, batch, run = (
            context.getLocalProperty(name) for name in (_QUERY_PROPERTY, _BATCH_PROPERTY, _RUN_PROPERTY)
        )
        if query is None or batch is None or run is None:
            return None
        return cls(query, run, int(batch), context.partitionId(), context.attemptNumber())

    def of_write(self, write_id: str | None) -> TaskOfQuery:
        """The same for one of several writes of a batch, which are decided about each for itself."""
        return self if write_id is None else replace(self, query=f"{self.query}-{write_id}")


def link_for(config: WriterConfig) -> Link[ReaderConfig]:
    """A link to the cluster that a sink writes to."""
    common = {field.name: getattr(config, field.name) for field in fields(ClientConfig)}
    return link_to(ReaderConfig(**{**common, "allow_auto_create_topics": False}))


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
    return [
        message.transaction for message in messages if isinstance(message, Written) and message.transaction is not None
    ]


def abort_all(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Abort what can be aborted; what cannot was fenced, or will time out."""
    transactions = transactions_of(messages)
    if transactions:
        with suppress(TransactionLost):
            end(link_for(options.config), transactions, committed=False)


class ExactlyOnceSink:
    """See the module's description. `write_id` tells apart what foreachBatch writes in one batch."""

    def __init__(self, options: SinkOptions, write_id: str = "") -> None:
        self._options = options
        self._write_id = write_id
        # Made on the driver; tasks get a copy.
        driver, checkpoint = _driver_process(), options.checkpoint
        self._owner = f"{driver}:{checkpoint}" if driver and checkpoint else ""

    def write_once(self, task: TaskOfQuery, rows: Iterator[Any]) -> Written:
        """Called in tasks."""
        state = self._begin_run(task)
        if self._is_decided(state, task.batch_id):
            assert state.last is not None
            if state.last.run == task.run and state.last.write_id != self._write_id:
                raise MinikafkaSparkError(
                    f"batch {task.batch_id} was written already by another write: if one batch is written more than "
                    "once with delivery=exactly_once, each write needs an option writeId of its own"
                )
            count = sum(batch.num_rows for batch in rows)
            return Written(count, task.query, is_decided=True, run=task.run, batch_id=task.batch_id)
        attempt = task.attempt + committed_attempts(state.last, task.run).get(task.task, 0)
        name = transactional_id(task.query, task.task, state.runs[task.run], attempt)
        written = write_in_transaction(self._options, name, rows)
        return replace(written, query_id=task.query, run=task.run, batch_id=task.batch_id)

    def _begin_run(self, task: TaskOfQuery) -> QueryState:
        """What holds for the query. From now on, no earlier run can decide."""
        state = self._decisions().read(task.query)
        if task.run not in state.runs:
            config, topic = self._options.config, self._options.decision_topic
            asyncio.run(write_run(config, topic, task.query, Run(task.run, self._owner)))
            state = self._decisions().read(task.query)
            self._abort_earlier_runs(task.query, state)
        if state.newest_run != task.run:
            raise QuerySuperseded(f"a newer run of the query {task.query} has begun: is it running twice?")
        return state

    def _abort_earlier_runs(self, query: str, state: QueryState) -> None:
        newest = state.runs[state.newest_run]
        self._abort_runs(query, state, lambda number: number < newest)

    def _abort_runs(self, query: str, state: QueryState, is_wanted: Callable[[int], bool]) -> None:
        """Abort what tasks have left open, except for what is decided."""
        decided = state.last.transactions if state.last is not None else ()
        config = self._options.config

        def is_left(name: str) -> bool:
            number = run_number_of(name, query)
            return number is not None and is_wanted(number)

        abort_open(link_for(config), is_left, decided, config.transaction_timeout_ms)

    def commit_once(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Called on the driver, when all tasks have written."""
        written = [message for message in messages if isinstance(message, Written)]
        if any(message.is_decided for message in written):
            self._commit_again(written)
            return
        transactions = tuple(transactions_of(messages))
        if not transactions:
            return
        try:
            self._check(transactions)
            query, run, batch_id = written[0].query_id, written[0].run, written[0].batch_id
            attempts = committed_attempts(self._decisions().last(query), run)
            decision = Decision(batch_id, transactions, run, self._write_id, attempts)
            self._decide(query, decision)
        except TransactionLost:
            # It is not decided, and will not be.
            abort_all(self._options, messages)
            raise
        self._end(transactions)
        if committed_attempts(decision, run) != attempts:
            # Of some task an attempt was given up, and may have left its transaction open.
            state = self._decisions().read(query)
            self._abort_runs(query, state, lambda number: number == state.runs[run])

    def _commit_again(self, written: Sequence[Written]) -> None:
        """The batch was decided in an earlier run: only its transactions may be left to be ended."""
        query, batch_id = written[0].query_id, written[0].batch_id
        if any(message.transaction is not None for message in written):
            raise MinikafkaSparkError(f"batch {batch_id} was decided while it was written: is the query running twice?")
        state = self._decisions().read(query)
        if self._is_decided(state, batch_id):
            assert state.last is not None
            self._end(state.last.transactions)

    def abort_once(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Called when the query is stopped, a task has failed, or the commit itself: then no message is missing.

        Tasks that are stopped return nothing, and are killed before they can abort what they have begun.
        """
        if None not in messages:
            return
        query = self._decisions().owned_by(self._owner)
        if query is not None:
            state = self._decisions().read(query)
            newest = state.runs[state.newest_run]
            self._abort_runs(query, state, lambda number: number == newest)
            return
        written = [message for message in messages if isinstance(message, Written) and message.transaction is not None]
        if written and not self._is_decided(self._decisions().read(written[0].query_id), written[0].batch_id):
            abort_all(self._options, messages)

    def _is_decided(self, state: QueryState, batch_id: int) -> bool:
        """Whether the batch was decided already; BadCheckpoint if a later one was."""
        decided = state.last
        if decided is not None and decided.batch_id > batch_id:
            raise BadCheckpoint(
                f"batch {batch_id} is to be written, but {self._options.decision_topic} says that batch "
                f"{decided.batch_id} of this query was written already: the checkpoint is an older copy. To write its "
                "rows once more, give the query another decisionTopic; to leave them out, use the newer checkpoint."
            )
        return decided is not None and decided.batch_id == batch_id

    def _check(self, transactions: Sequence[Transaction]) -> None:
        check_open(link_for(self._options.config), transactions)

    def _decide(self, query: str, decision: Decision) -> None:
        """Write a decision down. QuerySuperseded unless it counts."""
        state = self._decisions().read(query)
        if state.newest_run == decision.run:
            config, topic = self._options.config, self._options.decision_topic
            asyncio.run(write_decision(config, topic, query, decision, frozenset(state.stale_keys)))
            state = self._decisions().read(query)
        if state.last != decision:
            raise QuerySuperseded(
                f"batch {decision.batch_id} of the query {query} is not committed by this run: a newer run has begun, "
                "or the batch was written by another write"
            )

    def _end(self, transactions: Sequence[Transaction]) -> None:
        end(link_for(self._options.config), transactions, committed=True)

    def _decisions(self) -> Decisions:
        return decisions_for(link_for(self._options.config), self._options.decision_topic)


def _driver_process() -> str:
    """The Java process that this one is a child of, as host and number; empty where that cannot be found out."""
    pid = os.getpid()
    try:
        while pid > 1:
            # The name is in brackets and may hold anything; the state and the parent follow it.
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
            if name == "java":
                return f"{socket.gethostname()}:{pid}"
            pid = int(rest.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return ""
