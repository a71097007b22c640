"""One client's connections, one request at a time: what is answered, refused, and what nobody knows the outcome of.

A connection is to one broker and belongs to one thread. Who leads and who coordinates is asked anew whenever it is
needed, so that nothing here hides a change.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeVar

from minikafka.protocol.errors import KafkaError, LeaderNotAvailableError, error_for
from minikafka.protocol.message import Request
from minikafka.protocol.messages.groups import FindCoordinatorRequest
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.pipeline import Pipeline
from tests.chaos.waiting import pause

T = TypeVar("T")

GROUP, TRANSACTION = 0, 1

# Longer than a process is stopped: what is given up earlier might still be carried out after what comes next.
PATIENCE_SECONDS = 15.0
_CONNECT_SECONDS = 2.0
_RETRY_SECONDS = 0.05
_FIND_COORDINATOR_VERSION = 2
_METADATA_VERSION = 9


class Unanswered(Exception):
    """Nobody knows what became of a request."""


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int


class Connection:
    """To one broker."""

    def __init__(self, address: Address, client_id: str, patience_seconds: float) -> None:
        self._pipeline = Pipeline[None](client_id)
        try:
            self._socket = socket.create_connection(address, _CONNECT_SECONDS)
        except OSError as error:
            raise Unanswered(f"connecting to {address.port}: {error}") from error
        self._socket.settimeout(patience_seconds)
        self._stream = self._socket.makefile("rb")

    def send(self, request: Request, version: int) -> None:
        try:
            self._socket.sendall(b"".join(self._pipeline.send(request, version, None)))
        except OSError as error:
            raise Unanswered(f"sending: {error}") from error

    def receive(self) -> Any:
        try:
            head = self._stream.read(4)
            frame = self._stream.read(int.from_bytes(head, "big")) if len(head) == 4 else b""
        except OSError as error:
            raise Unanswered(f"waiting: {error}") from error
        if not frame:
            raise Unanswered("the connection was closed")
        return self._pipeline.receive(frame)[1]

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


class Wire:
    """See the module's description."""

    def __init__(self, bootstrap: str, client_id: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._known = [Address(host, int(port)) for host, port in (each.split(":") for each in bootstrap.split(","))]
        self._client_id = client_id
        self._patience_seconds = patience_seconds
        self._connections: dict[Address, Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """As a process that dies: whatever is under way is not waited for."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def connect(self, address: Address) -> Connection:
        """A connection that nobody else uses."""
        return Connection(address, self._client_id, self._patience_seconds)

    def ask(self, address: Address, request: Request, version: int) -> Any:
        """The answer of one broker."""
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = self.connect(address)
        try:
            connection.send(request, version)
            return connection.receive()
        except Unanswered:
            self._connections.pop(address).close()
            raise

    def ask_any(self, request: Request, version: int) -> Any:
        """The answer of whoever gives one; for questions only."""
        for address in self._known:
            try:
                answer = self.ask(address, request, version)
            except Unanswered:
                continue
            # Whoever has answered is asked first the next time.
            self._known.remove(address)
            self._known.insert(0, address)
            return answer
        raise Unanswered("no broker answers")

    def coordinator(self, kind: int, key: str) -> tuple[int, Address]:
        """Its id, and where it is."""
        answer = self.ask_any(FindCoordinatorRequest(key=key, key_type=kind), _FIND_COORDINATOR_VERSION)
        check(answer.error_code)
        return answer.node_id, Address(answer.host, answer.port)

    def ask_coordinator(self, kind: int, key: str, request: Request, version: int) -> Any:
        return self.ask(self.coordinator(kind, key)[1], request, version)

    def leader(self, place: Place) -> tuple[int, Address]:
        topics = [MetadataRequestTopic(name=place.topic)]
        answer = self.ask_any(MetadataRequest(topics=topics, allow_auto_topic_creation=False), _METADATA_VERSION)
        check(answer.topics[0].error_code)
        found = next(each for each in answer.topics[0].partitions if each.partition_index == place.partition)
        brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        if found.leader_id not in brokers:
            raise LeaderNotAvailableError
        return found.leader_id, brokers[found.leader_id]

    def ask_leader(self, place: Place, request: Request, version: int) -> Any:
        return self.ask(self.leader(place)[1], request, version)


def check(code: int) -> None:
    if code:
        raise error_for(code)


def insist(step: Callable[[], T], seconds: float) -> T:
    """Take a step again and again until it is done or refused for good, or the time is over.

    What nobody knows the outcome of may be done twice, so this is for steps to which that is all the same.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return step()
        except (KafkaError, Unanswered) as error:
            is_final = isinstance(error, KafkaError) and not error.retriable
            if is_final or time.monotonic() > until:
                raise
            pause(_RETRY_SECONDS)
