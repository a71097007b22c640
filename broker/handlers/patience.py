"""How long a request waits for ZooKeeper, and what its trouble becomes in an answer.

Whatever is changed there is changed again and again until it is known to be done. So the one thing that can go wrong
for long is that ZooKeeper cannot be reached; a client is not to wait for that for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from minikafka.broker.context import Context
from minikafka.broker.zookeeper.coord import Closed, CoordError, TooLarge
from minikafka.protocol.errors import (
    BrokerNotAvailableError,
    InvalidRequestError,
    RequestTimedOutError,
    UnknownServerError,
)

_T = TypeVar("_T")


class Patience:
    """The time that one request has, from when it came."""

    def __init__(self, context: Context) -> None:
        self._deadline = asyncio.get_running_loop().time() + context.config.broker.request_timeout_ms / 1000

    async def ask(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """What the work comes to, or a KafkaError."""
        try:
            async with asyncio.timeout_at(self._deadline):
                return await work()
        except TimeoutError:
            raise RequestTimedOutError("ZooKeeper did not answer; whether it was done is not known") from None
        except TooLarge as error:
            raise InvalidRequestError(str(error)) from None
        except Closed:
            raise BrokerNotAvailableError("the broker is about to stop") from None
        except CoordError as error:
            raise UnknownServerError(f"ZooKeeper: {error}") from None
