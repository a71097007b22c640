"""The producers of a partition as they were at the offset in the file's name.

    version 1, 2 bytes; CRC-32C of all that follows it, 4; number of entries, 4; and for each entry:
    producer id, 8; epoch, 2; last sequence, 4; last offset, 8; offset delta, 4; last timestamp, 8;
    coordinator epoch, 4; first offset of the open transaction or -1, 8

Last sequence, last offset and offset delta are those of the last batch; a producer of which only a marker is known
has -1, -1 and 0 there. Of the up to five batches that a broker remembers per producer only the last is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from minikafka.protocol.varint import Buffer
from minikafka.storage.formats.bad_file import BadFile

_VERSION: Final = 1
_HEADER: Final = Struct(">hIi")
_ENTRY: Final = Struct(">qhiqiqiq")
_CRC_AT: Final = 2
_CHECKED_FROM: Final = 6


class ProducerSnapshotEntry(NamedTuple):
    """What is kept of one producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def encode_snapshot(entries: Sequence[ProducerSnapshotEntry]) -> bytes:
    data = bytearray(_HEADER.pack(_VERSION, 0, len(entries)))
    for entry in entries:
        data += _ENTRY.pack(*entry)
    data[_CRC_AT:_CHECKED_FROM] = crc32c(data[_CHECKED_FROM:]).to_bytes(4, "big")
    return bytes(data)


def parse_snapshot(data: Buffer) -> list[ProducerSnapshotEntry]:
    if len(data) < _HEADER.size:
        raise BadFile(f"{len(data)} bytes are too few for a snapshot", len(data))
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise BadFile(f"version {version} of a snapshot is not known")
    actual = crc32c(memoryview(data)[_CHECKED_FROM:])
    if actual != crc:
        raise BadFile(f"the snapshot states CRC {crc:#x} and has {actual:#x}", _CRC_AT)
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise BadFile(f"{count} producers are announced in {len(data)} bytes", _CHECKED_FROM)
    return [ProducerSnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :])]
