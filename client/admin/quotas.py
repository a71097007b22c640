"""Quotas of users, clients and addresses: describe and alter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from minikafka.client.admin.asking import raise_for, verdict
from minikafka.client.admin.calls import Calls
from minikafka.client.admin.results import Results
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages import quotas as wire

QUOTA_DEFAULT: Final = "<default>"
"""In place of a name: whatever has no quota of its own."""

QUOTA_ANY: Final = "<any>"
"""In place of a name, when asking: every one that has a quota."""

_EXACT, _DEFAULT, _ANY = 0, 1, 2


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Who has a quota: a user, a client id, both together, or an address. None is no part of it."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def parts(self) -> dict[str, str]:
        """By the names of the protocol."""
        named = {"user": self.user, "client-id": self.client_id, "ip": self.ip}
        return {kind: name for kind, name in named.items() if name is not None}

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name}" for kind, name in self.parts.items()) or "nobody"


class QuotaCalls(Calls):
    """See the module's description."""

    async def describe_client_quotas(
        self, who: QuotaEntity | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas of all, or of those that match; strict: those that have no other parts than asked for."""
        matches = (who or QuotaEntity()).parts
        request = wire.DescribeClientQuotasRequest(
            components=[_component(kind, name) for kind, name in matches.items()], strict=strict
        )
        answer: wire.DescribeClientQuotasResponse = await self._ask.ask_any(request)
        raise_for(answer.error_code, answer.error_message)
        return {
            _entity(entry.entity): {value.key: value.value for value in entry.values} for entry in answer.entries or ()
        }

    async def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> Results[QuotaEntity, None]:
        """Set quotas by their keys, such as `producer_byte_rate`; None takes one away, others stay as they are."""
        asker = self._ask

        async def ask(node_id: int, entities: list[QuotaEntity]) -> Mapping[QuotaEntity, KafkaError | None]:
            request = wire.AlterClientQuotasRequest(
                entries=[
                    wire.QuotaAlteration(entity=_parts(entity), ops=[_op(*each) for each in quotas[entity].items()])
                    for entity in entities
                ],
                validate_only=validate_only,
            )
            answer: wire.AlterClientQuotasResponse = await asker.request(node_id, request)
            return {_entity(each.entity): verdict(each.error_code, each.error_message) for each in answer.entries}

        results: Results[QuotaEntity, None] = await asker.settle(quotas, asker.at_controller, ask)
        return results.checked(raise_errors)


def _component(kind: str, name: str) -> wire.QuotaFilterComponent:
    match_type = {QUOTA_DEFAULT: _DEFAULT, QUOTA_ANY: _ANY}.get(name, _EXACT)
    return wire.QuotaFilterComponent(
        entity_type=kind, match_type=match_type, match=name if match_type == _EXACT else None
    )


def _parts(entity: QuotaEntity) -> list[wire.QuotaEntity]:
    return [
        wire.QuotaEntity(entity_type=kind, entity_name=None if name == QUOTA_DEFAULT else name)
        for kind, name in entity.parts.items()
    ]


def _op(key: str, value: float | None) -> wire.QuotaOp:
    return wire.QuotaOp(key=key, value=0.0 if value is None else float(value), remove=value is None)


def _entity(parts: list[wire.QuotaEntity]) -> QuotaEntity:
    named = {each.entity_type: QUOTA_DEFAULT if each.entity_name is None else each.entity_name for each in parts}
    return QuotaEntity(named.get("user"), named.get("client-id"), named.get("ip"))
