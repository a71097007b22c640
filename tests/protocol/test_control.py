"""The control plane's msgpack maps: what brokers of different versions, and liars, may send."""

import contextlib
import inspect
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol import control, control_codec
from minikafka.protocol.control import AlterPartitionRequest, LeaderAndIsrRequest, PartitionState, UpdateMetadataRequest
from minikafka.protocol.control_codec import CONTROL_BYTES_MAX, ControlMessage
from minikafka.protocol.errors import DecodeError

STATE = PartitionState(
    topic="orders",
    topic_id=bytes(range(16)),
    partition=3,
    leader=2,
    leader_epoch=5,
    isr=[2, 1],
    replicas=[1, 2, 3],
    partition_epoch=17,
    controller_epoch=4,
)

SAMPLES: list[ControlMessage] = [
    LeaderAndIsrRequest(controller_id=1, controller_epoch=4, broker_epoch=1 << 40, partitions=[STATE], is_full=True),
    control.LeaderAndIsrResponse(errors=[control.PartitionError(topic="t", partition=0, error_code=3)]),
    control.StopReplicaRequest(
        controller_id=1,
        controller_epoch=4,
        broker_epoch=9,
        partitions=[control.StoppedPartition(topic="t", partition=0, leader_epoch=1, delete=True)],
    ),
    control.StopReplicaResponse(error_code=77),
    UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=4,
        broker_epoch=9,
        brokers=[
            control.LiveBroker(
                broker_id=1,
                broker_epoch=9,
                rack=None,
                endpoints=[
                    control.Endpoint(listener="PLAINTEXT", security_protocol="PLAINTEXT", host="::1", port=9092)
                ],
            )
        ],
        partitions=[STATE],
        deleted_topics=["gone"],
    ),
    control.UpdateMetadataResponse(),
    control.ControlledShutdownRequest(broker_id=1, broker_epoch=9),
    control.ControlledShutdownResponse(remaining=[control.RemainingPartition(topic="t", partition=1)]),
    AlterPartitionRequest(
        broker_id=1,
        broker_epoch=9,
        partitions=[
            control.ProposedPartition(
                topic="t",
                topic_id=bytes(16),
                partition=0,
                leader_epoch=1,
                partition_epoch=2,
                isr=[control.IsrMember(broker_id=1, broker_epoch=9)],
            )
        ],
    ),
    control.AlterPartitionResponse(partitions=[control.AlteredPartition(topic="t", partition=0, isr=[1])]),
]


def wire_of(message: ControlMessage) -> bytes:
    return b"".join(message.encode(0))


def test_every_message_has_a_sample() -> None:
    declared = {cls for _, cls in inspect.getmembers(control, inspect.isclass) if issubclass(cls, ControlMessage)} - {
        ControlMessage
    }
    assert declared == {type(sample) for sample in SAMPLES}
    assert {cls.api_key for cls in declared} == {4, 5, 6, 7, 56}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_round_trip_and_every_cut(sample: ControlMessage) -> None:
    wire = wire_of(sample)
    assert type(sample).decode(wire, 0) == sample
    assert type(sample).decode(b"head" + wire, 0, 4) == sample
    for length in range(len(wire)):
        with pytest.raises(DecodeError):
            type(sample).decode(wire[:length], 0)


def changed(sample: ControlMessage, **changes: Any) -> bytes:
    body = msgpack.unpackb(wire_of(sample))
    body.update(changes)
    return bytes(msgpack.packb({k: v for k, v in body.items() if v is not ...}))


def test_unknown_keys_are_ignored() -> None:
    assert LeaderAndIsrRequest.decode(changed(SAMPLES[0], from_the_future=[{"a": 1}]), 0) == SAMPLES[0]


def test_a_missing_key_takes_the_default_or_is_an_error() -> None:
    decoded = LeaderAndIsrRequest.decode(changed(SAMPLES[0], is_full=...), 0)
    assert decoded.is_full is False
    with pytest.raises(DecodeError, match="LeaderAndIsrRequest has no controller_epoch"):
        LeaderAndIsrRequest.decode(changed(SAMPLES[0], controller_epoch=...), 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("controller_id", "1"),
        ("controller_id", True),
        ("controller_id", 1.0),
        ("controller_id", None),
        ("is_full", 1),
        ("partitions", {}),
        ("partitions", [1]),
        ("partitions", [{"topic": "t"}]),
        ("partitions", None),
    ],
)
def test_values_of_another_type(name: str, value: object) -> None:
    with pytest.raises(DecodeError, match=name):
        LeaderAndIsrRequest.decode(changed(SAMPLES[0], **{name: value}), 0)


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x01", b"\x90", b"\xc0", b"\x81\x01\x02", b"\x80\x80", b"\xd9\x02\xc3\x28"]
)
def test_what_is_no_map_at_all(body: bytes) -> None:
    with pytest.raises(DecodeError):
        LeaderAndIsrRequest.decode(body, 0)


def test_bombs() -> None:
    deep = b"\x91" * 100_000
    lying = b"\x81\xa1a\xdd\xff\xff\xff\xff"
    for bomb in (deep, lying, bytes(CONTROL_BYTES_MAX + 1)):
        with pytest.raises(DecodeError):
            LeaderAndIsrRequest.decode(bomb, 0)


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(b"\x81\xa1a\xdd\x00\x90\x00\x00" + b"\xc0" * 0x900000, id="one long array"),
        pytest.param(b"\xde\x20\x00" + b"".join(b"\xa4%04x\xc0" % i for i in range(0x2000)), id="one large map"),
    ],
)
def test_what_is_too_large_is_refused_before_it_is_built(bomb: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="exceeds max"):
            LeaderAndIsrRequest.decode(bomb, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 500_000


def test_elements_are_counted_over_all_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_codec, "ELEMENTS_MAX", 1000)
    wide = b"\x81\xa1a\xdc\x00\x0a" + (b"\xdc\x00\x64" + b"\x01" * 100) * 10
    with pytest.raises(DecodeError, match="more than 1000 elements"):
        LeaderAndIsrRequest.decode(wide, 0)


@given(st.sampled_from(SAMPLES), st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes(sample: ControlMessage, changes: list[tuple[int, int]]) -> None:
    wire = bytearray(wire_of(sample))
    for at, byte in changes:
        wire[at % len(wire)] = byte
    with contextlib.suppress(DecodeError):
        type(sample).decode(bytes(wire), 0)


@given(st.binary(max_size=100))
def test_noise(noise: bytes) -> None:
    with pytest.raises(DecodeError):
        UpdateMetadataRequest.decode(noise, 0)


def test_only_control_structs_are_packed() -> None:
    request = control.ControlledShutdownRequest(broker_id=object(), broker_epoch=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        request.encode(0)
