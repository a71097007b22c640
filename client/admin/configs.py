"""Configs of topics and brokers: describe, change, replace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from minikafka.client.admin.asking import Asker, Locate, Place, verdict
from minikafka.client.admin.calls import Calls
from minikafka.client.admin.results import Results
from minikafka.client.errors import ConfigError
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.message import Request
from minikafka.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)


class ConfigResourceType(IntEnum):
    """What can have configs, by the numbers of the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class ConfigSource(IntEnum):
    """Where a value comes from, by the numbers of the protocol."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def of(cls, number: int) -> ConfigSource:
        return cls(number) if number in cls._value2member_map_ else cls.UNKNOWN


class AlterOperation(IntEnum):
    """What to do to a config: APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A topic by its name or a broker by its id; an empty name is that of all brokers together."""

    resource_type: ConfigResourceType
    name: str

    def __str__(self) -> str:
        kind = self.resource_type.name.lower().replace("_", " ")
        return f"{kind} {self.name}" if self.name else f"all {kind}s"

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int | None = None) -> ConfigResource:
        """One broker, or what holds for all of them."""
        return cls(ConfigResourceType.BROKER, "" if node_id is None else str(node_id))

    @property
    def node_id(self) -> int | None:
        """The only broker that can tell or change these configs; None if any can."""
        if self.resource_type == ConfigResourceType.TOPIC or not self.name:
            return None
        if not self.name.isdecimal():
            raise ConfigError(f"{self.name!r} is no id of a broker")
        return int(self.name)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config; the value of a sensitive one is not told."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...] = ()
    """Where else it is set, the strongest first: name, value, source."""
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source in (ConfigSource.DEFAULT, ConfigSource.UNKNOWN)


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of `incremental_alter_configs`."""

    name: str
    value: str | None = None
    operation: AlterOperation = AlterOperation.SET


class ConfigCalls(Calls):
    """See the module's description."""

    async def describe_configs(
        self,
        config_resources: Iterable[ConfigResource],
        *,
        names: Collection[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        raise_errors: bool = True,
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """The configs that hold, by name; all there are unless some are named."""
        asker = self._ask

        async def ask(
            node_id: int, resources: list[ConfigResource]
        ) -> Mapping[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=each.resource_type,
                        resource_name=each.name,
                        configuration_keys=None if names is None else [*names],
                    )
                    for each in resources
                ],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )
            answer: DescribeConfigsResponse = await asker.request(node_id, request)
            return {
                _resource(each.resource_type, each.resource_name): verdict(each.error_code, each.error_message)
                or {found.name: _entry(found) for found in each.configs}
                for each in answer.results
            }

        results = await asker.settle(config_resources, _located_by(asker), ask)
        return results.checked(raise_errors)

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange] | Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> Results[ConfigResource, None]:
        """Change some configs and leave the others; in the short form, by name, None takes a config away."""
        whole = {resource: _changes(given) for resource, given in changes.items()}

        def make(resources: list[ConfigResource]) -> Request:
            return IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalAlterConfigsResource(
                        resource_type=each.resource_type,
                        resource_name=each.name,
                        configs=[
                            IncrementalAlterableConfig(
                                name=change.name, config_operation=change.operation, value=change.value
                            )
                            for change in whole[each]
                        ],
                    )
                    for each in resources
                ],
                validate_only=validate_only,
            )

        return (await _altered(self._ask, whole, make)).checked(raise_errors)

    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> Results[ConfigResource, None]:
        """Replace all configs: those that are not named go back to their defaults."""

        def make(resources: list[ConfigResource]) -> Request:
            return AlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=each.resource_type,
                        resource_name=each.name,
                        configs=[AlterableConfig(name=name, value=value) for name, value in configs[each].items()],
                    )
                    for each in resources
                ],
                validate_only=validate_only,
            )

        return (await _altered(self._ask, configs, make)).checked(raise_errors)


async def _altered(
    asker: Asker, resources: Iterable[ConfigResource], make: Callable[[list[ConfigResource]], Request]
) -> Results[ConfigResource, None]:
    async def ask(node_id: int, asked: list[ConfigResource]) -> Mapping[ConfigResource, KafkaError | None]:
        answer: AlterConfigsResponse | IncrementalAlterConfigsResponse = await asker.request(node_id, make(asked))
        return {
            _resource(each.resource_type, each.resource_name): verdict(each.error_code, each.error_message)
            for each in answer.responses
        }

    return await asker.settle(resources, _located_by(asker), ask)


def _located_by(asker: Asker) -> Locate[ConfigResource]:
    """Brokers are asked about themselves, all else the controller: what is changed there can be seen there next."""

    async def locate(resources: Collection[ConfigResource]) -> Mapping[ConfigResource, Place]:
        own = {each: each.node_id for each in resources}
        places: dict[ConfigResource, Place] = {}
        for each, node_id in own.items():
            if node_id is not None:
                places[each] = (await asker.at_themselves([node_id]))[node_id]
        return places | {**await asker.at_controller([each for each, node_id in own.items() if node_id is None])}

    return locate


def _changes(given: Iterable[ConfigChange] | Mapping[str, str | None]) -> list[ConfigChange]:
    if not isinstance(given, Mapping):
        return [*given]
    return [
        ConfigChange(name, operation=AlterOperation.DELETE) if value is None else ConfigChange(name, value)
        for name, value in given.items()
    ]


def _resource(resource_type: int, name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType(resource_type), name)


def _entry(found: DescribeConfigsResourceResult) -> ConfigEntry:
    # Version 0 only says whether it is the default.
    source = ConfigSource.of(found.config_source)
    if found.is_default:
        source = ConfigSource.DEFAULT
    return ConfigEntry(
        found.name,
        found.value,
        source,
        found.read_only,
        found.is_sensitive,
        tuple((each.name, each.value, ConfigSource.of(each.source)) for each in found.synonyms),
        found.documentation,
    )
