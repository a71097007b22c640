"""One bad argument, callback or option: whoever gave it is told, and nobody else notices."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from minikafka.client.config import ClientConfig, make_ssl_context
from minikafka.client.errors import ConfigError, ProducerFailed, SerializationFailed
from minikafka.client.producer import ProducerConfig
from minikafka.client.producer.batch import Batch
from minikafka.client.producer.lane import Lane
from minikafka.client.producer.queues import PartitionQueue
from minikafka.client.producer.sender import Sender
from minikafka.client.structs import TopicPartition
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.records import iter_records, read_batches
from tests.client.peer import Peer
from tests.client.producer.test_faults import producer_for, send_all, values
from tests.tree import ROOT

WAIT_S = 10

BAD_STAMPS = [-1, 1.5, 1 << 63, "0", True]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"headers": [("a", "text")]}, "value of header 'a' is bytes or None, not str"),
        ({"headers": [(b"a", b"x")]}, "key of a header is text, not bytes"),
        ({"headers": [("a", b"x"), ("b",)]}, "pairs of a key and a value"),
        ({"headers": {"abc": b"x"}}, "pairs of a key and a value"),
        ({"headers": 5}, "pairs of a key and a value"),
        ({"headers": [("\ud800", b"x")]}, "UTF-8"),
        *(({"timestamp_ms": stamp}, "timestamp_ms is a whole number") for stamp in BAD_STAMPS),
    ],
)
async def test_an_argument_is_refused_at_once_and_others_get_through(arguments: dict[str, Any], text: str) -> None:
    async with Peer() as peer, producer_for(peer) as producer:
        before = await producer.send("t", b"before")
        with pytest.raises(SerializationFailed, match=text):
            await producer.send("t", b"bad", **arguments)
        await asyncio.wait_for(before, WAIT_S)
        await asyncio.wait_for(producer.send_and_wait("t", b"after"), WAIT_S)
        assert values(peer.written) == [b"before", b"after"]
        assert producer.metrics().buffered_bytes == 0


@pytest.mark.parametrize("stamp", BAD_STAMPS)
async def test_many_at_once_are_refused_for_their_timestamp(stamp: Any) -> None:
    async with Peer() as peer, producer_for(peer) as producer:
        with pytest.raises(SerializationFailed, match="timestamp_ms"):
            await producer.send_batch("t", [b"bad"], timestamp_ms=stamp)
        assert producer.metrics().buffered_bytes == 0


def test_every_record_of_a_batch_has_a_timestamp_whatever_the_first_one_is() -> None:
    batch = Batch(TopicPartition("t", 0), (1,), 0, 0)
    batch.extend(-1, [b"a"], None, 1)
    assert batch.runs == [(-1, 0)]


async def test_headers_are_sent_as_they_were() -> None:
    async with Peer() as peer, producer_for(peer, max_batch_size=1 << 16, linger_ms=60_000) as producer:
        headers: list[tuple[str, bytes | None]] = [("a", b"1")]
        await producer.send("t", b"x", headers=headers)
        headers.append(("b", b"2" * 1_000))
        await producer.flush()
        (data,) = peer.asked(ProduceRequest)[0].topic_data[0].partition_data
        (record,) = iter_records(read_batches(bytes(data.records))[0])
        assert [*record.headers] == [("a", b"1")]


async def test_a_batch_of_which_no_bytes_can_be_made_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    build = Batch.build

    def refuse_bad(self: Batch, *arguments: Any) -> bytearray:
        if b"bad" in self.values:
            raise RuntimeError("cannot be built")
        return build(self, *arguments)

    monkeypatch.setattr(Batch, "build", refuse_bad)
    async with Peer() as peer, producer_for(peer) as producer:
        first, bad, second = await send_all(producer, [b"first", b"bad", b"second"])
        with pytest.raises(SerializationFailed, match="cannot be built"):
            await asyncio.wait_for(bad, WAIT_S)
        await asyncio.wait_for(asyncio.gather(first, second), WAIT_S)
        # The numbers go on without a gap.
        assert [(batch.epoch, batch.sequence) for batch in peer.written] == [(0, 0), (0, 1)]
        with pytest.raises(SerializationFailed):
            await asyncio.wait_for(producer.send_and_wait("t", b"bad"), WAIT_S)
        await asyncio.wait_for(producer.send_and_wait("t", b"third"), WAIT_S)
        assert producer.metrics().buffered_bytes == 0


async def test_a_mistake_on_the_way_to_a_broker_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with Peer() as peer, producer_for(peer) as producer:

        def fail(sender: Sender, lane: Lane) -> None:
            raise ZeroDivisionError("a mistake")

        monkeypatch.setattr(Sender, "take", fail)
        delivery = await producer.send("t", b"x")
        with pytest.raises(ProducerFailed, match="a mistake"):
            await asyncio.wait_for(delivery, WAIT_S)
        with pytest.raises(ProducerFailed, match="a mistake"):
            await producer.send("t", b"y")
    assert [record.message for record in caplog.records if record.levelno == logging.ERROR] == [
        "send to broker 1 failed"
    ]


async def test_a_mistake_in_settling_one_batch_leaves_the_others_their_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = Sender.settle

    def fail_for_one(sender: Sender, queue: PartitionQueue, *arguments: Any) -> None:
        if queue.topic_partition.partition == 0:
            raise ZeroDivisionError("a mistake")
        settle(sender, queue, *arguments)

    monkeypatch.setattr(Sender, "settle", fail_for_one)
    async with Peer(partitions=3) as peer, producer_for(peer, linger_ms=60_000) as producer:
        lost, *others = [await producer.send("t", b"x", partition=index) for index in range(3)]
        with pytest.raises(ProducerFailed, match="a mistake"):
            await asyncio.gather(producer.flush(), asyncio.wait_for(lost, WAIT_S))
        assert len(peer.asked(ProduceRequest)) == 1
        assert [delivery.exception() for delivery in others] == [None, None]


async def test_a_callback_that_raises_is_the_business_of_the_loop() -> None:
    async with Peer(partitions=4) as peer, producer_for(peer, linger_ms=60_000) as producer:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, details: reported.append(details))
        deliveries = [await producer.send("t", b"x", partition=index) for index in range(4)]
        told: list[int] = []

        def fail(_: object) -> None:
            raise ZeroDivisionError

        for delivery in deliveries:
            delivery.add_done_callback(fail)
            delivery.add_done_callback(lambda found: told.append(found.result().partition))
        await asyncio.wait_for(producer.flush(), WAIT_S)
        assert sorted(told) == [0, 1, 2, 3]
        assert [type(details["exception"]) for details in reported] == [ZeroDivisionError] * 4
        assert producer.metrics().buffered_bytes == 0
        await asyncio.wait_for(producer.send("t", b"y", partition=1), WAIT_S)


@pytest.mark.parametrize(
    ("codec", "good", "bad"),
    [("gzip", (-1, 0, 9), (-2, 10)), ("lz4", (0, 16), (-2, 18)), ("zstd", (-5, 22), (23, 99)), ("snappy", (3,), ())],
)
def test_levels_are_those_of_the_codec(codec: str, good: tuple[int, ...], bad: tuple[int, ...]) -> None:
    for level in good:
        config = ProducerConfig(compression_type=codec, compression_level=level)
        batch = Batch(TopicPartition("t", 0), (1,), 0, 0)
        batch.extend(5, [b"x" * 1_000], None, 1_000)
        assert batch.build(config.compression, config.compression_level, False)
    for level in bad:
        with pytest.raises(ConfigError, match=f"compression_level of {codec} is from"):
            ProducerConfig(compression_type=codec, compression_level=level)


ENCRYPTED_KEY = """\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAh/VQ5yLBOF9QICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEJKsHJ8ZJLQs/hzsxEy0xTwEgZBs
mZca7wQnDmiePZN9+o8L7NAfSm5LGYA0EGXL221s7+ElbTOG4fbg8IOHzdxl7SZO
2GVwV0UAO11HyvYviwnRvFrAwZYA0nGDPvS5k5tXaG859Y7brKIpSU1xnEAuVKOw
NdN/AmCwHAlCVoLWtJBdbp33oALjL3LLXc9X5VwwU293eXObkoNyc4QvBtCAIak=
-----END ENCRYPTED PRIVATE KEY-----
"""


def test_an_encrypted_key_without_a_password_is_a_mistake_and_no_question(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text(ENCRYPTED_KEY)
    certificate = ROOT / "tests" / "client" / "localhost-tls.pem"
    config = ClientConfig(security_protocol="SSL", ssl_certfile=str(certificate), ssl_keyfile=str(key))
    with pytest.raises(ConfigError, match="there is no ssl_password"):
        make_ssl_context(config)
