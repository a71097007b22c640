"""The options of writing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from minikafka.spark_jobs.errors import BadOption
from minikafka.spark_jobs.options.kafka import PREFIX, WriterConfig, writer_config
from minikafka.spark_jobs.options.names import Use, check_names
from minikafka.spark_jobs.options.values import OptionValues

DECISION_TOPIC: Final = "__spark_decisions"

# It becomes a part of transactional ids, where a number would be taken for a task.
_WRITE_ID: Final = re.compile("[A-Za-z][A-Za-z0-9_]*")


class Delivery(Enum):
    """What a reader sees of rows that had to be written again after a failure."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


@dataclass(frozen=True)
class SinkOptions:
    """All of it."""

    config: WriterConfig
    topic: str | None
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    decision_topic: str = DECISION_TOPIC
    write_id: str | None = None
    """Which write of a batch of foreachBatch this is."""
    checkpoint: str | None = None
    """Where the query keeps how far it has come, if it was given as an option."""


def parse_sink_options(given: Mapping[str, str], use: Use) -> SinkOptions:
    """BadOption for whatever is wrong."""
    values = OptionValues(given)
    check_names(values.names(), use)
    delivery = Delivery(values.choice("delivery", [each.value for each in Delivery], Delivery.AT_LEAST_ONCE.value))
    for name in ("decisionTopic", "writeId"):
        if name.lower() in values.names() and delivery is not Delivery.EXACTLY_ONCE:
            raise BadOption(f"{name} needs delivery=exactly_once")
    if values.flag("asyncProgressTrackingEnabled", False):
        raise BadOption("asyncProgressTrackingEnabled cannot be true: Spark offers it to its own sinks only")
    write_id = values.text("writeId")
    if write_id is not None and not _WRITE_ID.fullmatch(write_id):
        raise BadOption(f"writeId must be a letter, and then letters, digits and underscores, not {write_id!r}")
    # Headers are written where there is a column of them; the option is there for programs that set it.
    values.flag("includeHeaders", False)
    return SinkOptions(
        config=writer_config(values.with_prefix(PREFIX)),
        topic=values.text("topic"),
        delivery=delivery,
        decision_topic=values.text("decisionTopic", DECISION_TOPIC) or DECISION_TOPIC,
        write_id=write_id,
        checkpoint=values.text("checkpointLocation"),
    )
