"""DescribeAcls, CreateAcls, DeleteAcls: there is no authorizer, so there are no access lists to be had or made."""

from __future__ import annotations

from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsResponse,
)

_CODE: Final = ErrorCode.SECURITY_DISABLED
_WHY: Final = "There is no authorizer."


def routes(context: Context) -> list[Route]:
    return [
        Route(APIS[29], _describe, Operation.DESCRIBE, Resource.CLUSTER),
        Route(APIS[30], _create, Operation.ALTER, Resource.CLUSTER),
        Route(APIS[31], _delete, Operation.ALTER, Resource.CLUSTER),
    ]


def _describe(call: Call) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=_CODE, error_message=_WHY)


def _create(call: Call) -> CreateAclsResponse:
    request: CreateAclsRequest = call.request
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=_CODE, error_message=_WHY)] * len(request.creations)
    )


def _delete(call: Call) -> DeleteAclsResponse:
    request: DeleteAclsRequest = call.request
    refused = DeleteAclsFilterResult(error_code=_CODE, error_message=_WHY, matching_acls=[])
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
