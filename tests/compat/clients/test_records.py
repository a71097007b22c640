"""What a record holds comes back to the letter, in every codec, from every client to every other."""

from __future__ import annotations

import pytest

from minikafka.protocol.records import Compression
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.model import CODECS, Client, Producing, Record, rows
from tests.compat.clients.topics import Topics

CODEC_IDS = {name: Compression[name.upper()] for name in CODECS}

# kcat sends a run of records with the same headers at a time, so equal headers stand together.
ROWS = [
    Record(b"value alone"),
    Record(b"value", b"key"),
    Record(None, b"a key and no value"),
    *(Record(b"repeat after me " * 8, b"%d" % row) for row in range(40)),
    Record(b"one header", b"key", (("name", b"value"),)),
    Record(b"the same header twice", None, (("name", b"1"), ("other", b"2"), ("name", b"3"))),
    Record("käfka 🪳".encode(), "schlüssel".encode(), (("tür", "größe".encode()),)),
]


@pytest.mark.parametrize("codec", CODECS)
def test_codec(client: Client, codec: str, topics: Topics) -> None:
    topic = topics.make()
    told = client.produce(topic, ROWS, how=Producing(codec))
    read = [*client.read(topic, len(ROWS))]
    assert rows(read) == ROWS
    assert [one.offset for one in read] == [*range(len(ROWS))]
    if client.tells_deliveries:
        assert [one.offset for one in told] == [*range(len(ROWS))]
    # A client that misreads what the broker can do sends its records uncompressed and says nothing.
    assert {batch.compression for batch in topics.batches(topic) if batch.record_count > 1} == {CODEC_IDS[codec]}


def test_every_client_reads_every_codec(client: Client, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make()
    for codec in CODECS:
        confluent.produce(topic, ROWS, how=Producing(codec))
    assert rows([*client.read(topic, len(CODECS) * len(ROWS))]) == ROWS * len(CODECS)


def test_every_client_is_read(client: Client, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make()
    for codec in CODECS:
        client.produce(topic, ROWS, how=Producing(codec))
    assert rows([*confluent.read(topic, len(CODECS) * len(ROWS))]) == ROWS * len(CODECS)


def test_empty_is_not_null(client: Client, topics: Topics) -> None:
    if client.name == "kcat":
        pytest.skip("kcat sends nothing as null or as empty, not one record this and the next that way")
    topic = topics.make()
    sent = [Record(b"", b""), Record(None, b""), Record(b"", None), Record(b"last")]
    client.produce(topic, sent)
    assert rows([*client.read(topic, len(sent))]) == sent


def test_null_and_empty_headers(client: Client, confluent: Confluent, topics: Topics) -> None:
    """Not every client can send them. Every one can read them."""
    topic = topics.make()
    sent = [Record(b"value", None, (("null", None), ("empty", b""), ("full", b"1")))]
    confluent.produce(topic, sent)
    assert rows([*client.read(topic, 1)]) == sent


def test_many_headers(client: Client, topics: Topics) -> None:
    topic = topics.make()
    sent = [Record(b"value", b"key", tuple((f"header-{row}", b"%d" % row) for row in range(300)))]
    client.produce(topic, sent)
    assert rows([*client.read(topic, 1)]) == sent
