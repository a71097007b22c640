"""From a frame to the handler of its request, and from the handler's answer to a frame.

`Route`s are the one table of what this broker serves: ApiVersions is answered from it, so nothing is
advertised that has no handler.  Each names the operation and the resource it will be authorised for.

A handler does its first stage at once, in the order of the requests of a connection: this is where a batch gets
its offset.  What it has to wait for it returns as an awaitable, which may overlap with later requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple

from minikafka.broker.network.connection import Connection, Parts, Reply
from minikafka.protocol.apis import Api
from minikafka.protocol.errors import DecodeError, ErrorCode
from minikafka.protocol.frame import finish_frame, start_frame
from minikafka.protocol.headers import (
    API_VERSIONS_KEY,
    decode_request_header,
    decode_request_prefix,
    encode_response_header,
    response_header_is_flexible,
)
from minikafka.protocol.message import Response
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse


class Operation(Enum):
    """What a principal may be allowed to do; Kafka's names."""

    NONE = "None"
    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"


class Resource(Enum):
    """What it may be allowed on."""

    NONE = "None"
    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"
    TRANSACTIONAL_ID = "TransactionalId"
    DELEGATION_TOKEN = "DelegationToken"
    USER = "User"


class Call(NamedTuple):
    """One request with all that a handler may want to know about it."""

    request: Any
    version: int
    client_id: str | None
    connection: Connection


Handler = Callable[[Call], Response | Awaitable[Response | None] | None]
"""None: no answer is due, as for Produce with acks=0."""


class Route(NamedTuple):
    """An API that this broker serves."""

    api: Api
    handler: Handler
    operation: Operation
    resource: Resource
    is_advertised: bool = True


class Dispatcher:
    """Calls handlers; an instance is what connections serve their frames with."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = {route.api.key: route for route in routes}

    def __call__(self, connection: Connection, frame: bytes | bytearray) -> Reply:
        key, version, correlation_id = decode_request_prefix(frame)
        route = self.routes.get(key)
        if route is None:
            raise DecodeError(f"no api {key} here")
        if not route.api.request.supports(version):
            return self._refuse_version(route, version, correlation_id)
        flexible = route.api.is_flexible(version)
        header, pos = decode_request_header(frame, flexible)
        request = route.api.request.decode(frame, version, pos)
        answer = route.handler(Call(request, version, header.client_id, connection))
        out = start_frame(encode_response_header(correlation_id, response_header_is_flexible(key, flexible)))
        if answer is None:
            return None
        if isinstance(answer, Response):
            return finish_frame(answer.encode(version, out))
        return _later(answer, version, out)

    def _refuse_version(self, route: Route, version: int, correlation_id: int) -> Parts:
        """Only ApiVersions can say so: every client asks it first and understands its oldest answer."""
        if route.api.key != API_VERSIONS_KEY:
            raise DecodeError(f"{route.api.name} has no version {version}")
        low, high = route.api.versions
        row = ApiVersion(api_key=API_VERSIONS_KEY, min_version=low, max_version=high)
        answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[row])
        return finish_frame(answer.encode(0, start_frame(encode_response_header(correlation_id, flexible=False))))


async def _later(answer: Awaitable[Response | None], version: int, out: bytearray) -> Parts | None:
    response = await answer
    return None if response is None else finish_frame(response.encode(version, out))
