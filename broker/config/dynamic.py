"""Configs that change at run time: which may, for whom, and how a broker takes them over.

They are stored in ZooKeeper for one broker or for all. A request is refused whole if anything about it is wrong; what
is already stored may be another's doing and never stops a broker: what cannot be used is passed over with a complaint.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.config.errors import BadValue, ConfigError, assignment
from minikafka.broker.config.keys import Key, Update, base_name, broker_key, broker_keys, is_for_listener, unknown
from minikafka.broker.config.listeners import Listener
from minikafka.broker.config.settings import Scope, Settings
from minikafka.broker.config.topic import parse_override, topic_values
from minikafka.broker.config.values import parse
from minikafka.protocol.errors import InvalidConfigError, InvalidRequestError, KafkaError

# May differ by listener only, so the key alone cannot change.
_FOR_ONE_LISTENER: Final = frozenset(
    f"ssl.{name}"
    for name in (
        *("keystore.type", "keystore.location", "keystore.password", "keystore.key", "keystore.certificate.chain"),
        *("truststore.type", "truststore.location", "truststore.password", "truststore.certificates"),
        "key.password",
    )
)
_FOR_LISTENERS_OF_ALL: Final = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
_THREADS: Final = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)


class Applied(NamedTuple):
    """The configuration after a change, and what of it could not be used."""

    config: BrokerConfig
    complaints: tuple[str, ...]


def apply_stored(
    config: BrokerConfig, cluster_wide: Mapping[str, str] | None = None, per_broker: Mapping[str, str] | None = None
) -> Applied:
    """Lay what is stored over what the broker was started with; None keeps what was applied last."""
    settings, complaints = config.settings, []
    for scope, stored in ((Scope.CLUSTER_WIDE, cluster_wide), (Scope.PER_BROKER, per_broker)):
        if stored is None:
            continue
        refused = {name: error for name, text in stored.items() if (error := refusal(name, text, scope)) is not None}
        complaints += [f"config of {scope.value}: {error.message}; it is not used" for error in refused.values()]
        usable = {name: text for name, text in stored.items() if name not in refused}
        settings = laid_over(settings, usable, scope)
    try:
        # An id that was given out by ZooKeeper is in no layer.
        return Applied(BrokerConfig.of(settings)._replace(broker_id=config.broker_id), tuple(complaints))
    except ConfigError as error:
        return Applied(config, (*complaints, f"{error}; nothing has changed"))


def usable_overrides(config: BrokerConfig, stored: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The overrides of a topic that can be used, and complaints about the others."""
    usable, complaints = {}, []
    for name, text in stored.items():
        try:
            parse_override(name, text)
            usable[name] = text
        except InvalidConfigError as error:
            complaints.append(f"{error.message}; it is not used")
    try:
        topic_values(config.topic_defaults, usable)
    except InvalidConfigError as error:
        return {}, (*complaints, f"{error.message}; none of the topic's overrides is used")
    return usable, tuple(complaints)


def laid_over(settings: Settings, texts: Mapping[str, str], scope: Scope) -> Settings:
    return settings.replace(cluster_wide=texts) if scope is Scope.CLUSTER_WIDE else settings.replace(per_broker=texts)


def refusal(name: str, text: str, scope: Scope) -> KafkaError | None:
    """The error if a broker config cannot be set to this at run time; None if it can."""
    key = broker_key(name)
    if key is None:
        return InvalidConfigError(unknown(name, broker_keys()))
    if key.update is Update.READ_ONLY:
        return InvalidRequestError(f"{name} cannot be changed at run time")
    if name in _FOR_ONE_LISTENER:
        return InvalidRequestError(f"{name} can be changed only for one listener, as listener.name.<name>.{name}")
    if key.secret:
        return InvalidConfigError(f"{name}: no secrets are kept in ZooKeeper")
    if scope is Scope.CLUSTER_WIDE and not _may_be_for_all(name, key):
        return InvalidRequestError(f"{name} can be changed only for one broker, not for all")
    try:
        parse(key, text)
    except BadValue as error:
        return InvalidRequestError(f"{assignment(name, text, key.secret)}: {error}")
    return None


def check_change(config: BrokerConfig, texts: Mapping[str, str], scope: Scope) -> None:
    """Raise one ConfigError if these texts, each of them fine alone, do not fit the rest."""
    changed = BrokerConfig.of(laid_over(config.settings, texts, scope))
    for name in _THREADS:
        now, then = config.settings.number(name), changed.settings.number(name)
        if not now // 2 <= then <= now * 2:
            what = f"must be from half to double of what it is, {now}"
            raise changed.settings.error([name], what)
    protocols = {each.name: each.protocol for each in config.listeners}
    for each in changed.listeners:
        if protocols.get(each.name, each.protocol) is not each.protocol:
            raise changed.settings.error(["listener.security.protocol.map"], f"listener {each.name} is in use")
        if 0 in _limits(changed, each) and 0 not in _limits(config, each):
            names = ("max.connections", "max.connection.creation.rate")
            raise changed.settings.error(names, f"nobody could connect to listener {each.name} any more")


def _limits(config: BrokerConfig, listener: Listener) -> tuple[int, int]:
    """Connections at a time and a second, the listener's own or the broker's."""
    own = next((each for each in config.listeners if each.name == listener.name), listener)
    most, rate = own.max_connections, own.max_connection_creation_rate
    return (
        config.max_connections if most is None else most,
        config.settings.number("max.connection.creation.rate") if rate is None else rate,
    )


def _may_be_for_all(name: str, key: Key) -> bool:
    if is_for_listener(name):
        return base_name(name) in _FOR_LISTENERS_OF_ALL
    return key.update is Update.CLUSTER_WIDE
