"""A bit that flips in the header of a batch, on a disk or on the wire: no record is passed over in silence."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.client.errors import ClientError
from tests.client.consumer.reading import open_consumer
from tests.client.consumer.test_scripted_broker import READ_S, LogPeer, batch

HEADER_BYTES = 61
FIELDS = {
    "base offset": range(8),
    "length": range(8, 12),
    "leader epoch": range(12, 16),
    "magic": range(16, 17),
    "crc": range(17, 21),
    "attributes": range(21, 23),
    "last offset delta": range(23, 27),
    "timestamps": range(27, 43),
    "producer id": range(43, 51),
    "producer epoch": range(51, 53),
    "base sequence": range(53, 57),
    "record count": range(57, 61),
}
"""Where the fields of a header lie, as Kafka's protocol guide has them."""

EVERYTHING = {b"%d" % number for number in range(9)}


def test_fields_are_the_whole_header() -> None:
    assert sorted(byte for field in FIELDS.values() for byte in field) == [*range(HEADER_BYTES)]


class DamagedPeer(LogPeer):
    """Serves batches by their offsets, one of them with a byte that is wrong."""

    def __init__(self, log: list[bytearray], damaged: int, byte: int, bit: int) -> None:
        super().__init__(*log)
        self._damaged, self._byte, self._flip = log[damaged], byte, 1 << bit

    def _as_sent(self, data: bytearray) -> bytearray:
        sent = bytearray(data)
        if data is self._damaged:
            sent[self._byte] ^= self._flip
        return sent


async def read_all(peer: LogPeer, is_committed: bool) -> set[bytes]:
    """The values of all records that are handed out, until an error or all of them."""
    seen: set[bytes] = set()
    level = "read_committed" if is_committed else "read_uncommitted"
    async with peer:
        options = {"isolation_level": level, "fetch_max_wait_ms": 10, "retry_backoff_ms": 1}
        async with open_consumer(peer.bootstrap, "t", **options) as consumer, asyncio.timeout(READ_S):
            while EVERYTHING - seen:
                for records in (await consumer.getmany(timeout_ms=10_000)).values():
                    seen |= {record.value for record in records}
    return seen


@pytest.mark.parametrize("field", FIELDS)
async def test_flipped_bit_is_noticed(field: str) -> None:
    """Each bit of a field of the middle one of three batches: all records are read, or there is an error."""
    for byte in FIELDS[field]:
        for bit in range(8):
            peer = DamagedPeer([batch(0, 3), batch(3, 6), batch(6, 9)], 1, byte, bit)
            try:
                seen = await read_all(peer, is_committed=bool(bit % 2))
            except ClientError:
                continue
            assert seen == EVERYTHING, f"bit {bit} of byte {byte}"
