"""The addresses of a broker: where it listens, where others find it, and what is spoken there.

`listeners` is `NAME://host:port,...`. A name is the address' own, in any case; what is spoken under it stands in
`listener.security.protocol.map`. `advertised.listeners` gives other addresses for the same names to those who ask;
without it nobody is told anything but what they dialled. Brokers use one of the names among themselves.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from minikafka.broker.config.errors import quoted
from minikafka.broker.config.settings import Settings
from minikafka.broker.config.values import split

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
INTER_BROKER_NAME: Final = "inter.broker.listener.name"
INTER_BROKER_PROTOCOL: Final = "security.inter.broker.protocol"
CONTROL_PLANE_NAME: Final = "control.plane.listener.name"

_ENTRY: Final = r"([^\s:/,]+)://\[?([0-9A-Za-z._%:-]*)\]?:([0-9]{1,5})"
_IPV4: Final = r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}"
_PORT_MAX: Final = 65_535


class SecurityProtocol(Enum):
    """What is spoken on a connection."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


SPOKEN: Final = frozenset({SecurityProtocol.PLAINTEXT})
"""The protocols that a listener may have here."""


class Listener(NamedTuple):
    """One address; without a host all interfaces, or if advertised, the host that the client dialled."""

    name: str
    host: str | None
    port: int
    protocol: SecurityProtocol
    max_connections: int | None = None
    """A limit of its own, under the one for all listeners."""
    max_connection_creation_rate: int | None = None

    def __str__(self) -> str:
        host = self.host or ""
        return f"{self.name}://{f'[{host}]' if ':' in host else host}:{self.port}"


class Listeners(NamedTuple):
    """All addresses, and who uses which."""

    listeners: tuple[Listener, ...]
    advertised: tuple[Listener, ...] | None
    inter_broker: str
    control_plane: str | None


def resolve_listeners(settings: Settings) -> Listeners:
    """The addresses, or one ConfigError about what does not fit."""
    protocols = _protocols(settings)
    listeners = tuple(_limited(settings, each) for each in _parsed(settings, LISTENERS, protocols))
    _require_distinct_ports(settings, listeners)
    advertised = None
    if settings.text(ADVERTISED) is not None:
        advertised = tuple(_parsed(settings, ADVERTISED, protocols))
        _check_advertised(settings, advertised, listeners)
    names = [each.name for each in advertised or listeners]
    inter_broker = _inter_broker(settings, names)
    control_plane = _control_plane(settings, names, inter_broker)
    for each in listeners:
        if each.protocol not in SPOKEN:
            what = f"listener {each.name} is for {each.protocol.value}, but connections here are PLAINTEXT"
            raise settings.error([LISTENERS], what)
    return Listeners(listeners, advertised, inter_broker, control_plane)


def _protocols(settings: Settings) -> Mapping[str, SecurityProtocol]:
    found = {}
    for entry in split(settings.text(PROTOCOL_MAP) or ""):
        name, colon, protocol = entry.rpartition(":")
        if not colon:
            raise settings.error([PROTOCOL_MAP], f"{quoted(entry)} is not NAME:PROTOCOL")
        if protocol.strip().upper() not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise settings.error([PROTOCOL_MAP], f"unknown protocol in {quoted(entry)}, there are {known}")
        found[name.strip().upper()] = SecurityProtocol[protocol.strip().upper()]
    return found


def _parsed(settings: Settings, key: str, protocols: Mapping[str, SecurityProtocol]) -> Iterator[Listener]:
    names: set[str] = set()
    entries = [entry for entry in split(settings.text(key) or "") if entry]
    if not entries:
        raise settings.error([key], "must name at least one address as NAME://host:port")
    for entry in entries:
        listener = _listener(settings, key, entry, protocols)
        if listener.name in names:
            raise settings.error([key], f"listener {listener.name} is there twice")
        names.add(listener.name)
        yield listener


def _listener(settings: Settings, key: str, entry: str, protocols: Mapping[str, SecurityProtocol]) -> Listener:
    found = re.fullmatch(_ENTRY, entry)
    if found is None:
        raise settings.error([key], f"{quoted(entry)} is not NAME://host:port")
    name, host, port = found[1].upper(), found[2], int(found[3])
    if port > _PORT_MAX:
        raise settings.error([key], f"the port of {quoted(entry)} is above {_PORT_MAX}")
    if name not in protocols:
        what = f"listener {name} has no security protocol, add {name}:PLAINTEXT or the like to {PROTOCOL_MAP}"
        raise settings.error([key], what)
    return Listener(name, host or None, port, protocols[name])


def _limited(settings: Settings, listener: Listener) -> Listener:
    """The same with the limits that are set for this listener alone."""
    prefix = f"listener.name.{listener.name.lower()}."
    most, rate = (
        settings.number(prefix + key) if prefix + key in settings.effective else None
        for key in ("max.connections", "max.connection.creation.rate")
    )
    return listener._replace(max_connections=most, max_connection_creation_rate=rate)


def _require_distinct_ports(settings: Settings, listeners: tuple[Listener, ...]) -> None:
    """Two listeners may share a port if one has an IPv4 address and the other an IPv6 address."""
    for port in {each.port for each in listeners} - {0}:
        hosts = [each.host or "" for each in listeners if each.port == port]
        is_a_pair = len(hosts) == 2 and {_family(host) for host in hosts} == {4, 6}
        if len(hosts) > 1 and not is_a_pair:
            raise settings.error([LISTENERS], f"port {port} is there {len(hosts)} times")


def _family(host: str) -> int:
    return 6 if ":" in host else 4 if re.fullmatch(_IPV4, host) else 0


def _check_advertised(settings: Settings, advertised: tuple[Listener, ...], listeners: tuple[Listener, ...]) -> None:
    names = {each.name for each in listeners}
    for each in advertised:
        if each.name not in names:
            what = f"listener {each.name} is not in {LISTENERS}, which has {', '.join(sorted(names))}"
            raise settings.error([ADVERTISED], what)
        if each.host is not None and (each.host == "0.0.0.0" or set(each.host) <= set("0:")):
            raise settings.error([ADVERTISED], f"nobody can connect to {each}, give an address that others can reach")
        if each.port == 0:
            raise settings.error([ADVERTISED], f"nobody can connect to port 0 of {each}")


def _inter_broker(settings: Settings, names: list[str]) -> str:
    name = settings.text(INTER_BROKER_NAME)
    if name is not None and INTER_BROKER_PROTOCOL in settings.effective:
        raise settings.error([INTER_BROKER_NAME], f"only one of this and {INTER_BROKER_PROTOCOL} may be set")
    listed = ", ".join(names)
    if name is None:
        name = settings.text(INTER_BROKER_PROTOCOL) or ""
        if name not in names:
            what = f"must be set to the listener that brokers use among themselves, one of {listed}"
            raise settings.error([INTER_BROKER_NAME], what)
    if name.upper() not in names:
        raise settings.error([INTER_BROKER_NAME], f"must be one of the listeners that others are told of: {listed}")
    return name.upper()


def _control_plane(settings: Settings, names: list[str], inter_broker: str) -> str | None:
    name = settings.text(CONTROL_PLANE_NAME)
    if name is None:
        return None
    if name.upper() not in names:
        listed = ", ".join(names)
        raise settings.error([CONTROL_PLANE_NAME], f"must be one of the listeners that others are told of: {listed}")
    if name.upper() == inter_broker:
        raise settings.error([CONTROL_PLANE_NAME], "must not be the listener that brokers use for everything else")
    return name.upper()
