"""Declaring messages: constructors, equality, what shows and what must not."""

import pytest

from minikafka.protocol.message import Message
from minikafka.protocol.messages.coordinator_records import GroupMetadataKey, OffsetCommitKey
from minikafka.protocol.messages.metadata import MetadataResponse
from minikafka.protocol.messages.produce import PartitionProduceData
from minikafka.protocol.messages.sasl import SaslAuthenticateRequest, ScramCredentialUpsertion
from minikafka.protocol.schema import Bytes, Int32, String, Struct, StructMeta, Uuid, field


class Inner(Struct):
    number: Int32 = -1


class Sample(Message, versions=(0, 3), flexible=2):
    name: String
    inner: Inner | None = None
    items: list[Inner] = field(factory=list, since=1)
    blob: Bytes = field(default=b"", secret=True)


def test_fields_without_a_default_are_required() -> None:
    with pytest.raises(TypeError, match="name"):
        Sample()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="nam"):
        Sample(nam="x")  # type: ignore[call-arg]


def test_defaults_are_fresh() -> None:
    one, two = Sample(name="a"), Sample(name="a")
    one.items.append(Inner())
    assert two.items == []
    assert one != two


def test_decoded_defaults_are_fresh() -> None:
    wire = b"".join(Sample(name="a").encode(0))
    one, two = Sample.decode(wire, 0), Sample.decode(wire, 0)
    one.items.append(Inner())
    assert two.items == []


def test_a_type_in_quotes_is_refused_at_once() -> None:
    # Annotations that are text would give a message without fields on Python 3.14.
    with pytest.raises(TypeError, match="number"):
        StructMeta("Quoted", (Struct,), {"__annotations__": {"number": "Int32"}})


def test_what_the_codecs_cannot_do_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="ids"):
        StructMeta("Uuids", (Struct,), {"__annotations__": {"ids": list[Uuid]}})
    with pytest.raises(TypeError, match="inherited"):
        StructMeta("Derived", (Inner,), {"__annotations__": {"more": Int32}})


def test_equality_is_by_class_and_value() -> None:
    assert Inner(number=1) == Inner(number=1)
    assert Inner(number=1) != Inner(number=2)
    assert Inner() != object()


def test_only_declared_attributes_exist() -> None:
    with pytest.raises(AttributeError):
        Inner().numbr = 1  # type: ignore[attr-defined]


def test_nullable_struct_has_a_marker() -> None:
    for version in (1, 3):
        for sample in (Sample(name="a"), Sample(name="a", inner=Inner(number=5))):
            assert Sample.decode(b"".join(sample.encode(version)), version) == sample


def test_secrets_do_not_show() -> None:
    assert "hunter2" not in repr(SaslAuthenticateRequest(auth_bytes=b"\0user\0hunter2"))
    upsertion = ScramCredentialUpsertion(name="u", mechanism=1, iterations=4096, salt=b"na", salted_password=b"hunter2")
    assert "hunter2" not in repr(upsertion)
    assert "name='u'" in repr(upsertion)


def test_long_bytes_show_as_their_size() -> None:
    assert repr(PartitionProduceData(index=1, records=bytes(100))).endswith("records=<100 bytes>)")
    assert repr(PartitionProduceData(index=1, records=b"short")).endswith("records=b'short')")


def test_fields_a_version_lacks_read_as_their_default() -> None:
    response = MetadataResponse(brokers=[], cluster_id="c", topics=[])
    decoded = MetadataResponse.decode(b"".join(response.encode(0)), 0)
    assert decoded.cluster_id is None
    assert decoded.controller_id == -1


def test_version_prefix_tells_keys_apart() -> None:
    group = GroupMetadataKey(group="g").dump(2)
    assert group == b"\x00\x02\x00\x01g"
    assert GroupMetadataKey.parse(group).group == "g"
    assert OffsetCommitKey.parse(OffsetCommitKey(group="g", topic="t", partition=3).dump(1)).partition == 3
