"""SaslHandshake, SaslAuthenticate: on a connection that needs no authentication, or has it behind it, out of place."""

from __future__ import annotations

from minikafka.broker.context import Context
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.sasl import SaslAuthenticateResponse, SaslHandshakeResponse


def routes(context: Context) -> list[Route]:
    return [
        Route(APIS[17], _handshake, Operation.NONE, Resource.NONE),
        Route(APIS[36], _authenticate, Operation.NONE, Resource.NONE),
    ]


def _handshake(call: Call) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def _authenticate(call: Call) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=f"listener {call.connection.listener} needs no password"
    )
