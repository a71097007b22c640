"""What a real Kafka was asked and answered passes through our codec; what it refused, we refuse."""

import pytest

from minikafka.protocol.apis import APIS, api_named
from minikafka.protocol.errors import DecodeError
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.headers import API_VERSIONS_KEY, decode_request_header, decode_request_prefix
from minikafka.protocol.message import Message, Request
from tests.protocol.recordings import Summarised, cases, from_kafka

API_NAMES = {api.name for api in APIS.values()}
FRAME_BYTES_MAX = 100 * 1024 * 1024


class Refused(Exception):
    """The broker would close the connection."""


def check(cls: type[Message], body: object, version: int) -> None:
    message = from_kafka(cls, body)
    wire = b"".join(message.encode(version))  # type: ignore[attr-defined]
    decoded = cls.decode(wire, version)
    assert b"".join(decoded.encode(version)) == wire
    for f in cls.fields:
        if f.exists(version):
            assert getattr(decoded, f.name) == getattr(message, f.name)


def test_requests_and_answers_decode_and_encode_again(capsys: pytest.CaptureFixture[str]) -> None:
    counts = dict.fromkeys(("requests", "answers", "summarised", "inter-broker"), 0)
    for case in cases().values():
        for step in case["steps"]:
            request = step.get("request", {})
            if "api" not in request:
                continue
            if request["api"] not in API_NAMES:
                counts["inter-broker"] += 1
                continue
            api, version = api_named(request["api"]), request["version"]
            for kind, cls, body in (
                ("requests", api.request, request["body"]),
                ("answers", api.response, step["answer"]),
            ):
                try:
                    check(cls, body, version)
                    counts[kind] += 1
                except Summarised:
                    counts["summarised"] += 1
    with capsys.disabled():
        print(f"\nrecorded by a real Kafka and coded again: {counts}")
    assert counts["requests"] > 1100
    assert counts["answers"] > 900


def accept(frame: bytes | bytearray) -> Request:
    """What a broker does with a frame before it handles it."""
    key, version, _ = decode_request_prefix(frame)
    if key not in APIS:
        raise Refused(f"no api {key}")
    if key == API_VERSIONS_KEY and not APIS[key].request.supports(version):
        version = 0  # answered in the v0 layout, without reading the body
        return APIS[key].request()
    _, pos = decode_request_header(frame, APIS[key].is_flexible(version))
    return APIS[key].request.decode(frame, version, pos)


def raw_frames() -> list[tuple[str, str, object]]:
    return [
        (name, step["request"]["hex"], step["answer"])
        for name, case in cases().items()
        for step in case["steps"]
        if "hex" in step.get("request", {}) and "…" not in step["request"]["hex"]
    ]


@pytest.mark.parametrize(("name", "sent", "answer"), [row for row in raw_frames() if len(row[1]) > 8])
def test_odd_frames_get_the_recorded_verdict(name: str, sent: str, answer: object) -> None:
    try:
        frames = FrameReader(FRAME_BYTES_MAX).receive_data(bytes.fromhex(sent))
        requests = [accept(frame) for frame in frames]
        verdict = "answered" if requests else "incomplete"
    except (DecodeError, Refused):
        verdict = "closed"
    expected = {"connection closed": "closed", "no answer": "incomplete"}.get(str(answer), "answered")
    if name == "frame-truncated-then-half-close":
        expected = "incomplete"  # the end of the stream closes it, not the bytes
    assert verdict == expected


def test_a_negative_size_is_refused_at_once() -> None:
    with pytest.raises(DecodeError):
        FrameReader(FRAME_BYTES_MAX).receive_data(bytes.fromhex("ffffffff"))


def test_a_tls_hello_is_not_a_frame() -> None:
    with pytest.raises(DecodeError):
        FrameReader(FRAME_BYTES_MAX).receive_data(bytes.fromhex("160301020001000001fc0303"))
