"""The options of writing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from minikafka.spark_jobs.errors import BadOption
from minikafka.spark_jobs.options.kafka import PREFIX, WriterConfig, writer_config
from minikafka.spark_jobs.options.names import Use, check_names
from minikafka.spark_jobs.options.values import OptionValues

DECISION_TOPIC: Final = "__spark_decisions"


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


def parse_sink_options(given: Mapping[str, str], use: Use) -> SinkOptions:
    """BadOption for whatever is wrong."""
    values = OptionValues(given)
    check_names(values.names(), use)
    delivery = Delivery(values.choice("delivery", [each.value for each in Delivery], Delivery.AT_LEAST_ONCE.value))
    if "decisiontopic" in values.names() and delivery is not Delivery.EXACTLY_ONCE:
        raise BadOption("decisionTopic needs delivery=exactly_once")
    # Headers are written where there is a column of them; the option is there for programs that set it.
    values.flag("includeHeaders", False)
    return SinkOptions(
        config=writer_config(values.with_prefix(PREFIX)),
        topic=values.text("topic"),
        delivery=delivery,
        decision_topic=values.text("decisionTopic", DECISION_TOPIC) or DECISION_TOPIC,
    )
