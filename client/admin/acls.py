"""Access control lists: describe, create, delete. A cluster without an authorizer answers SECURITY_DISABLED."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from minikafka.client.admin.asking import raise_for, verdict
from minikafka.client.admin.calls import Calls
from minikafka.client.admin.results import Results
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages import acls as wire


class ResourceType(IntEnum):
    """What a rule is about; ANY is for filters."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the resource's name is meant. ANY and MATCH are for filters; MATCH finds all rules that apply to a name."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What is allowed or denied; ANY is for filters."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class AclPermission(IntEnum):
    """ANY is for filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class AclBinding:
    """One rule: who may, or may not, do what to which resource."""

    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        what = f"{self.resource_type.name.lower()} {self.resource_name}"
        return f"{self.permission.name.lower()} {self.principal} {self.operation.name.lower()} on {what}"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which rules are meant; as it is, all of them."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY


class AclCalls(Calls):
    """See the module's description."""

    async def describe_acls(self, acl_filter: AclFilter | None = None) -> list[AclBinding]:
        """The rules that match."""
        wanted = acl_filter or AclFilter()
        request = wire.DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )
        answer: wire.DescribeAclsResponse = await self._ask.ask_any(request)
        raise_for(answer.error_code, answer.error_message)
        return [
            AclBinding(
                ResourceType(resource.resource_type),
                resource.resource_name,
                rule.principal,
                AclOperation(rule.operation),
                AclPermission(rule.permission_type),
                rule.host,
                PatternType(resource.pattern_type),
            )
            for resource in answer.resources
            for rule in resource.acls
        ]

    async def create_acls(
        self, bindings: Iterable[AclBinding], *, raise_errors: bool = True
    ) -> Results[AclBinding, None]:
        """Add rules; one that is there already stays."""
        asker = self._ask

        async def ask(node_id: int, wanted: list[AclBinding]) -> Mapping[AclBinding, KafkaError | None]:
            request = wire.CreateAclsRequest(creations=[_creation(each) for each in wanted])
            answer: wire.CreateAclsResponse = await asker.request(node_id, request)
            # The answers have no names: they are in the order of the request.
            return {
                each: verdict(found.error_code, found.error_message)
                for each, found in zip(wanted, answer.results, strict=False)
            }

        results: Results[AclBinding, None] = await asker.settle(bindings, asker.at_controller, ask)
        return results.checked(raise_errors)

    async def delete_acls(
        self, filters: Iterable[AclFilter], *, raise_errors: bool = True
    ) -> Results[AclFilter, tuple[AclBinding, ...]]:
        """Delete all rules that match; which ones those were."""
        asker = self._ask

        async def ask(node_id: int, wanted: list[AclFilter]) -> Mapping[AclFilter, tuple[AclBinding, ...] | KafkaError]:
            request = wire.DeleteAclsRequest(filters=[_deletion(each) for each in wanted])
            answer: wire.DeleteAclsResponse = await asker.request(node_id, request)
            return {each: _deleted(found) for each, found in zip(wanted, answer.filter_results, strict=False)}

        return (await asker.settle(filters, asker.at_controller, ask)).checked(raise_errors)


def _creation(rule: AclBinding) -> wire.AclCreation:
    return wire.AclCreation(
        resource_type=rule.resource_type,
        resource_name=rule.resource_name,
        resource_pattern_type=rule.pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )


def _deletion(wanted: AclFilter) -> wire.DeleteAclsFilter:
    return wire.DeleteAclsFilter(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def _deleted(found: wire.DeleteAclsFilterResult) -> tuple[AclBinding, ...] | KafkaError:
    errors = [(found.error_code, found.error_message)]
    errors += [(each.error_code, each.error_message) for each in found.matching_acls]
    for code, message in errors:
        if code:
            return error_for(code, message)
    return tuple(
        AclBinding(
            ResourceType(rule.resource_type),
            rule.resource_name,
            rule.principal,
            AclOperation(rule.operation),
            AclPermission(rule.permission_type),
            rule.host,
            PatternType(rule.pattern_type),
        )
        for rule in found.matching_acls
    )
