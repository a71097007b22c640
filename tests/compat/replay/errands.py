"""What a playing asks the cluster for itself: who leads, who coordinates, has it arrived everywhere?

Over connections of its own, so that a case's connections carry nothing but the case. Bodies and answers are in the
recorded notation.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from minikafka.protocol.apis import api_named
from tests.compat.replay.answers import AnswerReader
from tests.compat.replay.client import ANSWER_SECONDS_MAX, Connection, decoded
from tests.compat.replay.cluster import Cluster
from tests.compat.replay.requests import BodyWriter

GROUP: Final = 0
TRANSACTION: Final = 1

_WAIT_SECONDS_MAX: Final = 30.0
_POLL_SECONDS: Final = 0.05

Given = TypeVar("Given")


class NeverSo(Exception):
    """What a case needs did not come about."""


class Errands:
    """Asks any broker anything."""

    def __init__(self, cluster: Cluster, writer: BodyWriter, reader: AnswerReader) -> None:
        self.cluster = cluster
        self.writer = writer
        self._reader = reader
        self._connections: dict[int, Connection] = {}

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.close()

    async def ask(self, broker: int, name: str, version: int, body: dict[str, Any]) -> Any:
        if broker not in self._connections:
            self._connections[broker] = await Connection.open(self.cluster.brokers[broker])
        connection, api = self._connections[broker], api_named(name)
        sent = connection.send(connection.frame(api, version, self.writer.encoded(api, version, body)))
        frame = await asyncio.wait_for(sent, ANSWER_SECONDS_MAX)
        return self._reader.shown(decoded(api, version, frame), version)

    async def ask_until_done(self, broker: int, name: str, version: int, body: dict[str, Any], error: str) -> Any:
        """Ask again while the answer is an error; `error` is the path to its code."""

        async def attempt() -> Any:
            answer = seen = await self.ask(broker, name, version, body)
            for key in error.split("."):
                seen = seen[0][key] if isinstance(seen, list) else seen[key]
            return answer if seen == "NONE" else None

        return await until(attempt, f"{name} without an error")

    async def metadata(self, broker: int, topics: list[str]) -> Any:
        body = {"Topics": [{"Name": name} for name in topics], "AllowAutoTopicCreation": False}
        return await self.ask(broker, "Metadata", 12, body)

    async def controller(self) -> int:
        answer = await self.metadata(self.cluster.ids[0], [])
        return int(answer["controller_id"])

    async def topic(self, name: str, broker: int | None = None) -> Any:
        (found,) = (await self.metadata(broker or self.cluster.ids[0], [name]))["topics"]
        return found

    async def partition(self, topic: str, index: int) -> Any:
        found = await self.topic(topic)
        return next(each for each in found["partitions"] if each["partition_index"] == index)

    async def coordinator(self, key: str, key_type: int) -> int:
        body = {"Key": key, "KeyType": key_type}
        answer = await self.ask_until_done(self.cluster.ids[0], "FindCoordinator", 3, body, "error_code")
        return int(answer["node_id"])


async def until(attempt: Callable[[], Awaitable[Given | None]], what: str) -> Given:
    """Try until it gives something."""
    end = time.monotonic() + _WAIT_SECONDS_MAX
    while (given := await attempt()) is None:
        if time.monotonic() > end:
            raise NeverSo(what)
        await asyncio.sleep(_POLL_SECONDS)
    return given
