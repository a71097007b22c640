"""What stands in ZooKeeper about configs: of topics, of brokers, of clients, users and addresses.

    /config/topics/T                  a topic's own settings
    /config/brokers/N, .../<default>  what is set at run time for one broker, and for all
    /config/clients/C, /config/ips/A  quotas; `<default>` in place of a name is for all that have none of their own
    /config/users/U                   quotas, and the credentials for SCRAM
    /config/users/U/clients/C         quotas of a user's client
    /config/changes/config_change_N   tells everybody which of these to read again

Fields come in the order in which Kafka writes them. Names of users, clients and addresses are percent-encoded as Kafka
does it, so none of them can be taken for `<default>` or reach another node; those of topics and brokers need not be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from minikafka.broker.zookeeper.json_node import decode_fields, encode_fields

CONFIG: Final = "/config"
CHANGES: Final = "/config/changes"

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
CLIENTS: Final = "clients"
USERS: Final = "users"
IPS: Final = "ips"

DEFAULT: Final = "<default>"

NO_NODES: Final = frozenset({"", ".", ".."})
"""Names that are left as they are by encoding, and that no node can have."""

_CONFIG_VERSION: Final = 1
_CHANGE_VERSION: Final = 2
_CHANGE_NAME: Final = "config_change_"

CHANGE_PREFIX: Final = f"{CHANGES}/{_CHANGE_NAME}"


class Entity(NamedTuple):
    """Whose configs they are: the path below `/config`, which is also what a change notification says."""

    path: str

    @property
    def node(self) -> str:
        return f"{CONFIG}/{self.path}"

    @property
    def kind(self) -> str:
        return self.path.partition("/")[0]

    @property
    def name(self) -> str:
        """The topic or the broker; of others the path below their kind."""
        return self.path.partition("/")[2]


ALL_BROKERS: Final = Entity(f"{BROKERS}/{DEFAULT}")


def topic_entity(topic: str) -> Entity:
    return Entity(f"{TOPICS}/{topic}")


def broker_entity(broker_id: int) -> Entity:
    return Entity(f"{BROKERS}/{broker_id}")


def user_entity(user: str | None) -> Entity:
    """A user; None stands for all that have nothing of their own, here and below."""
    return Entity(f"{USERS}/{sanitize(user)}")


def client_entity(client_id: str | None) -> Entity:
    return Entity(f"{CLIENTS}/{sanitize(client_id)}")


def user_client_entity(user: str | None, client_id: str | None) -> Entity:
    return Entity(f"{USERS}/{sanitize(user)}/{CLIENTS}/{sanitize(client_id)}")


def ip_entity(address: str | None) -> Entity:
    return Entity(f"{IPS}/{sanitize(address)}")


def sanitize(name: str | None) -> str:
    """A name as the name of a node."""
    return DEFAULT if name is None else quote(name, safe="").replace("~", "%7E")


def desanitize(node: str) -> str | None:
    """The name that a node stands for, None if it is for all others."""
    return None if node == DEFAULT else unquote(node)


def encode_config(texts: Mapping[str, str]) -> bytes:
    return encode_fields({"version": _CONFIG_VERSION, "config": texts})


def decode_config(entity: Entity, data: bytes) -> dict[str, str]:
    """The configs of an entity. A node without data is only there for the sake of those below it."""
    # Under a user's name there may be credentials.
    return decode_fields(entity.node, data, _texts, secret=entity.kind == USERS) if data else {}


def _texts(fields: dict[str, Any]) -> dict[str, str]:
    texts = dict(fields.get("config") or {})
    if not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("values have to be texts")
    # JSON can spell what is no Unicode. It could neither be sent nor be stored again.
    "".join([*texts, *texts.values()]).encode()
    return texts


def encode_change(entity: Entity) -> bytes:
    return encode_fields({"version": _CHANGE_VERSION, "entity_path": entity.path})


def decode_change(path: str, data: bytes) -> Entity:
    """Whose configs have changed; brokers before Kafka 0.10.1 told it in two fields."""

    def entity(fields: dict[str, Any]) -> Entity:
        if int(fields["version"]) == 1:
            return Entity(f"{fields['entity_type']}/{fields['entity_name']}")
        return Entity(str(fields["entity_path"]))

    return decode_fields(path, data, entity)


def is_change(name: str) -> bool:
    """Whether a child of `/config/changes` is a notification."""
    return name.startswith(_CHANGE_NAME)
