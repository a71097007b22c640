"""What stands in ZooKeeper about brokers and the controller: Kafka's paths, and its JSON field by field.

Fields come in the order in which Kafka writes them, so that what both write is the same to the byte. Reading is
lenient as in Kafka: fields that are not known are skipped, older versions are understood.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from minikafka.broker.zookeeper.json_node import BadNode as BadNode
from minikafka.broker.zookeeper.json_node import decode_fields, encode_fields

CLUSTER_ID: Final = "/cluster/id"
BROKER_IDS: Final = "/brokers/ids"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
FEATURES: Final = "/feature"
PRODUCER_IDS: Final = "/latest_producer_id_block"

BROKER_SEQUENCE: Final = "/brokers/seqid"
"""Its version is the last number that was given to a broker without an id."""

PERSISTENT_PATHS: Final = (
    "/consumers",
    BROKER_IDS,
    "/brokers/topics",
    "/config/changes",
    "/admin/delete_topics",
    BROKER_SEQUENCE,
    "/isr_change_notification",
    PRODUCER_IDS,
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
"""What every broker makes at its start, in Kafka's order; those above them come with them."""

PRODUCER_ID_BLOCK_SIZE: Final = 1000
_PRODUCER_ID_MAX: Final = (1 << 63) - 1

_BROKER_VERSION: Final = 5
_CONTROLLER_VERSION: Final = 2
_PRODUCER_IDS_VERSION: Final = 1
_FEATURES_VERSION: Final = 2
_LEVEL_MAX: Final = (1 << 15) - 1
_PLAINTEXT: Final = "PLAINTEXT"
_ENDPOINT: Final = re.compile(r"([^:/]+)://(?:\[([^\]]*)\]|([^\[\]]*)):(-?\d+)")


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


class Endpoint(NamedTuple):
    """An address of a broker, and what is spoken there."""

    listener: str
    protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A broker as it is registered."""

    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    timestamp_ms: int = -1
    host: str = ""
    """Where other brokers find it if it listens on all interfaces, and so its endpoints have no host."""
    previous_epoch: int | None = None
    """The broker epoch since which it has lost nothing that it had: the one it was stopped with in good order, or the
    first one of this process; -1 if it was stopped otherwise (KIP-966). Kafka and older versions do not say."""
    is_durable: bool = False
    """It acknowledges only what is on disk, so however it was stopped, it has lost nothing that counts."""

    def has_kept(self, epoch: int) -> bool:
        """Whether it still has all that it had as the broker of an earlier epoch."""
        previous = self.previous_epoch
        return self.is_durable or previous is None or 0 <= previous <= epoch

    def encode(self) -> bytes:
        # Clients older than listeners look for one host and port, and can do PLAINTEXT only.
        plain = next((each for each in self.endpoints if each.protocol == _PLAINTEXT), None)
        return encode_fields(
            {
                "features": self.features,
                "listener_security_protocol_map": {each.listener: each.protocol for each in self.endpoints},
                "endpoints": [str(each) for each in self.endpoints],
                **({} if self.rack is None else {"rack": self.rack}),
                "jmx_port": -1,
                "port": -1 if plain is None else plain.port,
                "host": None if plain is None else plain.host or self.host,
                "version": _BROKER_VERSION,
                "timestamp": str(self.timestamp_ms),
                **({} if self.previous_epoch is None else {"previous_broker_epoch": self.previous_epoch}),
                **({"durable": True} if self.is_durable else {}),
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        return decode_fields(path, data, cls._from_json)

    @classmethod
    def _from_json(cls, fields: dict[str, Any]) -> Self:
        endpoints: tuple[Endpoint, ...]
        if int(fields["version"]) == 1:
            endpoints = (Endpoint(_PLAINTEXT, _PLAINTEXT, str(fields["host"]), int(fields["port"])),)
        else:
            protocols = dict(fields.get("listener_security_protocol_map") or {})
            endpoints = tuple(_endpoint(each, protocols) for each in fields["endpoints"])
        features = {str(name): _levels(levels) for name, levels in (fields.get("features") or {}).items()}
        plain = next((each for each in endpoints if each.protocol == _PLAINTEXT), None)
        # Where that endpoint has a host of its own, this only repeats it.
        host = "" if plain is None or plain.host else str(fields.get("host") or "")
        previous = fields.get("previous_broker_epoch")
        return cls(
            endpoints,
            fields.get("rack"),
            features,
            int(fields.get("timestamp", -1)),
            host,
            None if previous is None else int(previous),
            bool(fields.get("durable", False)),
        )


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    found = _ENDPOINT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no endpoint")
    # Before listeners had names of their own, they were called after what is spoken there.
    listener, protocol = found[1], protocols.get(found[1], found[1])
    return Endpoint(listener, protocol, found[2] or found[3] or "", int(found[4]))


def encode_cluster_id(cluster_id: str) -> bytes:
    # Of all versions, this one is a text.
    return encode_fields({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    return decode_fields(CLUSTER_ID, data, lambda fields: str(fields["id"]))


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    return encode_fields(
        {
            "version": _CONTROLLER_VERSION,
            "brokerid": broker_id,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": -1,
        }
    )


def decode_controller(data: bytes) -> int:
    """The controller's broker id."""
    return decode_fields(CONTROLLER, data, lambda fields: int(fields["brokerid"]))


@dataclass(frozen=True, slots=True)
class FeaturesNode:
    """The finalized levels of features; its version is their epoch."""

    levels: Mapping[str, int] = field(default_factory=dict)
    is_enabled: bool = True

    def with_levels(self, levels: Mapping[str, int], ours: Collection[str]) -> FeaturesNode:
        """With these levels of our features; others stay as they are."""
        return FeaturesNode({**{name: each for name, each in self.levels.items() if name not in ours}, **levels})

    def encode(self) -> bytes:
        return encode_fields({"features": self.levels, "version": _FEATURES_VERSION, "status": int(self.is_enabled)})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return decode_fields(FEATURES, data, cls._from_json)

    @classmethod
    def _from_json(cls, fields: dict[str, Any]) -> Self:
        is_enabled = int(fields["status"]) == 1
        levels = dict(fields.get("features") or {}) if is_enabled else {}
        if int(fields["version"]) < _FEATURES_VERSION:
            # Kafka before 3.3 wrote a lowest level, too.
            levels = {name: each["max_version_level"] for name, each in levels.items()}
        return cls(_levels(levels), is_enabled)


def _levels(levels: Mapping[str, Any]) -> dict[str, int]:
    """Levels of features by name; ValueError for one that no message can carry."""
    numbers = {str(name): int(each) for name, each in levels.items()}
    if any(not 0 <= each <= _LEVEL_MAX for each in numbers.values()):
        raise ValueError(f"{numbers} are no levels")
    return numbers


def encode_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_epoch(data: bytes) -> int:
    try:
        return int(data)
    except ValueError:
        raise BadNode(f"{CONTROLLER_EPOCH} holds {data!r} instead of a number") from None


class ProducerIdBlock(NamedTuple):
    """Producer ids for one broker to give away, both ends included."""

    broker_id: int
    first: int
    last: int

    @classmethod
    def after(cls, data: bytes, broker_id: int) -> Self:
        """The block that follows on what is in the node."""
        before = cls.decode(data).last if data else -1
        if before > _PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
            raise BadNode(f"{PRODUCER_IDS}: the last block ends at {before}, there are no more producer ids")
        return cls(broker_id, before + 1, before + PRODUCER_ID_BLOCK_SIZE)

    def encode(self) -> bytes:
        return encode_fields(
            {
                "version": _PRODUCER_IDS_VERSION,
                "broker": self.broker_id,
                "block_start": str(self.first),
                "block_end": str(self.last),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return decode_fields(
            PRODUCER_IDS,
            data,
            lambda fields: cls(int(fields["broker"]), int(fields["block_start"]), int(fields["block_end"])),
        )
