"""Requests of every served API and version, and what can go wrong with them on their way: bytes only, no sockets.

Everything is drawn from a `random.Random`, so a run is repeated by its seed. The control plane is not among the
requests: a well-formed word of a controller is to be believed, and a broker that does so has no fault. Its api keys
come up all the same, with bodies of other requests.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from minikafka.protocol.apis import APIS, Api, api_named
from minikafka.protocol.headers import RequestHeader, encode_request_header
from minikafka.protocol.message import Message, Request
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.records.builder import BatchBuilder
from tests.protocol.samples import full

GOLDEN: Final = Path(__file__).parent.parent / "data" / "kafka-3.9.1-messages.txt"
CLIENT_ID: Final = "fuzz"

# A TLS client says hello, a browser asks, a load balancer looks whether somebody listens.
STRANGERS: Final = (
    bytes.fromhex("16030100c8010000c40303") + bytes(range(193)),
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PROXY TCP4 127.0.0.1 127.0.0.1 56324 443\r\n",
    b"\0" * 64,
    b"\xff" * 64,
    b"",
)
NUMBERS: Final = (0, 1, -1, -2, 127, 128, 255, 32767, -32768, 65535, 1 << 20, 1 << 24, (1 << 31) - 1, -(1 << 31))
SIZES: Final = (0, 1, 7, 8, 13, -1, -(1 << 31), (1 << 31) - 1, 100 << 20, (100 << 20) + 1, 10 << 20)

_size = struct.Struct(">i")


class Versions(NamedTuple):
    """What a broker serves of one API."""

    api: Api
    request: type[Request]
    low: int
    high: int

    @classmethod
    def all_of(cls, api: Api) -> Versions:
        assert issubclass(api.request, Request)
        return cls(api, api.request, *api.versions)


def framed(body: bytes) -> bytes:
    return _size.pack(len(body)) + body


def request_body(api: Api, version: int, correlation_id: int, message: bytes) -> bytes:
    header = RequestHeader(api.key, version, correlation_id, CLIENT_ID)
    return encode_request_header(header, api.is_flexible(version)) + message


class Corpus:
    """Well-formed requests, without the size before them."""

    def __init__(self, served: Iterable[Versions], topic: str) -> None:
        """`topic` has one partition; requests for records name it, so that they get past the first checks."""
        self.served = list(served)
        golden = _golden()
        self.requests: list[bytes] = []
        for api, request, low, high in self.served:
            for version in range(low, high + 1):
                wires = [_wire(full(request, version), version), *golden.get((request.__name__, version), [])]
                wires += [_wire(message, version) for message in _in_earnest(api, topic, version)]
                self.requests += [request_body(api, version, number, wire) for number, wire in enumerate(wires)]


def _wire(message: Message, version: int) -> bytes:
    return b"".join(message.encode(version))


def _golden() -> dict[tuple[str, int], list[bytes]]:
    """What Kafka itself writes."""
    found: dict[tuple[str, int], list[bytes]] = {}
    for line in GOLDEN.read_text().splitlines():
        if not line.startswith("#"):
            name, version, wire = line.split(" ")
            found.setdefault((name, int(version)), []).append(bytes.fromhex(wire))
    return found


def _in_earnest(api: Api, topic: str, version: int) -> Iterator[Message]:
    """Requests that a broker would grant."""
    match api.name:
        case "Produce" if version >= 3:
            for acks in (0, 1, -1):
                data = PartitionProduceData(index=0, records=_batch())
                topics = [TopicProduceData(name=topic, partition_data=[data])]
                yield ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)
        case "Fetch" if version <= 12:
            # From version 13 on, topics are named by an id, and the samples have one that does not exist.
            partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 16)
            topics_read = [FetchTopic(topic=topic, partitions=[partition])]
            yield FetchRequest(max_wait_ms=10, min_bytes=1, max_bytes=1 << 16, topics=topics_read)
        case "ListOffsets":
            for timestamp in (-1, -2, 0):
                asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
                yield ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
        case "Metadata":
            yield MetadataRequest(topics=[MetadataRequestTopic(name=topic)])


def _batch() -> bytes:
    builder = BatchBuilder()
    builder.append_many(1_750_000_000_000, [b"fuzz"] * 3)
    return bytes(builder.build())


# ------------------------------------------------------------------------------------------ mutations


class Sent(NamedTuple):
    """Bytes to send, and whether the broker may be waiting for more of them."""

    data: bytes
    is_whole: bool = True


Mutation = Callable[[random.Random, Corpus, bytes], Sent]


def _as_it_is(rng: random.Random, corpus: Corpus, body: bytes) -> Sent:
    return Sent(framed(body))


def _flip_bits(rng: random.Random, corpus: Corpus, body: bytes) -> Sent:
    changed = bytearray(body)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return Sent(framed(bytes(changed)))


def _set_number(rng: random.Random, corpus: Corpus, body: bytes) -> Sent:
    """A number somewhere that means something there: a count, a length, an id, a version."""
    width, mask = rng.choice(((1, 0xFF), (2, 0xFFFF), (4, 0xFFFFFFFF), (8, (1 << 64) - 1)))
    at = rng.randrange(len(body))
    number = (rng.choice(NUMBERS) & mask).to_bytes(width, "big")
    return Sent(framed(body[:at] + number + body[at + width :]))


def _lie_about_the_size(rng: random.Random, corpus: Corpus, body: bytes) -> Sent:
    size = rng.choice((*SIZES, len(body) + rng.randrange(1, 100), max(0, len(body) - rng.randrange(1, 100))))
    return Sent(_size.pack(size) + body, is_whole=not len(body) < size <= 100 << 20)


def _splice(rng: random.Random, corpus: Corpus, body: bytes) -> Sent:
    other = rng.choice(corpus.requests)
    return Sent(framed(body[: rng.randrange(len(body) + 1)] + other[rng.randrange(len(other)) :]))


def _cut_off(rng: random.Random, corpus: Corpus, body: bytes) -> Sent:
    return Sent(framed(body[: rng.randrange(len(body))]))


def _stop_amid(rng: random.Random, corpus: Corpus, body: bytes) -> Sent:
    frame = framed(body)
    return Sent(frame[: rng.randrange(len(frame))], is_whole=False)


def _other_version(rng: random.Random, corpus: Corpus, body: bytes) -> Sent:
    version = rng.choice((*range(-1, 20), 127, 32767, -32768))
    return Sent(framed(body[:2] + struct.pack(">h", version) + body[4:]))


def _other_api(rng: random.Random, corpus: Corpus, body: bytes) -> Sent:
    key = rng.choice((*range(-1, 80), 32767, -32768))
    return Sent(framed(struct.pack(">h", key) + body[2:]))


def _double_a_piece(rng: random.Random, corpus: Corpus, body: bytes) -> Sent:
    start = rng.randrange(len(body))
    stop = rng.randrange(start, len(body)) + 1
    return Sent(framed(body[:stop] + body[start:stop] * rng.choice((1, 1, 2, 50)) + body[stop:]))


def _leave_out_a_piece(rng: random.Random, corpus: Corpus, body: bytes) -> Sent:
    start = rng.randrange(len(body))
    return Sent(framed(body[:start] + body[rng.randrange(start, len(body)) + 1 :]))


def _noise_after_the_header(rng: random.Random, corpus: Corpus, body: bytes) -> Sent:
    return Sent(framed(body[: 10 + len(CLIENT_ID)] + rng.randbytes(rng.choice((1, 10, 100, 1000)))))


def _noise(rng: random.Random, corpus: Corpus, body: bytes) -> Sent:
    noise = rng.randbytes(rng.choice((1, 3, 4, 8, 100, 5000)))
    # Its first bytes are taken for a size, and whatever they say is waited for.
    return Sent(framed(noise)) if rng.random() < 0.5 else Sent(noise, is_whole=False)


def _stranger(rng: random.Random, corpus: Corpus, body: bytes) -> Sent:
    return Sent(rng.choice(STRANGERS), is_whole=False)


MUTATIONS: Final[tuple[tuple[Mutation, int], ...]] = (
    (_as_it_is, 3),
    (_flip_bits, 6),
    (_set_number, 6),
    (_lie_about_the_size, 2),
    (_splice, 3),
    (_cut_off, 3),
    (_stop_amid, 1),
    (_other_version, 3),
    (_other_api, 2),
    (_double_a_piece, 3),
    (_leave_out_a_piece, 3),
    (_noise_after_the_header, 2),
    (_noise, 1),
    (_stranger, 1),
)
_KINDS: Final = [mutation for mutation, _ in MUTATIONS]
_WEIGHTS: Final = [weight for _, weight in MUTATIONS]


def mutated(rng: random.Random, corpus: Corpus) -> Sent:
    """One request that is no longer what it was."""
    mutation = rng.choices(_KINDS, _WEIGHTS)[0]
    return mutation(rng, corpus, rng.choice(corpus.requests))


def served_versions(answer: Any) -> list[Versions]:
    """From the answer to ApiVersions. What we declare and the broker does not serve is left out."""
    rows = {row.api_key: row for row in answer.api_keys}
    return [
        Versions.all_of(APIS[key])._replace(low=row.min_version, high=row.max_version)
        for key, row in rows.items()
        if key in APIS
    ]


def probe(correlation_id: int) -> bytes:
    """A request that any broker answers."""
    api = api_named("ApiVersions")
    return framed(request_body(api, 0, correlation_id, b""))
