"""Quotas as configs: whose they are, which there are, and how a number is written down.

A quota is for a user, a client id, a user's client, or an address; None as a name is for all that have none of their
own. What stands beside quotas under a user's name, the credentials, is none of their business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from math import isfinite
from typing import Final, TypeAlias

from minikafka.broker.config.errors import quoted
from minikafka.broker.config.keys import Kind
from minikafka.broker.config.values import render
from minikafka.broker.scram_credentials import is_mechanism
from minikafka.broker.zookeeper.config_nodes import (
    NO_NODES,
    Entity,
    client_entity,
    ip_entity,
    user_client_entity,
    user_entity,
)
from minikafka.protocol.errors import InvalidRequestError

USER: Final = "user"
CLIENT: Final = "client-id"
IP: Final = "ip"

Names: TypeAlias = Mapping[str, str | None]
"""Whose a quota is: the type of entity, and its name."""

_OF_CLIENTS: Final = {
    "producer_byte_rate": Kind.LONG,
    "consumer_byte_rate": Kind.LONG,
    "request_percentage": Kind.DOUBLE,
    "controller_mutation_rate": Kind.DOUBLE,
}
_OF_ADDRESSES: Final = {"connection_creation_rate": Kind.INT}
_MOST: Final = {Kind.LONG: (1 << 63) - 1, Kind.INT: (1 << 31) - 1}

# Numbers travel as floats, and may have come by way of an addition.
_EPSILON: Final = 1e-6


def checked_names(named: Iterable[tuple[str, str | None]]) -> Names:
    """Whose quotas a request is about, or an InvalidRequestError."""
    names: dict[str, str | None] = {}
    for kind, name in named:
        if kind not in (USER, CLIENT, IP):
            raise InvalidRequestError(f"there are no quotas for {quoted(kind)}")
        if kind in names:
            raise InvalidRequestError(f"{kind} is there twice")
        if name in NO_NODES:
            raise InvalidRequestError(f"{kind} cannot be {quoted(str(name))}")
        names[kind] = name
    if not names:
        raise InvalidRequestError("nobody is named")
    if IP in names:
        _check_address(names)
    return names


def _check_address(names: Names) -> None:
    if len(names) > 1:
        raise InvalidRequestError("a quota is for an address, or for users and clients")
    address = names[IP]
    try:
        if address is not None:
            ip_address(address)
    except ValueError:
        raise InvalidRequestError(f"{quoted(str(address))} is no address") from None


def entity_of(names: Names) -> Entity:
    """Where quotas are stored; the names have been checked."""
    match sorted(names):
        case ["ip"]:
            return ip_entity(names[IP])
        case ["client-id"]:
            return client_entity(names[CLIENT])
        case ["user"]:
            return user_entity(names[USER])
    return user_client_entity(names[USER], names[CLIENT])


def quota_keys(names: Names) -> Mapping[str, Kind]:
    """The quotas that there are for somebody."""
    return _OF_ADDRESSES if IP in names else _OF_CLIENTS


def quota_text(names: Names, key: str, value: float) -> str:
    """A quota as it is stored, or an InvalidRequestError."""
    kind = quota_keys(names).get(key)
    if kind is None:
        raise InvalidRequestError(f"{quoted(key)} is none of {', '.join(quota_keys(names))}")
    if not isfinite(value):
        raise InvalidRequestError(f"{key} has to be a number")
    if kind is Kind.DOUBLE:
        return str(render(value))
    whole = min(int(value + _EPSILON), _MOST[kind])
    if abs(whole - value) > _EPSILON or whole < 0:
        raise InvalidRequestError(f"{key} has to be a whole number, from 0 to {_MOST[kind]}")
    return str(whole)


def quota_values(texts: Mapping[str, str]) -> dict[str, float]:
    """The quotas among somebody's configs; what is no number is passed over."""
    values = {}
    for key, text in texts.items():
        if not is_mechanism(key):
            try:
                value = float(text)
            except ValueError:
                continue
            if isfinite(value):
                values[key] = value
    return values
