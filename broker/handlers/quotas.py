"""DescribeClientQuotas, AlterClientQuotas: stored where Kafka stores them, shown, and not enforced.

- Describing: of every component of the filter an entity must have a name that fits. If it is strict, it must have no
  other names beside. A filter without components asks for all; a strict one for nobody.
- Altering: every entry succeeds or fails alone. One entity's entries are made one after the other and answered as one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from minikafka.broker.context import Context
from minikafka.broker.handlers.patience import Patience
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.broker.quota_configs import (
    CLIENT,
    IP,
    USER,
    Names,
    checked_names,
    entity_of,
    quota_keys,
    quota_text,
    quota_values,
)
from minikafka.broker.zookeeper.config_nodes import DEFAULT, NO_NODES, Entity, desanitize, sanitize
from minikafka.broker.zookeeper.config_store import Stored, change_config, in_batches, names_below, read_config
from minikafka.broker.zookeeper.coord import Coord, insist
from minikafka.broker.zookeeper.json_node import BadNode
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import InvalidRequestError, KafkaError, UnsupportedVersionError
from minikafka.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaAlteration,
    QuotaAlterationResult,
    QuotaEntity,
    QuotaEntry,
    QuotaFilterComponent,
    QuotaOp,
    QuotaValue,
)

log: Final = logging.getLogger(__name__)

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2

_USERS: Final = "/config/users"
_CLIENTS: Final = "/config/clients"
_IPS: Final = "/config/ips"

Found: TypeAlias = tuple[Names, Mapping[str, float]]
"""Whose quotas, and which."""


class Filter(NamedTuple):
    """What is asked for: a node's name for every type of entity, None for any."""

    wanted: Mapping[str, str | None]
    is_strict: bool

    def admits(self, *kinds: str) -> bool:
        """Whether an entity with names of these types can be one of those asked for."""
        return set(self.wanted) == set(kinds) if self.is_strict else set(self.wanted) <= set(kinds)

    async def nodes(self, coord: Coord, kind: str, path: str) -> list[str]:
        """The nodes below a path that may fit."""
        node = self.wanted.get(kind)
        if node is None:
            return await names_below(coord, path)
        return [node] if node not in NO_NODES else []


def routes(context: Context) -> list[Route]:
    handlers = QuotaHandlers(context)
    return [
        Route(APIS[48], handlers.describe, Operation.DESCRIBE_CONFIGS, Resource.CLUSTER),
        Route(APIS[49], handlers.alter, Operation.ALTER_CONFIGS, Resource.CLUSTER),
    ]


class QuotaHandlers:
    """See the module's description."""

    def __init__(self, context: Context) -> None:
        self._context = context
        # On a connection, a request sees what those before it did.
        self._changes = asyncio.Lock()

    async def describe(self, call: Call) -> DescribeClientQuotasResponse:
        request: DescribeClientQuotasRequest = call.request
        coord, patience = self._context.coord, Patience(self._context)
        try:
            wanted = _filter(request.components, request.strict)
            async with self._changes:
                found = await patience.ask(lambda: insist(coord, lambda: _find(coord, wanted)))
            return DescribeClientQuotasResponse(entries=[_entry(*each) for each in found])
        except KafkaError as error:
            return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message)

    async def alter(self, call: Call) -> AlterClientQuotasResponse:
        request: AlterClientQuotasRequest = call.request
        patience, results = Patience(self._context), {}
        async with self._changes:
            for entry in request.entries:
                result = QuotaAlterationResult(entity=entry.entity)
                try:
                    await patience.ask(partial(self._alter_one, entry, request.validate_only))
                except KafkaError as error:
                    result.error_code, result.error_message = error.code, error.message
                results[frozenset((each.entity_type, each.entity_name) for each in entry.entity)] = result
        return AlterClientQuotasResponse(entries=list(results.values()))

    async def _alter_one(self, entry: QuotaAlteration, validate_only: bool) -> None:
        names = checked_names((each.entity_type, each.entity_name) for each in entry.entity)
        texts = {each.key: _text(names, each) for each in entry.ops}
        if not validate_only:
            await change_config(self._context.coord, entity_of(names), partial(_altered, names, texts))


def _text(names: Names, op: QuotaOp) -> str | None:
    """What to store for a quota; None if it is to go."""
    return None if op.remove else quota_text(names, op.key, op.value)


def _altered(names: Names, texts: Mapping[str, str | None], stored: Mapping[str, str]) -> dict[str, str]:
    gone = {key for key, text in texts.items() if text is None and key in quota_keys(names)}
    kept = {key: text for key, text in stored.items() if key not in gone}
    return kept | {key: text for key, text in texts.items() if text is not None}


def _filter(components: Sequence[QuotaFilterComponent], is_strict: bool) -> Filter:
    wanted: dict[str, str | None] = {}
    for each in components:
        if not each.entity_type or each.entity_type in wanted:
            raise InvalidRequestError(f"the type of entity {each.entity_type!r} is missing or there twice")
        if each.entity_type not in (USER, CLIENT, IP):
            raise UnsupportedVersionError(f"there are no quotas for {each.entity_type!r}")
        wanted[each.entity_type] = _wanted_node(each)
    if IP in wanted and len(wanted) > 1:
        raise InvalidRequestError("a quota is for an address, or for users and clients")
    return Filter(wanted, is_strict)


def _wanted_node(component: QuotaFilterComponent) -> str | None:
    if component.match_type == _ANY:
        return None
    if component.match_type == _DEFAULT:
        return DEFAULT
    if component.match_type != _EXACT or component.match is None:
        raise InvalidRequestError(f"{component.entity_type}: no match of type {component.match_type} without a name")
    return sanitize(component.match)


async def _find(coord: Coord, wanted: Filter) -> list[Found]:
    """All quotas that are asked for."""
    found = []
    for kind, path in ((CLIENT, _CLIENTS), (IP, _IPS)):
        if wanted.admits(kind):
            found += await _quotas_below(coord, wanted, kind, path, {})
    if wanted.admits(USER) or wanted.admits(USER, CLIENT):
        nodes = await wanted.nodes(coord, USER, _USERS)
        for each in await in_batches(nodes, partial(_quotas_of_user, coord, wanted)):
            found += each
    return found


async def _quotas_below(coord: Coord, wanted: Filter, kind: str, path: str, above: Names) -> list[Found]:
    nodes = await wanted.nodes(coord, kind, path)
    stored = await in_batches([f"{path}/{node}" for node in nodes], partial(_read, coord))
    named = [({**above, kind: desanitize(node)}, each.texts) for node, each in zip(nodes, stored, strict=True)]
    return [(names, values) for names, texts in named if (values := quota_values(texts))]


async def _quotas_of_user(coord: Coord, wanted: Filter, node: str) -> list[Found]:
    """A user's own, and those of its clients."""
    path, names = f"{_USERS}/{node}", {USER: desanitize(node)}
    stored = await _read(coord, path)
    values = quota_values(stored.texts)
    found: list[Found] = [(names, values)] if values and wanted.admits(USER) else []
    if stored.child_count and wanted.admits(USER, CLIENT):
        found += await _quotas_below(coord, wanted, CLIENT, f"{path}/clients", names)
    return found


async def _read(coord: Coord, path: str) -> Stored:
    try:
        return await read_config(coord, Entity(path.removeprefix("/config/")))
    except BadNode as error:
        log.warning("%s; it is passed over", error)
        return Stored({}, None, 0)


def _entry(names: Names, values: Mapping[str, float]) -> QuotaEntry:
    return QuotaEntry(
        entity=[QuotaEntity(entity_type=kind, entity_name=name) for kind, name in names.items()],
        values=[QuotaValue(key=key, value=value) for key, value in values.items()],
    )
