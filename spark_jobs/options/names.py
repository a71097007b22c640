"""Which options there are, where each may be used, and what to say about those that do not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import Flag, auto
from typing import Final

from minikafka.spark_jobs.errors import BadOption


class Use(Flag):
    """What a data source is used for."""

    BATCH_READ = auto()
    STREAM_READ = auto()
    BATCH_WRITE = auto()
    STREAM_WRITE = auto()

    READ = BATCH_READ | STREAM_READ
    WRITE = BATCH_WRITE | STREAM_WRITE
    ALL = READ | WRITE


OPTIONS: Final[dict[str, Use]] = {
    "subscribe": Use.READ,
    "subscribePattern": Use.READ,
    "assign": Use.READ,
    "startingOffsets": Use.READ,
    "startingTimestamp": Use.READ,
    "startingOffsetsByTimestamp": Use.READ,
    "startingOffsetsByTimestampStrategy": Use.READ,
    "endingOffsets": Use.BATCH_READ,
    "endingTimestamp": Use.BATCH_READ,
    "endingOffsetsByTimestamp": Use.BATCH_READ,
    "failOnDataLoss": Use.READ,
    "minPartitions": Use.READ,
    "maxRecordsPerPartition": Use.READ,
    "includeHeaders": Use.ALL,
    "fetchOffset.numRetries": Use.READ,
    "fetchOffset.retryIntervalMs": Use.READ,
    "kafkaConsumer.pollTimeoutMs": Use.READ,
    "groupIdPrefix": Use.READ,
    "maxOffsetsPerTrigger": Use.STREAM_READ,
    "minOffsetsPerTrigger": Use.STREAM_READ,
    "maxTriggerDelay": Use.STREAM_READ,
    "pollIntervalMs": Use.STREAM_READ,
    "logDirs": Use.BATCH_READ,
    "topic": Use.WRITE,
    "delivery": Use.WRITE,
    "decisionTopic": Use.WRITE,
    "writeId": Use.BATCH_WRITE,
    "asyncProgressTrackingEnabled": Use.STREAM_WRITE,
    "asyncProgressTrackingCheckpointIntervalMs": Use.STREAM_WRITE,
    # What Spark itself adds to the options of a sink.
    "checkpointLocation": Use.STREAM_WRITE,
    "queryName": Use.STREAM_WRITE,
}

_NAMES: Final = {name.lower(): name for name in OPTIONS}

_WORDS: Final = {
    Use.BATCH_READ: "reading a batch",
    Use.STREAM_READ: "reading a stream",
    Use.BATCH_WRITE: "writing a batch",
    Use.STREAM_WRITE: "writing a stream",
}


def check_names(given: Iterable[str], use: Use) -> None:
    """Raise BadOption for the first name that does not exist, or not for this use. `kafka.*` is checked elsewhere."""
    for name in sorted(given):
        if name.startswith("kafka."):
            continue
        known = _NAMES.get(name)
        if known is None:
            raise BadOption(_unknown(name, use))
        if not OPTIONS[known] & use:
            raise BadOption(f"{known} is not for {_WORDS[use]}")


def _unknown(name: str, use: Use) -> str:
    possible = [low for low, known in _NAMES.items() if OPTIONS[known] & use]
    near = difflib.get_close_matches(name, possible, 1, 0.6)
    return f"there is no option {name!r}" + (f"; did you mean {_NAMES[near[0]]}?" if near else "")
