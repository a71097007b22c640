"""Opening a connection: connect, agree on versions, log in, all within one time limit."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from typing import Final

import minikafka
from minikafka.client.config import Address, ClientConfig
from minikafka.client.connection import Connection
from minikafka.client.errors import AuthenticationFailed, ConnectionFailed, WrongListener
from minikafka.client.sasl import make_login
from minikafka.client.shared import see_through
from minikafka.client.versions import Features, Versions
from minikafka.protocol.errors import ErrorCode, UnsupportedVersionError, error_for
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

_RENEW_AT: Final = 0.85
"""The part of a login's lifetime after which another connection takes over, as Kafka's own client does."""

_ANY: Final = Versions([ApiVersion(api_key=18, min_version=0, max_version=4)])
"""What may be sent before the broker has said what it speaks."""


async def open_connection(
    address: Address,
    config: ClientConfig,
    tls: ssl.SSLContext | None = None,
    scratch: bytearray | None = None,
) -> Connection:
    """A connection that is ready for requests.

    ConnectionFailed if nobody answers in time, WrongListener if what answers is not what the config says,
    AuthenticationFailed if the login is refused. Connections of one loop may share a scratch buffer to read into.
    """
    limit_ms = config.socket_connection_setup_timeout_ms
    try:
        async with asyncio.timeout(limit_ms / 1000):
            connection = await Connection.dial(address, config, tls, scratch)
            try:
                await _agree_on_versions(connection)
                if config.uses_sasl:
                    await _log_in(connection, config)
            except BaseException:
                connection.break_off(ConnectionFailed(f"{address}: given up while it was being opened"))
                await see_through(connection.wait_closed())
                raise
            return connection
    except TimeoutError:
        raise ConnectionFailed(f"{address}: not connected within {limit_ms} ms") from None


async def _agree_on_versions(connection: Connection) -> None:
    connection.versions = _ANY
    request = ApiVersionsRequest(client_software_name="minikafka", client_software_version=minikafka.__version__)
    answer: ApiVersionsResponse = await connection.request(request)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        # An older broker. It says what it speaks, or at least understands the oldest form.
        highest = max((each.max_version for each in answer.api_keys if each.api_key == request.api_key), default=0)
        answer = await connection.request(request, max_version=min(highest, 3))
    if answer.error_code:
        raise error_for(answer.error_code, f"{connection.address} refused to say which versions it speaks")
    connection.versions = Versions(answer.api_keys)
    connection.features = Features.of(answer)


async def _log_in(connection: Connection, config: ClientConfig) -> None:
    address, mechanism = connection.address, config.sasl_mechanism
    try:
        shaken: SaslHandshakeResponse = await connection.request(
            SaslHandshakeRequest(mechanism=mechanism), min_version=1
        )
    except UnsupportedVersionError:
        raise WrongListener(f"{address}: the broker knows no SASL login") from None
    if shaken.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(shaken.mechanisms) or "none"
        raise AuthenticationFailed(f"{address}: the broker does not offer {mechanism}; it offers {offered}")
    if shaken.error_code:
        raise WrongListener(f"{address}: the listener takes no SASL login ({error_for(shaken.error_code)})")
    assert config.sasl_plain_username is not None and config.sasl_plain_password is not None
    login = make_login(mechanism, config.sasl_plain_username, config.sasl_plain_password, secrets.token_urlsafe(24))
    message: bytes | None = login.first()
    while message is not None:
        answer: SaslAuthenticateResponse = await connection.request(SaslAuthenticateRequest(auth_bytes=message))
        if answer.error_code:
            raise AuthenticationFailed(f"{address}: {answer.error_message or error_for(answer.error_code).message}")
        message = login.answer(answer.auth_bytes)
        if answer.session_lifetime_ms > 0:
            lifetime_s = answer.session_lifetime_ms / 1000
            connection.expires_at = asyncio.get_running_loop().time() + lifetime_s * _RENEW_AT
