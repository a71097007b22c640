"""FindCoordinator: which broker to ask about a group or a transactional id. Up to v3 one is asked for, from v4 on many.

librdkafka compresses with lz4 only where it finds this API, from which it concludes that a broker is new enough.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.coordinators.finding import CoordinatorFinder
from minikafka.broker.endpoints import address_of
from minikafka.broker.handlers.slices import in_slices
from minikafka.broker.internal_topics import GROUP_OFFSETS, TRANSACTION_STATE
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import CoordinatorNotAvailableError, InvalidRequestError, KafkaError
from minikafka.protocol.messages.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_MANY_SINCE: Final = 4
_GROUP: Final = 0
_TRANSACTION: Final = 1


def routes(context: Context) -> list[Route]:
    return [Route(APIS[10], _FindCoordinatorHandler(context), Operation.DESCRIBE, Resource.GROUP)]


class _FindCoordinatorHandler:
    """See the module's description."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._finder = CoordinatorFinder(context)

    def __call__(self, call: Call) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
        request: FindCoordinatorRequest = call.request
        if call.version >= _MANY_SINCE:
            return in_slices(
                dict.fromkeys(request.coordinator_keys),
                partial(self._find, call),
                lambda coordinators: FindCoordinatorResponse(coordinators=coordinators),
            )
        one = self._find(call, request.key)
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )

    def _find(self, call: Call, key: str) -> Coordinator:
        try:
            broker = self._finder.find(self._topic(call.request.key_type), key)
            address = address_of(self._context, call.connection, broker)
            if address is None:
                raise CoordinatorNotAvailableError(f"broker {broker.broker_id} has no such listener")
        except KafkaError as error:
            return Coordinator(
                key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message
            )
        return Coordinator(key=key, node_id=address.node_id, host=address.host, port=address.port, error_message=None)

    def _topic(self, key_type: int) -> str:
        if key_type == _GROUP:
            return GROUP_OFFSETS
        if key_type == _TRANSACTION:
            return TRANSACTION_STATE
        raise InvalidRequestError(f"nothing of type {key_type} is coordinated")
