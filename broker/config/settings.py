"""The texts that were given for a broker, in the layers they came by, and which of them counts.

From the weakest: the default of the key, what the broker was started with, what the cluster sets for all brokers at
run time, what it sets for this one. Keys that mean the same (log.retention.hours, .minutes and .ms) are one in this:
where a higher layer sets any of them, those of lower layers are out; within a layer the finer unit wins.

Some of these texts are secrets. They are shown by no `repr` and in no message.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from minikafka.broker.config.errors import BadValue, ConfigError, assignment
from minikafka.broker.config.keys import broker_key, broker_keys, displaced, synonyms
from minikafka.broker.config.values import Value, parse

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Source(IntEnum):
    """Where a value comes from, by the numbers of DescribeConfigs."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class Scope(Enum):
    """Whom a broker config that is set at run time is for."""

    CLUSTER_WIDE = "all brokers"
    PER_BROKER = "this broker"


class Synonym(NamedTuple):
    """A text that could determine a value, and does if it is the first of its list."""

    name: str
    text: str | None
    source: Source


class Given:
    """A key as somebody set it, and where: `server.properties:12`, `KAFKA_BROKER_ID` or `--set`."""

    __slots__ = ("name", "origin", "text")

    def __init__(self, name: str, text: str, origin: str) -> None:
        self.name = name
        self.text = text
        self.origin = origin

    def __repr__(self) -> str:
        return f"Given({self.name!r}, origin={self.origin!r})"


class Settings:
    """All layers of one broker; immutable, but for the values that it has parsed once."""

    __slots__ = ("_effective", "_given", "_values", "cluster_wide", "per_broker", "static")

    def __init__(
        self,
        given: Iterable[Given],
        cluster_wide: Mapping[str, str] = _NOTHING,
        per_broker: Mapping[str, str] = _NOTHING,
    ) -> None:
        self._given = {each.name: each for each in given}
        self.static: Mapping[str, str] = {name: each.text for name, each in self._given.items()}
        self.cluster_wide = dict(cluster_wide)
        self.per_broker = dict(per_broker)
        self._effective = _laid_over(self.static, self.cluster_wide, self.per_broker)
        self._values: dict[str, Value] = {}

    def __repr__(self) -> str:
        return f"Settings({', '.join(sorted(self._effective))})"

    def replace(
        self, cluster_wide: Mapping[str, str] | None = None, per_broker: Mapping[str, str] | None = None
    ) -> Self:
        """The same with other layers of run time; None keeps one."""
        return type(self)(
            self._given.values(),
            self.cluster_wide if cluster_wide is None else cluster_wide,
            self.per_broker if per_broker is None else per_broker,
        )

    @property
    def effective(self) -> Mapping[str, str]:
        """The texts that count, of all keys that are set anywhere."""
        return self._effective

    def value(self, name: str) -> Value:
        """The value of a key that is known, its default if nobody set it."""
        if name not in self._values:
            self._values[name] = self._parsed(name)
        return self._values[name]

    def number(self, name: str) -> int:
        """The value of a key that is a whole number and has a default."""
        value = self.value(name)
        assert isinstance(value, int)
        return value

    def text(self, name: str) -> str | None:
        """The value of a key that is a text."""
        value = self.value(name)
        assert value is None or isinstance(value, str)
        return value

    def candidates(self, name: str) -> list[Synonym]:
        """All texts that could determine a value, the one that does first.

        As in Kafka a synonym counts only behind the key itself: where log.retention.hours alone is set,
        log.retention.ms has no candidates.
        """
        names, known = synonyms(name), broker_keys()
        layers = (
            (Source.DYNAMIC_BROKER_CONFIG, self.per_broker),
            (Source.DYNAMIC_DEFAULT_BROKER_CONFIG, self.cluster_wide),
            (Source.STATIC_BROKER_CONFIG, self.static),
        )
        found = [Synonym(each, layer[each], source) for source, layer in layers for each in names if each in layer]
        defaults = [(each, known[each].default) for each in names if each in known]
        found += [Synonym(each, text, Source.DEFAULT_CONFIG) for each, text in defaults if text is not None]
        start = next((at for at, each in enumerate(found) if each.name == name), len(found))
        return found[start:]

    def error(self, names: Iterable[str], what: str) -> ConfigError:
        """What is wrong with the first of these keys that is set, or with the first of them if none is."""
        listed = list(names)
        name = next((each for each in listed if each in self._effective), listed[0])
        key = broker_key(name)
        text = self._effective.get(name, key.default if key else None)
        said = f"{assignment(name, text, key is None or key.secret)}: {what}"
        origin = self._origin(name)
        return ConfigError(f"{origin}: {said}" if origin else said)

    def _parsed(self, name: str) -> Value:
        key = broker_key(name)
        assert key is not None
        text = self._effective.get(name, key.default)
        if text is None:
            return None
        try:
            return parse(key, text)
        except BadValue as error:
            raise self.error([name], str(error)) from None

    def _origin(self, name: str) -> str:
        if name in self.per_broker:
            return "config of this broker"
        if name in self.cluster_wide:
            return "config of all brokers"
        return self._given[name].origin if name in self._given else ""


def _laid_over(*layers: Mapping[str, str]) -> dict[str, str]:
    result: dict[str, str] = {}
    for layer in layers:
        for name in layer:
            for each in displaced(name):
                # Of the same layer it stays: which of the two counts is decided by the unit.
                if each not in layer:
                    result.pop(each, None)
        result.update(layer)
    return result
