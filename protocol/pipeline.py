"""Requests in flight on one connection, without the connection.

For whoever asks: the client, a follower, the controller.  A broker answers in the order of the
requests, so the oldest one waiting is always the one that is answered; the correlation id only
proves it.  `Waiting` is whatever the caller wants back with the answer: a future, a callback.
"""

from collections import deque
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import DecodeError
from minikafka.protocol.frame import finish_frame, start_frame
from minikafka.protocol.headers import (
    RequestHeader,
    decode_correlation_id,
    encode_request_header,
    response_body_position,
    response_header_is_flexible,
)
from minikafka.protocol.message import Request
from minikafka.protocol.varint import Buffer

Waiting = TypeVar("Waiting")

_CORRELATION_ID_MAX: Final = (1 << 31) - 1


class Body(Protocol):
    """What can be sent: a Kafka request or one of the control plane."""

    @property
    def api_key(self) -> int: ...

    def encode(self, version: int, out: bytearray | None = None) -> list[Buffer]: ...


class Answer(Protocol):
    """A class that can read the answer."""

    @classmethod
    def decode(cls, buf: bytes | bytearray, version: int, pos: int = 0) -> Any: ...


class _InFlight(NamedTuple):
    correlation_id: int
    answer: type[Answer]
    version: int
    header_is_flexible: bool
    waiting: Any


class Pipeline(Generic[Waiting]):
    """Numbers requests on their way out and finds what each answer belongs to."""

    def __init__(self, client_id: str | None) -> None:
        self.client_id = client_id
        self._in_flight: deque[_InFlight] = deque()
        self._next_id = 0

    def __len__(self) -> int:
        return len(self._in_flight)

    def send(self, request: Request, version: int, waiting: Waiting) -> list[Buffer]:
        """The frame of a request whose answer is to be expected, as parts to write."""
        api = APIS[request.api_key]
        flexible = api.is_flexible(version)
        correlation_id, parts = self._frame(request, version, flexible)
        header_is_flexible = response_header_is_flexible(api.key, flexible)
        self._in_flight.append(_InFlight(correlation_id, api.response, version, header_is_flexible, waiting))
        return parts

    def send_unanswered(self, request: Request, version: int) -> list[Buffer]:
        """The frame of a request that gets no answer: Produce with acks=0."""
        _, parts = self._frame(request, version, APIS[request.api_key].is_flexible(version))
        return parts

    def send_control(self, request: Body, answer: type[Answer], version: int, waiting: Waiting) -> list[Buffer]:
        """The frame of a control-plane request, whose headers are classic."""
        correlation_id, parts = self._frame(request, version, flexible=False)
        self._in_flight.append(_InFlight(correlation_id, answer, version, False, waiting))
        return parts

    def receive(self, frame: bytes | bytearray) -> tuple[Waiting, Any]:
        """What waited for this answer, and the answer."""
        correlation_id = decode_correlation_id(frame)
        if not self._in_flight:
            raise DecodeError(f"answer {correlation_id} to no question")
        oldest = self._in_flight[0]
        if correlation_id != oldest.correlation_id:
            raise DecodeError(f"answer {correlation_id} came where {oldest.correlation_id} is due")
        pos = response_body_position(frame, oldest.header_is_flexible)
        response = oldest.answer.decode(frame, oldest.version, pos)
        self._in_flight.popleft()
        return oldest.waiting, response

    def abandon(self) -> list[Waiting]:
        """All that still waits, oldest first; for a connection that is gone."""
        waiting = [each.waiting for each in self._in_flight]
        self._in_flight.clear()
        return waiting

    def _frame(self, request: Body, version: int, flexible: bool) -> tuple[int, list[Buffer]]:
        """The frame and its id; a request that cannot be encoded changes nothing."""
        correlation_id = self._next_id
        header = RequestHeader(request.api_key, version, correlation_id, self.client_id)
        parts = finish_frame(request.encode(version, start_frame(encode_request_header(header, flexible))))
        self._next_id = correlation_id + 1 if correlation_id < _CORRELATION_ID_MAX else 0
        return correlation_id, parts
