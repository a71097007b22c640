"""What stands in ZooKeeper about topics: Kafka's paths, and its JSON field by field.

    /brokers/topics/T                      the replicas of every partition, and the topic's id
    /brokers/topics/T/partitions/P/state   who leads a partition and who is in sync; its version is the partition epoch
    /admin/delete_topics/T                 a wish: delete this topic
    /log_dir_event_notification/...        a broker tells that one of its log directories failed

Fields come in the order in which Kafka writes them. Names that are read here become names of directories, so they are
checked before anybody uses them: whoever may write to ZooKeeper need not be able to write to our disks.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from minikafka.broker.zookeeper.json_node import decode_fields, encode_fields
from minikafka.protocol.errors import InvalidTopicError
from minikafka.protocol.schema import ZERO_UUID
from minikafka.protocol.varint import INT32_MAX
from minikafka.storage.formats import check_topic_name

TOPICS: Final = "/brokers/topics"
DELETE_TOPICS: Final = "/admin/delete_topics"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = f"{LOG_DIR_EVENTS}/log_dir_event_"

NO_LEADER: Final = -1
NO_EPOCH: Final = -1

_TOPIC_VERSION: Final = 3
_STATE_VERSION: Final = 1
_EVENT_VERSION: Final = 1
_DIR_FAILED: Final = 1
_RECOVERING: Final = 1


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def is_topic_name(name: str) -> bool:
    """Whether a child of one of these paths can be a topic."""
    try:
        check_topic_name(name)
    except InvalidTopicError:
        return False
    return True


class Assignment(NamedTuple):
    """The replicas of a partition, the preferred leader first.

    While it is being reassigned, they are the old and the new ones together: which of them come and which go stands
    beside.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that it has when all is done."""
        return tuple(each for each in self.replicas if each not in self.removing)


class TopicNode(NamedTuple):
    """The content of `/brokers/topics/T`."""

    topic_id: bytes
    partitions: Mapping[int, Assignment]

    def encode(self) -> bytes:
        ordered = sorted(self.partitions.items())
        return encode_fields(
            {
                "partitions": {str(index): each.replicas for index, each in ordered},
                "topic_id": encode_topic_id(self.topic_id),
                "adding_replicas": {str(index): each.adding for index, each in ordered if each.adding},
                "removing_replicas": {str(index): each.removing for index, each in ordered if each.removing},
                "version": _TOPIC_VERSION,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        return decode_fields(path, data, cls._from_json)

    @classmethod
    def _from_json(cls, fields: dict[str, Any]) -> Self:
        adding, removing = fields.get("adding_replicas") or {}, fields.get("removing_replicas") or {}
        partitions = {
            _partition(index): Assignment(_ids(replicas), _ids(adding.get(index)), _ids(removing.get(index)))
            for index, replicas in fields["partitions"].items()
        }
        # Topics made by brokers before Kafka 2.8 have no id, until a controller gives them one.
        text = fields.get("topic_id")
        return cls(ZERO_UUID if text is None else decode_topic_id(text), partitions)


class StateNode(NamedTuple):
    """The content of `/brokers/topics/T/partitions/P/state`."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    is_recovering: bool = False
    unclean_epoch: int = NO_EPOCH
    """The last leader epoch that began with a leader out of sync, for good: replicas that come back long after have to
    know. Kafka has no such field, and passes over it."""
    broker_epochs: Mapping[int, int] = MappingProxyType({})
    """As which broker a replica was found in sync: one that has registered again since is another one (KIP-903). Not
    known of states that Kafka or older versions wrote; those pass over the field."""
    elr: tuple[int, ...] = ()
    """Eligible leader replicas: out of the ISR, and yet with all that is committed (KIP-966). They left it when it
    became too small for anything to be committed, and until it is large enough again nothing is."""
    last_leader: int = NO_LEADER
    """Who led last, while nobody leads."""

    def encode(self) -> bytes:
        return encode_fields(
            {
                "controller_epoch": self.controller_epoch,
                "leader": self.leader,
                "version": _STATE_VERSION,
                "leader_epoch": self.leader_epoch,
                "isr": self.isr,
                **({"leader_recovery_state": _RECOVERING} if self.is_recovering else {}),
                **({} if self.unclean_epoch == NO_EPOCH else {"unclean_leader_epoch": self.unclean_epoch}),
                **({"broker_epochs": _texts(self.broker_epochs)} if self.broker_epochs else {}),
                **({"eligible_leader_replicas": self.elr} if self.elr else {}),
                **({} if self.last_leader == NO_LEADER else {"last_known_leader": self.last_leader}),
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        return decode_fields(path, data, cls._from_json)

    @classmethod
    def _from_json(cls, fields: dict[str, Any]) -> Self:
        return cls(
            int(fields["leader"]),
            int(fields["leader_epoch"]),
            _ids(fields["isr"]),
            int(fields["controller_epoch"]),
            int(fields.get("leader_recovery_state", 0)) == _RECOVERING,
            int(fields.get("unclean_leader_epoch", NO_EPOCH)),
            {int(each): int(epoch) for each, epoch in (fields.get("broker_epochs") or {}).items()},
            _ids(fields.get("eligible_leader_replicas")),
            int(fields.get("last_known_leader", NO_LEADER)),
        )


def encode_log_dir_event(broker_id: int) -> bytes:
    return encode_fields({"version": _EVENT_VERSION, "broker": broker_id, "event": _DIR_FAILED})


def decode_log_dir_event(path: str, data: bytes) -> int:
    """The broker that lost a log directory."""
    return decode_fields(path, data, lambda fields: int(fields["broker"]))


def encode_topic_id(topic_id: bytes) -> str:
    """As Kafka writes ids: 22 letters, without the padding."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def decode_topic_id(text: str) -> bytes:
    decoded = base64.urlsafe_b64decode(text + "==")
    if len(decoded) != len(ZERO_UUID) or encode_topic_id(decoded) != text:
        raise ValueError(f"{text!r} is no id")
    return decoded


def _partition(text: str) -> int:
    index = int(text)
    if not 0 <= index <= INT32_MAX or str(index) != text:
        raise ValueError(f"{text!r} is no partition")
    return index


def _texts(epochs: Mapping[int, int]) -> dict[str, int]:
    return {str(each): epoch for each, epoch in sorted(epochs.items())}


def _ids(values: Iterable[Any] | None) -> tuple[int, ...]:
    return tuple(map(int, values or ()))
