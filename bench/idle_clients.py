"""The two kinds of clients of `bench.idle`, each in processes of their own.

python -m bench.idle_clients hold HOST PORT COUNT
    opens connections, asks once on each what every client asks first, says "open" and is silent until its input ends
python -m bench.idle_clients work HOST PORT TOPIC CONNECTIONS RATE SECONDS
    produces one record a request, evenly from all connections, and prints how long the answers took
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import time

import uvloop

from minikafka.broker.fd_limit import raise_fd_limit
from minikafka.protocol.apis import Api, api_named
from minikafka.protocol.headers import RequestHeader, encode_request_header
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.records.builder import BatchBuilder

OPENING_AT_ONCE = 100
PRODUCE_VERSION = 7
RECORD_BYTES = 100
WARM_UP_SECONDS = 0.5

_size = struct.Struct(">i")


def request(api: Api, version: int, message: bytes) -> bytes:
    header = encode_request_header(RequestHeader(api.key, version, 1, "idle"), api.is_flexible(version))
    return _size.pack(len(header) + len(message)) + header + message


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(frame)
    (size,) = _size.unpack(await reader.readexactly(_size.size))
    await reader.readexactly(size)


# ------------------------------------------------------------------------------------------- idle


async def hold(host: str, port: int, count: int) -> None:
    raise_fd_limit()
    frame = request(api_named("ApiVersions"), 0, b"")
    opened: list[asyncio.StreamWriter] = []
    places = asyncio.Semaphore(OPENING_AT_ONCE)

    async def open_one() -> None:
        async with places:
            reader, writer = await asyncio.open_connection(host, port)
            await ask(reader, writer, frame)
            opened.append(writer)

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(open_one())
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    lost = sum(writer.is_closing() for writer in opened)
    for writer in opened:
        writer.transport.abort()
    print(json.dumps({"lost": lost}), flush=True)


# ------------------------------------------------------------------------------------------- active


def produce_frame(topic: str) -> bytes:
    builder = BatchBuilder()
    builder.append(1_750_000_000_000, None, bytes(RECORD_BYTES))
    data = PartitionProduceData(index=0, records=bytes(builder.build()))
    message = ProduceRequest(
        acks=1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    return request(api_named("Produce"), PRODUCE_VERSION, b"".join(message.encode(PRODUCE_VERSION)))


async def work(host: str, port: int, topic: str, connections: int, rate: float, seconds: float) -> None:
    """Requests leave when they are due; one that is late counts from when it was due."""
    frame = produce_frame(topic)
    micros: list[float] = []
    streams = [await asyncio.open_connection(host, port) for _ in range(connections)]
    start = time.perf_counter() + 0.1
    interval = connections / rate

    async def one(number: int) -> None:
        reader, writer = streams[number]
        due = start + number / rate
        while due < start + WARM_UP_SECONDS + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            sent = time.perf_counter()
            await ask(reader, writer, frame)
            if due > start + WARM_UP_SECONDS:
                micros.append((time.perf_counter() - sent) * 1e6)
            due += interval

    await asyncio.gather(*map(one, range(connections)))
    for _, writer in streams:
        writer.close()
    micros.sort()
    at = {name: round(micros[int(len(micros) * part)], 1) for name, part in (("p50_us", 0.5), ("p99_us", 0.99))}
    print(json.dumps({"count": len(micros), **at, "max_us": round(micros[-1], 1)}), flush=True)


def main() -> None:
    match sys.argv[1:]:
        case ["hold", host, port, count]:
            uvloop.run(hold(host, int(port), int(count)))
        case ["work", host, port, topic, connections, rate, seconds]:
            uvloop.run(work(host, int(port), topic, int(connections), float(rate), float(seconds)))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
