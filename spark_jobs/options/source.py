"""The options of reading, checked as a whole: what to read, where to begin and end, and how much at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from minikafka.client.structs import TopicPartition
from minikafka.spark_jobs.errors import BadOption
from minikafka.spark_jobs.offsets import Positions, parse_assignment, parse_positions
from minikafka.spark_jobs.options.kafka import PREFIX, ReaderConfig, reader_config
from minikafka.spark_jobs.options.names import Use, check_names
from minikafka.spark_jobs.options.values import OptionValues

LATEST: Final = -1
EARLIEST: Final = -2
"""In the place of offsets, as in Kafka."""

_MAX_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000


@dataclass(frozen=True)
class Selection:
    """Which partitions to read: exactly one of these is not empty."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()


class Bound(Enum):
    """How the beginning or end of reading is given."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSETS = auto()
    TIMESTAMP = auto()
    TIMESTAMPS = auto()


@dataclass(frozen=True)
class Limit:
    """The beginning or end of reading, and the option that says so."""

    bound: Bound
    option: str
    positions: Positions | None = None
    """Offsets or timestamps by partition; offsets may be `LATEST` and `EARLIEST`."""
    timestamp_ms: int = 0


@dataclass(frozen=True)
class Pace:
    """How much a micro-batch may hold, and how much it must."""

    offsets_max: int | None = None
    offsets_min: int | None = None
    delay_ms_max: int = _MAX_TRIGGER_DELAY_MS
    poll_interval_ms: int = 100
    """How often a query that has nothing to do asks whether there is something new."""


@dataclass(frozen=True)
class SourceOptions:
    """All of it."""

    config: ReaderConfig
    task_config: ReaderConfig
    """The same for tasks, which may have another time to wait for records."""
    selection: Selection
    starting: Limit
    ending: Limit
    latest_if_no_later_record: bool = False
    """Where no record is at or after a starting timestamp: begin at the end, instead of failing."""
    fail_on_data_loss: bool = True
    include_headers: bool = False
    partitions_min: int | None = None
    records_per_partition_max: int | None = None
    offset_retries: int = 3
    offset_retry_interval_ms: int = 10
    pace: Pace = Pace()
    log_dirs: tuple[str, ...] = ()


def parse_source_options(given: Mapping[str, str], use: Use) -> SourceOptions:
    """BadOption for whatever is wrong."""
    values = OptionValues(given)
    check_names(values.names(), use)
    log_dirs = _words(values, "logDirs")
    is_stream = use is Use.STREAM_READ
    starting = _limit(values, "starting", Bound.LATEST if is_stream else Bound.EARLIEST)
    ending = _limit(values, "ending", Bound.LATEST)
    _check_limits(starting, ending, is_stream)
    retries = values.whole("fetchOffset.numRetries", 3, low=0)
    config = _reader_config(values, bool(log_dirs))
    poll_timeout_ms = values.number("kafkaConsumer.pollTimeoutMs")
    return SourceOptions(
        config=config,
        task_config=config if poll_timeout_ms is None else replace(config, default_api_timeout_ms=poll_timeout_ms),
        selection=_selection(values),
        starting=starting,
        ending=ending,
        latest_if_no_later_record=_is_lenient(values),
        fail_on_data_loss=values.flag("failOnDataLoss", True),
        include_headers=values.flag("includeHeaders", False),
        partitions_min=values.number("minPartitions"),
        records_per_partition_max=values.number("maxRecordsPerPartition"),
        offset_retries=retries,
        offset_retry_interval_ms=values.whole("fetchOffset.retryIntervalMs", 10, low=0),
        pace=_pace(values),
        log_dirs=log_dirs,
    )


def _reader_config(values: OptionValues, has_log_dirs: bool) -> ReaderConfig:
    kafka = values.with_prefix(PREFIX)
    if has_log_dirs and "bootstrap.servers" in kafka:
        raise BadOption("only one of logDirs, kafka.bootstrap.servers can be given")
    return reader_config(kafka, bootstrap_needed=not has_log_dirs)


def _selection(values: OptionValues) -> Selection:
    name = values.one_of(("subscribe", "subscribePattern", "assign"))
    if name is None:
        raise BadOption("what to read is missing: one of subscribe, subscribePattern and assign")
    text = values.text(name) or ""
    if name == "subscribe":
        return Selection(topics=tuple(sorted({*_words(values, name)})))
    if name == "assign":
        return Selection(partitions=parse_assignment(name, text))
    try:
        re.compile(text)
    except re.error as error:
        raise BadOption(f"{name} is no regular expression (Python's, not Java's): {error}") from None
    return Selection(pattern=text)


def _words(values: OptionValues, name: str) -> tuple[str, ...]:
    text = values.text(name)
    if text is None:
        return ()
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise BadOption(f"{name} names nothing: {text!r}")
    return words


def _limit(values: OptionValues, which: str, default: Bound) -> Limit:
    """As in Spark's own source, a timestamp counts more than timestamps by partition, and these more than offsets."""
    offsets, by_timestamp = f"{which}Offsets", f"{which}OffsetsByTimestamp"
    name = values.first_of((f"{which}Timestamp", by_timestamp, offsets))
    if name is None:
        return Limit(default, offsets)
    text = values.text(name) or ""
    if name == by_timestamp:
        return Limit(Bound.TIMESTAMPS, name, parse_positions(name, text, low=0))
    if name != offsets:
        return Limit(Bound.TIMESTAMP, name, timestamp_ms=values.whole(name, 0, low=0))
    if text.lower() in ("earliest", "latest"):
        return Limit(Bound[text.upper()], name)
    return Limit(Bound.OFFSETS, name, parse_positions(name, text, low=EARLIEST))


def _check_limits(starting: Limit, ending: Limit, is_stream: bool) -> None:
    if ending.bound is Bound.EARLIEST or EARLIEST in (ending.positions or {}).values():
        raise BadOption("endingOffsets cannot be earliest (-2): there would be nothing to read")
    if not is_stream and (starting.bound is Bound.LATEST or LATEST in (starting.positions or {}).values()):
        raise BadOption("startingOffsets cannot be latest (-1) for a batch: there would be nothing to read")


def _is_lenient(values: OptionValues) -> bool:
    return values.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error") == "latest"


def _pace(values: OptionValues) -> Pace:
    most, least = values.number("maxOffsetsPerTrigger"), values.number("minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise BadOption(f"minOffsetsPerTrigger ({least}) is more than maxOffsetsPerTrigger ({most})")
    return Pace(
        offsets_max=most,
        offsets_min=least,
        delay_ms_max=values.duration_ms("maxTriggerDelay", _MAX_TRIGGER_DELAY_MS),
        poll_interval_ms=values.whole("pollIntervalMs", 100, low=0),
    )
