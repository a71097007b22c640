"""What the values of a broker must be together, beyond what each of them must be alone."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from minikafka.broker.config.errors import quoted
from minikafka.broker.config.settings import Settings
from minikafka.broker.config.values import Value, split

_CODEC_MAX: Final = 4
_DEDUPE_BYTES_MIN: Final = 1 << 20
_REQUEST_BYTES_MIN: Final = 1 << 10
_OVERRIDE: Final = r"([0-9A-Za-z._%:-]+):([0-9]{1,10})"


class Rule(NamedTuple):
    """Something that holds or does not, the keys to blame, and what to do about it."""

    holds: bool
    names: tuple[str, ...]
    what: str


def check_settings(settings: Settings, defaults: Mapping[str, Value]) -> None:
    """Raise one ConfigError for the first rule that is broken; `defaults` are those of topics."""
    for rule in rules(settings, defaults):
        if not rule.holds:
            raise settings.error(rule.names, rule.what)


def rules(settings: Settings, defaults: Mapping[str, Value]) -> Iterator[Rule]:
    yield from _identity(settings)
    yield from _logs(settings, defaults)
    yield from _replication(settings)
    yield from _network(settings)


def obstacles(settings: Settings) -> Iterator[str]:
    """What Kafka accepts, too, and with which a broker never serves anybody: said at its start."""
    number = settings.number
    if number("socket.request.max.bytes") < _REQUEST_BYTES_MIN:
        yield "socket.request.max.bytes is so small that the controller cannot tell this broker what it leads"
    if number("controller.socket.timeout.ms") <= 0:
        yield "controller.socket.timeout.ms leaves brokers no time to answer the controller"
    if number("max.connections") == 0 and len(split(settings.text("listeners") or "")) <= 1:
        yield "max.connections is 0, so neither clients nor the controller can connect"


def connection_overrides(settings: Settings) -> dict[str, int]:
    """Limits for single addresses, out of `host:count,host:count`; the host may be an IPv6 address."""
    key, found = "max.connections.per.ip.overrides", {}
    for entry in split(settings.text(key) or ""):
        override = re.fullmatch(_OVERRIDE, entry)
        if override is None:
            raise settings.error([key], f"{quoted(entry)} is not host:count")
        found[override[1]] = int(override[2])
    return found


def _identity(settings: Settings) -> Iterator[Rule]:
    number = settings.number
    broker_id, highest = number("broker.id"), number("reserved.broker.max.id")
    yield Rule(
        broker_id == number("node.id"), ("node.id",), "must be the same as broker.id, of which it is another name"
    )
    yield Rule(
        bool(settings.text("zookeeper.connect")),
        ("zookeeper.connect",),
        "must be the address of ZooKeeper, as in localhost:2181",
    )
    if settings.value("broker.id.generation.enable"):
        what = f"must be from 0 to reserved.broker.max.id, which is {highest}, or -1 to have one given out"
        yield Rule(-1 <= broker_id <= highest, ("broker.id", "node.id"), what)
    else:
        what = "must be at least 0, as broker.id.generation.enable is false"
        yield Rule(broker_id >= 0, ("broker.id", "node.id"), what)


def _logs(settings: Settings, defaults: Mapping[str, Value]) -> Iterator[Rule]:
    number = settings.number
    segment_ms, jitter_ms, retention_ms = (
        _number(defaults, name) for name in ("segment.ms", "segment.jitter.ms", "retention.ms")
    )
    yield Rule(segment_ms >= 1, ("log.roll.ms", "log.roll.hours"), "must be at least 1")
    yield Rule(jitter_ms >= 0, ("log.roll.jitter.ms", "log.roll.jitter.hours"), "must not be negative")
    units = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    yield Rule(retention_ms != 0, units, "must be at least 1, or -1 to keep everything")
    threads = number("log.cleaner.threads")
    yield Rule(threads >= 1, ("log.cleaner.threads",), "must be at least 1")
    yield Rule(
        threads < 1 or number("log.cleaner.dedupe.buffer.size") // threads > _DEDUPE_BYTES_MIN,
        ("log.cleaner.dedupe.buffer.size", "log.cleaner.threads"),
        "log.cleaner.dedupe.buffer.size must be more than 1 MiB for each of log.cleaner.threads",
    )
    low_ms, high_ms = (_number(defaults, name) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    names = ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
    yield Rule(low_ms <= high_ms, names, f"the least lag of compaction, {low_ms}, is above the most, {high_ms}")
    codec = number("offsets.topic.compression.codec")
    what = "must be 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)"
    yield Rule(0 <= codec <= _CODEC_MAX, ("offsets.topic.compression.codec",), what)


def _replication(settings: Settings) -> Iterator[Rule]:
    wait = "replica.fetch.wait.max.ms"
    for other in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        limit_ms = settings.number(other)
        what = f"{wait} must not be above {other}, which is {limit_ms}"
        yield Rule(settings.number(wait) <= limit_ms, (wait, other), what)


def _network(settings: Settings) -> Iterator[Rule]:
    number = settings.number
    queued, largest = number("queued.max.request.bytes"), number("socket.request.max.bytes")
    yield Rule(
        queued <= 0 or queued >= largest,
        ("queued.max.request.bytes", "socket.request.max.bytes"),
        f"queued.max.request.bytes must have room for one request of socket.request.max.bytes, {largest}",
    )
    yield Rule(
        number("max.connections.per.ip") > 0 or bool(connection_overrides(settings)),
        ("max.connections.per.ip",),
        "may be 0 only if max.connections.per.ip.overrides lets somebody in",
    )
    idle_ms, delay_ms = number("connections.max.idle.ms"), number("connection.failed.authentication.delay.ms")
    yield Rule(
        idle_ms < 0 or delay_ms < idle_ms,
        ("connections.max.idle.ms", "connection.failed.authentication.delay.ms"),
        f"connections.max.idle.ms must be above connection.failed.authentication.delay.ms, which is {delay_ms}",
    )


def _number(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value
