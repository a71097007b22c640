"""Delegation tokens: not to be had over a connection of which nobody knows who is at its other end.

That is every connection here. v3 lets somebody ask for another's token, and so tells both of them.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.sasl import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenResponse,
)

_CODE: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
_NEVER: Final = -1
_OWNER_VERSION: Final = 3


def routes(context: Context) -> list[Route]:
    # What may be done with a token is its owner's business; only to see those of others takes a permission.
    return [
        Route(APIS[38], _create, Operation.NONE, Resource.NONE),
        Route(APIS[39], _renew, Operation.NONE, Resource.NONE),
        Route(APIS[40], _expire, Operation.NONE, Resource.NONE),
        Route(APIS[41], _describe, Operation.DESCRIBE, Resource.DELEGATION_TOKEN),
    ]


def _create(call: Call) -> CreateDelegationTokenResponse:
    request: CreateDelegationTokenRequest = call.request
    kind, _, name = call.connection.principal.partition(":")
    owner_kind, owner = kind, name
    if call.version >= _OWNER_VERSION and request.owner_principal_name:
        owner_kind, owner = request.owner_principal_type or kind, request.owner_principal_name
    return CreateDelegationTokenResponse(
        error_code=_CODE,
        principal_type=owner_kind,
        principal_name=owner,
        token_requester_principal_type=kind,
        token_requester_principal_name=name,
        issue_timestamp_ms=_NEVER,
        expiry_timestamp_ms=_NEVER,
        max_timestamp_ms=_NEVER,
    )


def _renew(call: Call) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=_CODE, expiry_timestamp_ms=_NEVER)


def _expire(call: Call) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=_CODE, expiry_timestamp_ms=_NEVER)


def _describe(call: Call) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=_CODE)
