"""Requests to change configs: from what is set and what is asked to what shall be set, or the error that Kafka gives.

Nothing here is stored or applied. Texts are kept as they were sent; only elements of lists lose the blanks around them
when one is added or taken away.
"""

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.config.dynamic import check_change, refusal
from minikafka.broker.config.errors import ConfigError
from minikafka.broker.config.keys import Key, Kind, broker_keys, topic_keys, unknown
from minikafka.broker.config.settings import Scope
from minikafka.broker.config.topic import topic_values
from minikafka.broker.config.values import split
from minikafka.protocol.errors import InvalidConfigError, InvalidRequestError

_WHOLE: Final = r"[+-]?[0-9]{1,10}"

Entries = Sequence[tuple[str, str | None]]


class Op(IntEnum):
    """What IncrementalAlterConfigs does with one config."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPS: Final = frozenset(map(int, Op))


class Change(NamedTuple):
    """One config of a request; `op` is what the peer sent, and may be none of `Op`."""

    name: str
    op: int
    value: str | None


def created_overrides(config: BrokerConfig, entries: Entries) -> dict[str, str]:
    """The overrides of a topic that is being created; of a config that is there twice the last counts."""
    if empty := [name for name, text in entries if text is None]:
        raise InvalidConfigError(f"without a value: {', '.join(empty)}")
    return _checked_topic(config, {name: text for name, text in entries if text is not None})


def altered_topic(config: BrokerConfig, entries: Entries) -> dict[str, str]:
    """AlterConfigs: the overrides that replace all there were."""
    return _checked_topic(config, _replacement(entries))


def changed_topic(config: BrokerConfig, overrides: Mapping[str, str], changes: Sequence[Change]) -> dict[str, str]:
    """IncrementalAlterConfigs: the overrides after these changes."""
    return _checked_topic(config, _changed(overrides, changes, topic_keys()))


def altered_broker(config: BrokerConfig, scope: Scope, entries: Entries) -> dict[str, str]:
    """AlterConfigs: what is set for this broker, or for all, in place of all there was."""
    return _checked_broker(config, scope, _replacement(entries))


def changed_broker(
    config: BrokerConfig, scope: Scope, stored: Mapping[str, str], changes: Sequence[Change]
) -> dict[str, str]:
    """IncrementalAlterConfigs: what is set for this broker, or for all, after these changes.

    What is stored already and cannot be used goes with the next change, as in Kafka.
    """
    usable = {name: text for name, text in stored.items() if refusal(name, text, scope) is None}
    return _checked_broker(config, scope, _changed(usable, changes, broker_keys()))


def broker_scope(resource_name: str, broker_id: int) -> Scope:
    """Whom the resource of a request is: an empty name means all brokers, and only a broker itself knows its own."""
    if not resource_name:
        return Scope.CLUSTER_WIDE
    if not re.fullmatch(_WHOLE, resource_name):
        raise InvalidRequestError("the name of a broker must be its id")
    if int(resource_name) != broker_id:
        raise InvalidRequestError(f"broker {int(resource_name)} has to be asked itself, this is broker {broker_id}")
    return Scope.PER_BROKER


def _replacement(entries: Entries) -> dict[str, str]:
    _require_distinct([name for name, _ in entries])
    if empty := [name for name, text in entries if text is None]:
        raise InvalidRequestError(f"without a value: {', '.join(empty)}")
    return {name: text for name, text in entries if text is not None}


def _changed(current: Mapping[str, str], changes: Sequence[Change], keys: Mapping[str, Key]) -> dict[str, str]:
    _require_distinct([each.name for each in changes])
    result = dict(current)
    for each in changes:
        if each.op == Op.DELETE:
            result.pop(each.name, None)
        elif each.op not in _OPS:
            raise InvalidRequestError(f"{each.name}: there is no operation {each.op}")
        elif each.value is None:
            raise InvalidRequestError(f"without a value: {each.name}")
        elif each.op == Op.SET:
            result[each.name] = each.value
        else:
            result[each.name] = _edited_list(current, each.name, Op(each.op), split(each.value), keys)
    return result


def _edited_list(
    current: Mapping[str, str], name: str, op: Op, elements: tuple[str, ...], keys: Mapping[str, Key]
) -> str:
    key = keys.get(name)
    if key is None:
        raise InvalidConfigError(unknown(name, keys))
    if key.kind is not Kind.LIST:
        raise InvalidConfigError(f"{name} is not a list, nothing can be added to it or taken from it")
    # Where nothing is set Kafka starts from the key's own default, not from the broker's.
    old = split(current.get(name, key.default or ""))
    if op is Op.APPEND:
        return ",".join([*old, *(each for each in elements if each not in old)])
    return ",".join(each for each in old if each not in elements)


def _require_distinct(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise InvalidRequestError("a config is there twice")


def _checked_topic(config: BrokerConfig, overrides: dict[str, str]) -> dict[str, str]:
    topic_values(config.topic_defaults, overrides)
    return overrides


def _checked_broker(config: BrokerConfig, scope: Scope, texts: dict[str, str]) -> dict[str, str]:
    for name, text in texts.items():
        if (refused := refusal(name, text, scope)) is not None:
            raise refused
    try:
        check_change(config, texts, scope)
    except ConfigError as error:
        raise InvalidRequestError(str(error)) from None
    return texts
