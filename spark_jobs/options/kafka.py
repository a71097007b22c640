"""Options that start with `kafka.`: what they are called without it, they are called in Kafka and in our client.

Every option of Kafka's clients is known. Refused are those that Spark's own source refuses too, and those that ask for
protection that cannot be given; what changes nothing here is named in one warning.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Final, TypeVar

from minikafka.client.config import ClientConfig
from minikafka.client.errors import ConfigError
from minikafka.client.options import kafka_names, option
from minikafka.client.producer.config import ProducerConfig
from minikafka.protocol.records import RECORD_BYTES_MAX
from minikafka.spark_jobs.errors import BadOption

PREFIX: Final = "kafka."

ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")

_PROTECTION: Final = "it asks for protection that cannot be given here; docs/spark.md says what can"
REFUSED_ALWAYS: Final = {
    "sasl.jaas.config": "JAAS is Java's; use kafka.sasl.mechanism, kafka.sasl.username and kafka.sasl.password",
    **dict.fromkeys(
        ("ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type", "ssl.truststore.certificates"),
        "trust stores are Java's; kafka.ssl.ca.location says where a PEM file is",
    ),
    **dict.fromkeys(
        (
            "ssl.keystore.location",
            "ssl.keystore.password",
            "ssl.keystore.type",
            "ssl.keystore.key",
            "ssl.keystore.certificate.chain",
        ),
        "key stores are Java's; kafka.ssl.certificate.location and kafka.ssl.key.location say where PEM files are",
    ),
    **dict.fromkeys(
        (
            "security.providers",
            "ssl.cipher.suites",
            "ssl.enabled.protocols",
            "ssl.engine.factory.class",
            "ssl.provider",
            "sasl.client.callback.handler.class",
            "sasl.kerberos.service.name",
            "sasl.login.callback.handler.class",
            "sasl.login.class",
            "sasl.oauthbearer.token.endpoint.url",
            "sasl.oauthbearer.jwks.endpoint.url",
        ),
        _PROTECTION,
    ),
    "interceptor.classes": "interceptors are Java classes",
}
REFUSED_READING: Final = {
    **REFUSED_ALWAYS,
    "auto.offset.reset": "startingOffsets says where to start",
    "enable.auto.commit": "offsets are kept in the checkpoint and never committed to a group",
    "key.deserializer": "keys are always bytes; cast them in the query",
    "value.deserializer": "values are always bytes; cast them in the query",
}
REFUSED_WRITING: Final = {
    **REFUSED_ALWAYS,
    "key.serializer": "keys are bytes or text",
    "value.serializer": "values are bytes or text",
    "transactional.id": "the sink chooses it; delivery=exactly_once switches transactions on",
}

# Options of Kafka's clients, 3.9, that change nothing here. Spark hands them on, so programs have them.
IGNORED_ALWAYS: Final = (
    "auto.include.jmx.reporter",
    "client.dns.lookup",
    "config.providers",
    "enable.metrics.push",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "receive.buffer.bytes",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)
IGNORED_READING: Final = (
    *IGNORED_ALWAYS,
    "auto.commit.interval.ms",
    "exclude.internal.topics",
    "fetch.max.bytes",
    "fetch.min.bytes",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "max.poll.records",
    "partition.assignment.strategy",
    "session.timeout.ms",
)
IGNORED_WRITING: Final = (
    *IGNORED_ALWAYS,
    "acks",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "enable.idempotence",
    "metadata.max.idle.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "partitioner.class",
    "partitioner.ignore.keys",
    "retries",
)

log: Final = logging.getLogger(__name__)

# Options are read again for every micro-batch.
warned: Final[set[str]] = set()

_C = TypeVar("_C", bound=ClientConfig)


@dataclass(frozen=True, kw_only=True)
class ReaderConfig(ClientConfig):
    """What reading ranges needs to know, beside what every client does. Topics are never created by asking for them."""

    allow_auto_create_topics: bool = option(False)
    default_api_timeout_ms: int = option(60_000, low=1)
    fetch_max_wait_ms: int = option(500, "fetch.max.wait.ms", "fetch.wait.max.ms", low=0)
    max_partition_fetch_bytes: int = option(
        4 << 20, "max.partition.fetch.bytes", "fetch.message.max.bytes", "message.max.bytes", low=1
    )
    """How much is asked for at a time. The next answer is on its way while one is read, so up to two are in memory."""
    max_record_bytes: int = option(RECORD_BYTES_MAX, "max.record.bytes", low=1)
    """Larger records are not read: an error, or with failOnDataLoss=false a warning. Compressed ones only."""
    check_crcs: bool = option(True, "check.crcs")
    isolation_level: str = option("read_uncommitted", choices=ISOLATION_LEVELS)
    group_id: str | None = option(None)
    """Accepted for programs that set it; no group is joined."""
    client_rack: str | None = option(None)
    """Sent with requests, so that a broker may send the reader to a replica that is near (KIP-392)."""

    @property
    def reads_committed(self) -> bool:
        return self.isolation_level == "read_committed"


@dataclass(frozen=True, kw_only=True)
class WriterConfig(ProducerConfig):
    """What the sink needs to know. A transaction that nobody ends holds readers of committed records up for so long."""

    allow_auto_create_topics: bool = option(True)
    transaction_timeout_ms: int = option(180_000, low=1)


def reader_config(given: Mapping[str, str], *, bootstrap_needed: bool = True) -> ReaderConfig:
    return _config(ReaderConfig, _without_ignored(given, IGNORED_READING), REFUSED_READING, bootstrap_needed)


def writer_config(given: Mapping[str, str]) -> WriterConfig:
    return _config(WriterConfig, _without_ignored(given, IGNORED_WRITING), REFUSED_WRITING, True)


def _without_ignored(given: Mapping[str, str], ignored: Collection[str]) -> dict[str, str]:
    """What is left without options that change nothing; one warning names those."""
    without_effect = {name for name in given if name in ignored}
    if without_effect - warned:
        warned.update(without_effect)
        names = ", ".join(f"{PREFIX}{name}" for name in sorted(without_effect))
        log.warning("these options have no effect here: %s", names)
    return {name: value for name, value in given.items() if name not in without_effect}


def is_known(cls: type[ClientConfig], name: str) -> bool:
    """Whether a class has an option, by any of its names in Kafka."""
    return any(name.lower() in kafka_names(field) for field in fields(cls))


def _config(cls: type[_C], given: Mapping[str, str], refused: Mapping[str, str], bootstrap_needed: bool) -> _C:
    for name in sorted(given):
        if name in refused:
            raise BadOption(f"{PREFIX}{name} cannot be set: {refused[name]}")
    if bootstrap_needed and "bootstrap.servers" not in given:
        raise BadOption("kafka.bootstrap.servers is missing: it says where brokers are, as host:port,host:port")
    try:
        return cls.from_config(given)
    except ConfigError as error:
        raise BadOption(f"in the options that start with {PREFIX}: {error}") from None
