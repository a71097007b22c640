"""Requests in flight: numbered on the way out, matched on the way back."""

import pytest

from minikafka.protocol import control
from minikafka.protocol.apis import APIS
from minikafka.protocol.control_codec import CONTROL_VERSION
from minikafka.protocol.errors import DecodeError
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.headers import decode_request_header, encode_response_header, response_header_is_flexible
from minikafka.protocol.message import Response
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.pipeline import Pipeline
from minikafka.protocol.varint import Buffer

ASK_NOTHING = MetadataRequest(topics=[])


def sent(parts: list[Buffer]) -> bytes:
    (frame,) = FrameReader(1 << 20).receive_data(b"".join(parts))
    return bytes(frame)


def answer(correlation_id: int, response: Response, version: int) -> bytes:
    flexible = response_header_is_flexible(response.api_key, response.is_flexible(version))
    return encode_response_header(correlation_id, flexible) + b"".join(response.encode(version))


@pytest.mark.parametrize("version", [1, 8, 9, 12])
def test_a_request_carries_its_header(version: int) -> None:
    frame = sent(Pipeline[str]("me").send(ASK_NOTHING, version, "first"))
    header, pos = decode_request_header(frame, APIS[3].is_flexible(version))
    assert header == (3, version, 0, "me")
    assert MetadataRequest.decode(frame, version, pos).topics == []


def test_answers_find_what_waits_for_them() -> None:
    pipeline = Pipeline[str](None)
    pipeline.send(ASK_NOTHING, 9, "first")
    pipeline.send(ApiVersionsRequest(), 3, "second")
    assert len(pipeline) == 2
    metadata = MetadataResponse(brokers=[], cluster_id="c", topics=[])
    assert pipeline.receive(answer(0, metadata, 9)) == ("first", metadata)
    versions = ApiVersionsResponse(api_keys=[])
    assert pipeline.receive(answer(1, versions, 3)) == ("second", versions)
    assert len(pipeline) == 0


def test_an_answer_out_of_turn_is_refused() -> None:
    pipeline = Pipeline[str](None)
    with pytest.raises(DecodeError, match="to no question"):
        pipeline.receive(answer(0, ApiVersionsResponse(api_keys=[]), 0))
    pipeline.send(ASK_NOTHING, 1, "first")
    pipeline.send(ASK_NOTHING, 1, "second")
    with pytest.raises(DecodeError, match="answer 1 came where 0 is due"):
        pipeline.receive(answer(1, MetadataResponse(brokers=[], topics=[]), 1))


def test_a_broken_answer_leaves_its_request_waiting() -> None:
    pipeline = Pipeline[str](None)
    pipeline.send(ASK_NOTHING, 12, "first")
    with pytest.raises(DecodeError):
        pipeline.receive(b"\x00\x00\x00\x00\x00\x00")
    assert pipeline.abandon() == ["first"]
    assert len(pipeline) == 0


def test_a_request_that_cannot_be_encoded_leaves_no_trace() -> None:
    pipeline = Pipeline[str](None)
    with pytest.raises(UnicodeEncodeError):
        pipeline.send(MetadataRequest(topics=[MetadataRequestTopic(name="\ud800")]), 9, "bad")
    with pytest.raises(ValueError, match="has versions"):
        pipeline.send(ASK_NOTHING, 99, "bad")
    assert len(pipeline) == 0
    pipeline.send(ASK_NOTHING, 9, "good")
    metadata = MetadataResponse(brokers=[], topics=[])
    assert pipeline.receive(answer(0, metadata, 9)) == ("good", metadata)


def test_nothing_waits_for_a_request_without_an_answer() -> None:
    pipeline = Pipeline[str]("me")
    unanswered = sent(pipeline.send_unanswered(ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), 9))
    assert decode_request_header(unanswered, flexible=True)[0].correlation_id == 0
    assert len(pipeline) == 0
    asked = sent(pipeline.send(ASK_NOTHING, 1, "first"))
    assert decode_request_header(asked, flexible=False)[0].correlation_id == 1


def test_correlation_ids_wrap_to_zero() -> None:
    pipeline = Pipeline[str]("me")
    pipeline._next_id = (1 << 31) - 1
    ids = [decode_request_header(sent(pipeline.send(ASK_NOTHING, 1, "w")), False)[0].correlation_id for _ in range(2)]
    assert ids == [(1 << 31) - 1, 0]


def test_control_requests_travel_the_same_way() -> None:
    pipeline = Pipeline[str]("broker-1")
    request = control.ControlledShutdownRequest(broker_id=1, broker_epoch=99)
    frame = sent(pipeline.send_control(request, control.ControlledShutdownResponse, CONTROL_VERSION, "shutdown"))
    header, pos = decode_request_header(frame, flexible=False)
    assert (header.api_key, header.api_version) == (7, 0)
    assert control.ControlledShutdownRequest.decode(frame, 0, pos) == request
    response = control.ControlledShutdownResponse(remaining=[])
    reply = encode_response_header(0, flexible=False) + b"".join(response.encode(0))
    assert pipeline.receive(reply) == ("shutdown", response)
