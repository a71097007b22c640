"""What can go wrong between Spark and the topics, each as one error that says what to do about it."""

from __future__ import annotations


class MinikafkaSparkError(Exception):
    """The base of all of them."""


class BadOption(MinikafkaSparkError, ValueError):
    """An option does not exist, has an impossible value, or contradicts another one."""


class DataLoss(MinikafkaSparkError):
    """Records that the query should read are not there any more."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. To go on without what is missing, set failOnDataLoss to false; "
            "to start over, use another checkpoint location."
        )


class BadCheckpoint(MinikafkaSparkError):
    """The checkpoint holds offsets that this source did not write."""


class LogNotReadable(MinikafkaSparkError):
    """Files of a log directory are missing, damaged, or in the middle of a change."""


class BadColumns(MinikafkaSparkError):
    """The rows to be written have columns that cannot be written."""


class TransactionLost(MinikafkaSparkError):
    """The records of a task cannot be committed: its transaction was ended by somebody else, or took too long."""


class QuerySuperseded(TransactionLost):
    """A newer run of the same query has begun, so this one commits nothing any more."""
