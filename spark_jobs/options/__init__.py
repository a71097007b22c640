"""Options of `format("minikafka")`: from text to values, all checked before anything is done."""

from minikafka.spark_jobs.options.kafka import ReaderConfig, WriterConfig
from minikafka.spark_jobs.options.names import Use
from minikafka.spark_jobs.options.source import (
    EARLIEST,
    LATEST,
    Bound,
    Limit,
    Pace,
    Selection,
    SourceOptions,
    parse_source_options,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "Bound",
    "Limit",
    "Pace",
    "ReaderConfig",
    "Selection",
    "SourceOptions",
    "Use",
    "WriterConfig",
    "parse_source_options",
]
