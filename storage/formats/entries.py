"""Entries of the three indexes of a segment, all big-endian.

    offset index   relative offset, 4 bytes; position, 4
    time index     timestamp, 8; relative offset, 4
    txn index      version 0, 2; producer id, 8; first offset, 8; last offset, 8; last stable offset, 8

Offsets of the first two are relative to the base offset in the file's name. These two are mapped files that were
made large in advance: after a crash, and in the segment that is being written, zeros follow the last entry. An entry
of zeros alone says nothing that is not known without it, so all of them at the end are left out.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from minikafka.protocol.varint import Buffer
from minikafka.storage.formats.bad_file import BadFile

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")
TXN_ENTRY: Final = Struct(">hqqqq")

_TXN_VERSION: Final = 0


class AbortedTxn(NamedTuple):
    """An aborted transaction: its first record, its marker, and how far readers of committed data could see then."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def parse_offset_index(data: Buffer, base_offset: int) -> list[tuple[int, int]]:
    """Offset and position of all entries."""
    return [(base_offset + relative, position) for relative, position in _entries(OFFSET_ENTRY, data)]


def parse_time_index(data: Buffer, base_offset: int) -> list[tuple[int, int]]:
    """Timestamp and offset of all entries."""
    return [(timestamp, base_offset + relative) for timestamp, relative in _entries(TIME_ENTRY, data)]


def _entries(entry: Struct, data: Buffer) -> list[tuple[int, int]]:
    # An entry may well end in zero bytes, so what is left is filled up to whole ones.
    used = -(-len(bytes(data).rstrip(b"\0")) // entry.size) * entry.size
    if used > len(data):
        whole = len(data) // entry.size * entry.size
        raise BadFile(f"{len(data) - whole} bytes are too few for an entry of {entry.size}", whole)
    return [(first, second) for first, second in entry.iter_unpack(memoryview(data)[:used])]


def encode_aborted_txn(txn: AbortedTxn) -> bytes:
    return TXN_ENTRY.pack(_TXN_VERSION, *txn)


def parse_aborted_txns(data: Buffer) -> list[AbortedTxn]:
    whole = len(data) // TXN_ENTRY.size * TXN_ENTRY.size
    if whole != len(data):
        raise BadFile(f"{len(data) - whole} bytes are too few for an entry of {TXN_ENTRY.size}", whole)
    txns = []
    for number, (version, *fields) in enumerate(TXN_ENTRY.iter_unpack(data)):
        if version != _TXN_VERSION:
            raise BadFile(f"version {version} of an aborted transaction is not known", number * TXN_ENTRY.size)
        txns.append(AbortedTxn(*fields))
    return txns
