"""Whose a log directory is: `meta.properties`, with the ids of the cluster and of the broker.

The file is written once and then only compared.  Data of another cluster or broker must not be served, and must not
be deleted as unknown either, so whatever is not surely ours is refused, with a text for the operator, and left as it
is.  A directory without the file is new, or was made ours by somebody who removed it.

    broker.id=0                        node.id in a file of version 1, from a Kafka without ZooKeeper
    version=0
    cluster.id=sH7gnb5IQTqIGQveoWctog
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from minikafka.storage.disk import Disk, join
from minikafka.storage.errors import StorageError
from minikafka.storage.formats import META_PROPERTIES_FILE, BadFile, encode_properties, parse_properties
from minikafka.storage.small_files import read_small, replace_file

_FILE_BYTES_MAX: Final = 1 << 20
_BROKER_ID_KEYS: Final = {"0": "broker.id", "1": "node.id"}
_broker_id = re.compile(r"[0-9]{1,10}")


class NotOurs(StorageError):
    """The directory belongs to another broker, cluster or process: not a failed disk, but a wrong configuration."""


class Identity(NamedTuple):
    """Of a broker."""

    broker_id: int
    cluster_id: str


def read_identity(disk: Disk, directory: str) -> Identity | None:
    """What a directory says, None if it says nothing; NotOurs if that cannot be understood."""
    path = join(directory, META_PROPERTIES_FILE)
    try:
        data = read_small(disk, path, _FILE_BYTES_MAX)
        return None if data is None else _identity(path, parse_properties(data))
    except BadFile as error:
        raise NotOurs(f"{path} cannot be read: {error}") from None


def claim(disk: Disk, directory: str, identity: Identity, now_ms: int) -> bool:
    """Make a directory ours if it is nobody's, and return whether it was; NotOurs if it is somebody else's."""
    found = read_identity(disk, directory)
    if found is None:
        # The order in which Kafka comes to write them.
        properties = {"broker.id": str(identity.broker_id), "version": "0", "cluster.id": identity.cluster_id}
        replace_file(disk, join(directory, META_PROPERTIES_FILE), encode_properties(properties, now_ms))
    elif found != identity:
        theirs, ours = (f"broker {each.broker_id} of cluster {each.cluster_id}" for each in (found, identity))
        raise NotOurs(f"{directory} belongs to {theirs}, and this is {ours}; {META_PROPERTIES_FILE} there says so")
    return found is None


def _identity(path: str, properties: dict[str, str]) -> Identity:
    version = properties.get("version", "")
    key = _BROKER_ID_KEYS.get(version)
    if key is None:
        raise NotOurs(f"{path} has version {version!r}, and only 0 and 1 are known")
    broker_id, cluster_id = properties.get(key, ""), properties.get("cluster.id", "")
    if not _broker_id.fullmatch(broker_id) or not cluster_id:
        raise NotOurs(f"{path} says {key}={broker_id[:40]} and cluster.id={cluster_id[:40]}, which is no identity")
    return Identity(int(broker_id), cluster_id)
