"""FindCoordinator: no broker coordinates groups or transactions. Each says so, as Kafka's do before theirs are ready.

It is served for more than this answer. librdkafka compresses with lz4 only where it finds this API, from which it
concludes that the broker is not too old for it; without it, it sends uncompressed and says nothing.

Up to v3 one key is asked for, from v4 on many.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_MANY_SINCE: Final = 4

_CODE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE


def routes(context: Context) -> list[Route]:
    return [Route(APIS[10], _find, Operation.DESCRIBE, Resource.GROUP)]


def _find(call: Call) -> FindCoordinatorResponse:
    request: FindCoordinatorRequest = call.request
    if call.version < _MANY_SINCE:
        return FindCoordinatorResponse(error_code=_CODE, node_id=-1, host="", port=-1)
    missing = [Coordinator(key=key, node_id=-1, host="", port=-1, error_code=_CODE) for key in request.coordinator_keys]
    return FindCoordinatorResponse(coordinators=missing)
