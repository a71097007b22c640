"""From what somebody wrote to a `BrokerConfig`: properties file, then `KAFKA_*` variables, then `--set`; the last wins.

Whatever is wrong is one `ConfigError` of one line that names the place. What is fine for Kafka but has no effect here
is a warning, likewise with its place.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.config.checks import obstacles
from minikafka.broker.config.environment import keys_of_environment
from minikafka.broker.config.errors import ConfigError
from minikafka.broker.config.keys import FOREIGN, INERT, broker_key, broker_keys, unknown
from minikafka.broker.config.properties import Property, read_properties
from minikafka.broker.config.settings import Given, Settings


class Loaded(NamedTuple):
    """The configuration, and what its author should know."""

    config: BrokerConfig
    warnings: tuple[str, ...]


def load(path: str | None, environment: Mapping[str, str], sets: Sequence[str] = ()) -> Loaded:
    """Read and check everything; `sets` are the arguments of `--set`."""
    from_file = [] if path is None else read_properties(path)
    warnings = [] if path is None else _repeated(from_file, path)
    given = [
        *(Given(each.key, each.value, f"{path}:{each.line}") for each in from_file),
        *(Given(name, text, variable) for name, text, variable in keys_of_environment(environment)),
        *map(_given_by_set, sets),
    ]
    config, more = resolve(given)
    return Loaded(config, (*warnings, *more))


def resolve(given: Iterable[Given]) -> Loaded:
    """The configuration that these settings make, later ones over earlier ones."""
    warnings: list[str] = []
    kept: dict[str, Given] = {}
    for each in given:
        foreign = next((why for prefix, why in FOREIGN.items() if each.name.startswith(prefix)), None)
        if foreign is not None:
            warnings.append(f"{each.origin}: {each.name} is not used: {foreign}")
            continue
        _require_known(each)
        kept[each.name] = each
    settings = Settings(_with_both_ids(kept))
    for name in kept:
        settings.value(name)
    warnings += [warning for each in kept.values() if (warning := _without_effect(each)) is not None]
    config = BrokerConfig.of(settings)
    return Loaded(config, (*warnings, *obstacles(settings)))


def _given_by_set(argument: str) -> Given:
    name, equals, text = argument.partition("=")
    if not equals:
        # Without an equals sign there is no telling where a secret begins.
        begin = re.match(r"[\w.-]*", argument)
        raise ConfigError(f"--set {begin[0] if begin else ''}: must be key=value")
    return Given(name.strip(), text, "--set")


def _repeated(properties: Sequence[Property], path: str) -> list[str]:
    first: dict[str, int] = {}
    warnings = []
    for each in properties:
        if each.key in first:
            warnings.append(f"{path}:{each.line}: {each.key} is set again, line {first[each.key]} does not count")
        first[each.key] = each.line
    return warnings


def _require_known(given: Given) -> None:
    if broker_key(given.name) is None:
        raise ConfigError(f"{given.origin}: {unknown(given.name, broker_keys())}")


def _with_both_ids(kept: Mapping[str, Given]) -> list[Given]:
    """broker.id and node.id are two names of one thing: where one is set, so is the other."""
    both = [kept[name] for name in ("broker.id", "node.id") if name in kept]
    if len(both) != 1:
        return list(kept.values())
    one = both[0]
    other = "node.id" if one.name == "broker.id" else "broker.id"
    return [*kept.values(), Given(other, one.text, one.origin)]


def _without_effect(given: Given) -> str | None:
    key = broker_key(given.name)
    assert key is not None
    return f"{given.origin}: {given.name} has no effect here: {INERT[key.inert]}" if key.inert else None
