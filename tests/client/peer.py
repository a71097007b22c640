"""A broker that says what a test tells it to, on a real socket; for what a real broker cannot be brought to do.

It is the only broker of its cluster and leads all partitions of the topic "t". Answers are functions from a request to
a response; None leaves a request unanswered until `answer_late`, and raising HangUp ends the connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.frame import FrameReader, finish_frame, start_frame
from minikafka.protocol.headers import decode_request_header, encode_response_header, response_header_is_flexible
from minikafka.protocol.message import Request, Response
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from minikafka.protocol.records import iter_records, read_batches

Answer = Callable[[Any], Response | None]


class HangUp(Exception):
    """Ends the connection instead of answering."""


class Written(NamedTuple):
    """A batch that came."""

    partition: int
    producer_id: int
    epoch: int
    sequence: int
    values: list[bytes | None]


class Peer:
    """See the module's description."""

    def __init__(self, partitions: int = 1, tls: ssl.SSLContext | None = None) -> None:
        self.partitions = partitions
        self.requests: list[Request] = []
        self.versions: list[int] = []
        self.connections = 0
        self.served = {key: api.versions for key, api in APIS.items()}
        self.answers: dict[type[Request], Answer] = {
            ApiVersionsRequest: lambda _: self._api_versions(),
            MetadataRequest: self.metadata,
            FindCoordinatorRequest: self._coordinator,
            InitProducerIdRequest: lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=0),
            ProduceRequest: self.produced,
        }
        self.codes: Iterator[int] | None = None
        """What to answer batches with, one after the other; NONE when there are no more."""
        self.leader_epoch = 0
        self.port = 0
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._unanswered: list[tuple[asyncio.StreamWriter, bytes]] = []

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hang_up(self) -> None:
        """End every connection, with all that is not answered yet."""
        for task in self._tasks:
            task.cancel()

    # ------------------------------------------------------------------------------------------------ serving

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        frames = FrameReader(1 << 24)
        try:
            while data := await reader.read(1 << 16):
                for frame in frames.receive_data(data):
                    self._reply(writer, frame)
        except (HangUp, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    def _reply(self, writer: asyncio.StreamWriter, frame: bytes | bytearray) -> None:
        if response := self._answer(frame):
            writer.writelines(response)
        else:
            self._unanswered.append((writer, bytes(frame)))

    def answer_late(self, kind: type[Request]) -> None:
        """Ask again for answers to the requests of a kind that have none; they count as requests once more."""
        unanswered, self._unanswered = self._unanswered, []
        for writer, frame in unanswered:
            if int.from_bytes(frame[:2], "big") == kind.api_key:
                self._reply(writer, frame)
            else:
                self._unanswered.append((writer, frame))

    def _answer(self, frame: bytes | bytearray) -> list[Any]:
        api_key = int.from_bytes(frame[:2], "big")
        version = int.from_bytes(frame[2:4], "big")
        api = APIS[api_key]
        if version > self.served[api_key][1] and api_key == ApiVersionsRequest.api_key:
            # As brokers answer a version that is too new for them.
            refusal = ApiVersionsResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=self._api_versions().api_keys
            )
            out = start_frame(encode_response_header(int.from_bytes(frame[4:8], "big"), False))
            return finish_frame(refusal.encode(0, out))
        header, position = decode_request_header(frame, api.is_flexible(version))
        request = api.request.decode(frame, version, position)
        self.requests.append(request)
        self.versions.append(version)
        response = self.answers[api.request](request)
        if response is None:
            return []
        flexible = response_header_is_flexible(api_key, api.is_flexible(version))
        return finish_frame(
            response.encode(version, start_frame(encode_response_header(header.correlation_id, flexible)))
        )

    def asked(self, kind: type[Request]) -> list[Any]:
        return [request for request in self.requests if type(request) is kind]

    # ------------------------------------------------------------------------------------------- usual answers

    def _api_versions(self) -> ApiVersionsResponse:
        served = [
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.served.items()
        ]
        return ApiVersionsResponse(api_keys=served)

    def metadata(self, request: MetadataRequest, error_code: int = 0, leader_id: int = 1) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(
                partition_index=index,
                leader_id=leader_id,
                leader_epoch=self.leader_epoch,
                replica_nodes=[1],
                isr_nodes=[1],
            )
            for index in range(self.partitions)
        ]
        topic = MetadataResponseTopic(name="t", error_code=error_code, partitions=partitions)
        broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)
        is_asked = request.topics is None or any(each.name == "t" for each in request.topics)
        topics = [topic] if is_asked else []
        return MetadataResponse(brokers=[broker], cluster_id="peer", controller_id=1, topics=topics)

    def _coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        found = [Coordinator(key=key, node_id=1, host="127.0.0.1", port=self.port) for key in request.coordinator_keys]
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=self.port, coordinators=found)

    def produced(self, request: ProduceRequest) -> ProduceResponse:
        topics = []
        for topic in request.topic_data:
            answers = [
                PartitionProduceResponse(index=each.index, error_code=self._next_code(), base_offset=0)
                for each in topic.partition_data
            ]
            topics.append(TopicProduceResponse(name=topic.name, partition_responses=answers))
        return ProduceResponse(responses=topics)

    def _next_code(self) -> int:
        return ErrorCode.NONE if self.codes is None else next(self.codes, ErrorCode.NONE)

    @property
    def written(self) -> list[Written]:
        """Every batch that came, in the order of coming."""
        return [
            Written(
                data.index,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                [record.value for record in iter_records(batch)],
            )
            for request in self.asked(ProduceRequest)
            for topic in request.topic_data
            for data in topic.partition_data
            for batch in read_batches(bytes(data.records))
        ]
