"""Options that every client has: where the cluster is, how to log in, how long to wait.

`ClientConfig` is the base of the options of producer, consumer and admin, which add their own fields. Names are
aiokafka's; `from_config` takes Kafka's dotted names and librdkafka's for TLS files and SASL.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypedDict

from minikafka.client.errors import ConfigError
from minikafka.client.options import Options, option

DEFAULT_PORT: Final = 9092

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _upper(text: str) -> str:
    return text.strip().upper()


def _checks_host(algorithm: str) -> bool:
    """`ssl.endpoint.identification.algorithm`: https, or nothing (librdkafka: none) to accept any host."""
    return algorithm.strip().lower() not in ("", "none")


class ClientOptions(TypedDict, total=False):
    """The options of `ClientConfig` as keyword arguments, for type checkers and editors."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    request_timeout_ms: int
    socket_connection_setup_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    metadata_max_age_ms: int
    connections_max_idle_ms: int
    default_api_timeout_ms: int
    allow_auto_create_topics: bool
    security_protocol: str
    ssl_context: ssl.SSLContext | None
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_password: str | None
    ssl_check_hostname: bool
    sasl_mechanism: str
    sasl_plain_username: str | None
    sasl_plain_password: str | None


@dataclass(frozen=True, kw_only=True)
class ClientConfig(Options):
    """What a connection to a cluster needs to know."""

    bootstrap_servers: str | Sequence[str] = option("localhost:9092", "bootstrap.servers", "metadata.broker.list")
    client_id: str = option("minikafka")
    request_timeout_ms: int = option(30_000, "request.timeout.ms", "socket.timeout.ms", low=1)
    """How long a broker may take to answer, beyond what the request itself allows it to wait."""
    socket_connection_setup_timeout_ms: int = option(10_000, low=1)
    """How long connecting, TLS, version negotiation and login may take together."""
    retry_backoff_ms: int = option(100, low=0)
    retry_backoff_max_ms: int = option(1_000, low=0)
    reconnect_backoff_ms: int = option(50, low=0)
    reconnect_backoff_max_ms: int = option(1_000, low=0)
    metadata_max_age_ms: int = option(300_000, low=1)
    connections_max_idle_ms: int = option(540_000, low=0)
    """0 keeps idle connections for ever."""
    default_api_timeout_ms: int = option(60_000, low=1)
    """How long a call that tries again by itself goes on trying."""
    allow_auto_create_topics: bool = option(True)
    """Whether asking for a topic that does not exist lets the broker create it, where brokers are set to do so."""

    security_protocol: str = option("PLAINTEXT", choices=SECURITY_PROTOCOLS, convert=_upper)
    ssl_context: ssl.SSLContext | None = option(None)
    """Takes the place of the ssl files below."""
    ssl_cafile: str | None = option(None, "ssl.ca.location")
    ssl_certfile: str | None = option(None, "ssl.certificate.location")
    ssl_keyfile: str | None = option(None, "ssl.key.location")
    ssl_password: str | None = option(None, "ssl.key.password", secret=True)
    ssl_check_hostname: bool = option(True, "ssl.endpoint.identification.algorithm", convert=_checks_host)
    sasl_mechanism: str = option("PLAIN", "sasl.mechanism", "sasl.mechanisms", choices=SASL_MECHANISMS, convert=_upper)
    sasl_plain_username: str | None = option(None, "sasl.username", "sasl.plain.username")
    sasl_plain_password: str | None = option(None, "sasl.password", "sasl.plain.password", secret=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_addresses(self.bootstrap_servers)
        if self.uses_sasl and (self.sasl_plain_username is None or self.sasl_plain_password is None):
            raise ConfigError(f"{self.security_protocol} needs sasl_plain_username and sasl_plain_password")

    @property
    def addresses(self) -> tuple[Address, ...]:
        return parse_addresses(self.bootstrap_servers)

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")


def parse_addresses(servers: str | Sequence[str]) -> tuple[Address, ...]:
    """Addresses out of `host:port,host:port` or a list of such; `[::1]:9092` for IPv6."""
    listed = [servers] if isinstance(servers, str) else servers
    try:
        texts = [text for each in listed for text in each.split(",")]
    except (TypeError, AttributeError):
        raise ConfigError("bootstrap_servers must be text, or a list of texts") from None
    addresses = tuple(_parse_address(text.strip()) for text in texts if text.strip())
    if not addresses:
        raise ConfigError("bootstrap_servers names no server")
    return addresses


def _parse_address(text: str) -> Address:
    # Some give the listener's name too: PLAINTEXT://host:9092.
    host, colon, port = text.rpartition("://")[2].rpartition(":")
    if not colon or port.endswith("]"):
        host, port = text.rpartition("://")[2], str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ConfigError(f"{text!r} is no address of the form host:port")
    return Address(host, int(port))


def make_ssl_context(config: ClientConfig) -> ssl.SSLContext | None:
    """The TLS settings, or None where there is no TLS; files that cannot be read are a ConfigError."""
    if not config.uses_tls:
        return None
    if config.ssl_context is not None:
        return config.ssl_context
    try:
        context = ssl.create_default_context(cafile=config.ssl_cafile)
        context.check_hostname = config.ssl_check_hostname
        if config.ssl_certfile is not None:
            password = _no_password if config.ssl_password is None else config.ssl_password
            context.load_cert_chain(config.ssl_certfile, config.ssl_keyfile, password)
    except OSError as error:
        # SSLError is one too. The text of neither has the password.
        raise ConfigError(f"the TLS files cannot be used: {error}") from None
    return context


def _no_password() -> str:
    """Asked for only if the key is encrypted. Without it OpenSSL would ask at the terminal, and all the loop wait."""
    raise ConfigError("the private key is encrypted, and there is no ssl_password")
