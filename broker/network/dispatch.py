"""From a frame to the handler of its request, and from the handler's answer to a frame.

`Route`s are the one table of what this broker serves: ApiVersions is answered from it, so nothing is
advertised that has no handler.  Each names the operation and the resource it will be authorised for.

A handler does its first stage at once, in the order of the requests of a connection: this is where a batch gets
its offset.  What it has to wait for it returns as an awaitable, which may overlap with later requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from enum import Enum
from time import perf_counter_ns
from typing import Any, Final, NamedTuple, TypeAlias

from minikafka.broker.network.connection import Connection
from minikafka.broker.network.outcomes import count_errors
from minikafka.broker.network.reply import Parts, Reply
from minikafka.broker.statistics import RequestStatistics, Statistics
from minikafka.protocol.apis import Api
from minikafka.protocol.control_codec import ControlApi, ControlMessage
from minikafka.protocol.errors import DecodeError, ErrorCode
from minikafka.protocol.frame import finish_frame, start_frame
from minikafka.protocol.headers import (
    API_VERSIONS_KEY,
    decode_client_id,
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


Answer: TypeAlias = Response | ControlMessage
_ANSWERS: Final = (Response, ControlMessage)

Handler = Callable[[Call], Answer | Awaitable[Answer | None] | None]
"""None: no answer is due, as for Produce with acks=0."""


class Route(NamedTuple):
    """An API that this broker serves."""

    api: Api | ControlApi
    handler: Handler
    operation: Operation
    resource: Resource
    is_advertised: bool = True
    is_control: bool = False
    """Of the control plane: for brokers only, and served before anything else is."""
    is_of_follower: Callable[[Call], bool] | None = None
    """Which of its requests come from brokers that follow: these are for brokers only, and counted apart."""


class _Served(NamedTuple):
    """What a request of one API and version needs."""

    route: Route
    is_flexible: bool
    header_is_flexible: bool
    """Of the answer."""
    statistics: RequestStatistics


class Dispatcher:
    """Calls handlers; an instance is what connections serve their frames with."""

    def __init__(
        self,
        routes: Iterable[Route],
        statistics: Statistics | None = None,
        control_listeners: Collection[str] = (),
    ) -> None:
        self.routes = {route.api.key: route for route in routes}
        self._statistics = statistics or Statistics()
        self._control_listeners = control_listeners
        self._opened: asyncio.Event | None = None
        # By api key and version, filled when they are first asked for.
        self._served: dict[tuple[int, int], _Served] = {}

    def hold(self) -> None:
        """Let requests wait that are about the cluster: this broker does not know it yet."""
        self._opened = asyncio.Event()

    def release(self) -> None:
        """Serve from now on, first those that waited, in their order."""
        if self._opened is not None:
            self._opened.set()

    def __call__(self, connection: Connection, frame: bytes | bytearray) -> Reply:
        if connection.shortcut is not None and isinstance(frame, bytearray):
            reply = connection.shortcut(frame)
            if reply is not None:
                return reply
        began = perf_counter_ns()
        key, version, correlation_id = decode_request_prefix(frame)
        served = self._served.get((key, version))
        if served is None:
            served = self._look_up(key, version)
            if served is None:
                return self._refuse_version(key, version, correlation_id)
        route, flexible, header_is_flexible, statistics = served
        if route.is_control:
            self._check_is_for_brokers(route, connection)
        client_id, pos = decode_client_id(frame, flexible)
        call = Call(route.api.request.decode(frame, version, pos), version, client_id, connection)
        if route.is_of_follower is not None and route.is_of_follower(call):
            self._check_is_for_brokers(route, connection)
            statistics = self._statistics.follower_fetches
            served = served._replace(statistics=statistics)
        out = start_frame(encode_response_header(correlation_id, header_is_flexible))
        if self._opened is not None and not route.is_control and key != API_VERSIONS_KEY:
            return self._wait_and_handle(served, call, out, began)
        answer = route.handler(call)
        if isinstance(answer, _ANSWERS):
            return _finished(statistics, answer, version, out, began)
        return None if answer is None else self._later(served, answer, version, out, began)

    def _check_is_for_brokers(self, route: Route, connection: Connection) -> None:
        """Who says of itself that it is a broker is believed on the listeners of brokers only: what a follower claims
        to have is committed by that."""
        if connection.listener not in self._control_listeners:
            raise DecodeError(f"{route.api.name} of brokers is not for listener {connection.listener}")
        if not connection.is_of_broker:
            connection.become_brokers()

    def _look_up(self, key: int, version: int) -> _Served | None:
        """What serves a request; None if it is ours, but not in this version."""
        route = self.routes.get(key)
        if route is None:
            raise DecodeError(f"no api {key} here")
        if not route.api.request.supports(version):
            return None
        flexible = route.api.request.is_flexible(version)
        served = _Served(route, flexible, response_header_is_flexible(key, flexible), self._statistics.requests[key])
        self._served[key, version] = served
        return served

    async def _wait_and_handle(self, served: _Served, call: Call, out: bytearray, began: int) -> Parts | None:
        """The same for a request that came too early. The first to wait is the first to be woken."""
        opened = self._opened
        if opened is not None:
            await opened.wait()
            self._opened = None
        answer = served.route.handler(call)
        # The connection has counted this request already, and would take it for the next one's.
        call.connection.has_released = False
        if isinstance(answer, _ANSWERS):
            return _finished(served.statistics, answer, call.version, out, began)
        return None if answer is None else await self._later(served, answer, call.version, out, began)

    async def _later(
        self, served: _Served, answer: Awaitable[Answer | None], version: int, out: bytearray, began: int
    ) -> Parts | None:
        response = await answer
        if response is not None:
            return _finished(served.statistics, response, version, out, began)
        served.statistics.add(version, (perf_counter_ns() - began) // 1000)
        return None

    def _refuse_version(self, key: int, version: int, correlation_id: int) -> Parts:
        """Only ApiVersions can say so: every client asks it first and understands its oldest answer."""
        api = self.routes[key].api
        if key != API_VERSIONS_KEY:
            raise DecodeError(f"{api.name} has no version {version}")
        low, high = api.versions
        row = ApiVersion(api_key=API_VERSIONS_KEY, min_version=low, max_version=high)
        answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[row])
        return finish_frame(answer.encode(0, start_frame(encode_response_header(correlation_id, flexible=False))))


def _finished(statistics: RequestStatistics, answer: Answer, version: int, out: bytearray, began: int) -> Parts:
    """The frame of an answer, which is counted."""
    parts = finish_frame(answer.encode(version, out))
    statistics.add(version, (perf_counter_ns() - began) // 1000)
    if isinstance(answer, Response):
        count_errors(answer, statistics.errors)
    return parts
