"""Every declared message version against two codecs that are not ours.

Apache Kafka's own message classes wrote the golden bytes; kafka-python reads and writes what it has.
"""

import importlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from minikafka.protocol.apis import APIS, api_named
from minikafka.protocol.errors import DecodeError
from minikafka.protocol.message import Message, VersionPrefixed, codec_source
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.protocol.samples import all_messages, all_versions, full, version_id

DATA = Path(__file__).parent.parent / "data"
MSGPACK_KEYS = {4, 5, 6, 7, 56}
KAFKA_PYTHON_MODULES = ("admin", "consumer", "metadata", "producer", "sasl")
KAFKA_4 = {0: 12, 26: 5, 27: 2, 28: 5}
"""The highest versions where they are not those of Kafka 3.9: what transaction version 2 needs of Kafka 4 (KIP-890)."""


@cache
def golden() -> dict[tuple[str, int], list[bytes]]:
    """By message and version; where both Kafkas wrote one, the newer one holds, which has more tagged fields."""
    return _golden("3.9.1") | _golden("4.3.1")


def _golden(kafka: str) -> dict[tuple[str, int], list[bytes]]:
    rows: dict[tuple[str, int], list[bytes]] = {}
    for line in (DATA / f"kafka-{kafka}-messages.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, version, *body = line.split(" ")
            rows.setdefault((name, int(version)), []).append(bytes.fromhex(body[0]))
    return rows


@cache
def kafka_python_class(name: str) -> Any:
    for module in KAFKA_PYTHON_MODULES:
        found = getattr(importlib.import_module(f"kafka.protocol.{module}"), name, None)
        if found is not None and hasattr(found, "max_version"):
            return found
    return None


def kafka_python_versions() -> list[tuple[type[Message], int]]:
    classes = {cls: kafka_python_class(cls.__name__) for cls, _ in all_versions()}
    return [(c, v) for c, v in all_versions() if classes[c] is not None and v <= classes[c].max_version]


def joined(message: Message, version: int) -> bytes:
    return b"".join(message.encode(version))


@pytest.mark.parametrize(("cls", "version"), all_versions(), ids=version_id)
def test_bytes_are_those_of_apache_kafka(cls: type[Message], version: int) -> None:
    complete, odd = golden()[cls.__name__, version]
    assert joined(full(cls, version), version) == complete
    assert cls.decode(complete, version) == full(cls, version)
    assert joined(cls.decode(odd, version), version) == odd


@pytest.mark.parametrize(("cls", "version"), kafka_python_versions(), ids=version_id)
def test_kafka_python_reads_and_writes_the_same(cls: type[Message], version: int) -> None:
    other = kafka_python_class(cls.__name__)
    for wire in golden()[cls.__name__, version]:
        message = cls.decode(wire, version)
        if isinstance(message, VersionPrefixed):
            stamped = message.dump(version)
            assert bytes(other.decode(stamped).encode(version=version)) == stamped
            continue
        if isinstance(message, ApiVersionsResponse):
            message.error_code = 0  # any other code makes kafka-python read the v0 layout
        theirs = other.decode(joined(message, version), version=version)
        theirs._header = None
        assert bytes(theirs.encode(version=version)) == joined(message, version)


def test_how_many_versions_each_codec_covers(capsys: pytest.CaptureFixture[str]) -> None:
    ours = {(cls.__name__, version) for cls, version in all_versions()}
    kafka_python = {(cls.__name__, version) for cls, version in kafka_python_versions()}
    assert set(golden()) == ours
    with capsys.disabled():
        print(
            f"\n{len(ours)} message versions byte-identical with Apache Kafka's classes, "
            f"{len(kafka_python)} of them with kafka-python's codec too, "
            f"{len(ours - kafka_python)} by golden bytes alone"
        )


def test_apis_are_those_that_kafka_advertises() -> None:
    advertised = json.loads((DATA / "kafka-3.9.1-api-versions.json").read_text())["apis"]
    expected = {
        row["key"]: (row["name"], (row["min"], KAFKA_4.get(row["key"], row["max"])))
        for row in advertised
        if row["key"] not in MSGPACK_KEYS
    }
    assert {key: (api.name, api.versions) for key, api in APIS.items()} == expected
    assert api_named("Fetch") is APIS[1]


@pytest.mark.parametrize("cls", all_messages(), ids=version_id)
def test_a_version_that_is_not_declared_is_our_mistake(cls: type[Message]) -> None:
    for version in (cls.versions[0] - 1, cls.versions[1] + 1):
        with pytest.raises(ValueError, match="has versions"):
            cls.decode(b"", version)
        with pytest.raises(ValueError, match="has versions"):
            full(cls, cls.versions[0]).encode(version)


@pytest.mark.parametrize("version", range(5))
def test_the_refusal_of_an_older_broker_is_understood(version: int) -> None:
    # As Kafka 3.0 answers a version it does not know: error 35, in the layout of v0.
    refusal = ApiVersionsResponse.decode(bytes.fromhex("0023 00000001 0012 0000 0003"), version)
    assert refusal.error_code == 35
    assert refusal.api_keys == [ApiVersion(api_key=18, min_version=0, max_version=3)]
    assert ApiVersionsResponse.decode(bytes.fromhex("0023 00000000"), version).api_keys == []
    with pytest.raises(DecodeError):
        ApiVersionsResponse.decode(bytes.fromhex("0024 00000002"), version)


def test_records_are_never_copied() -> None:
    batch = bytes(10_000)
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
    parts = ProduceRequest(acks=1, timeout_ms=0, topic_data=[topic]).encode(9)
    assert any(part is batch for part in parts)
    frame = b"".join(parts)
    records = ProduceRequest.decode(frame, 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame


def test_what_goes_before_a_message_opens_the_first_part() -> None:
    parts = MetadataRequest(topics=None).encode(1, bytearray(b"before"))
    assert b"".join(parts) == b"before\xff\xff\xff\xff"


def test_trailing_bytes_are_ignored() -> None:
    wire = joined(full(FetchRequest, 12), 12)
    assert FetchRequest.decode(wire + b"more", 12) == full(FetchRequest, 12)


def test_generated_source_can_be_read() -> None:
    decoder, encoder = codec_source(FetchRequest, 12)
    assert "it.max_wait_ms" in decoder
    assert "it.max_wait_ms" in encoder
