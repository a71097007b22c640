"""What a follower gets from its leader: checked, and divided as it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.batch import BatchView, read_whole_batches
from minikafka.protocol.records.control import EndMarker
from minikafka.protocol.varint import Buffer
from minikafka.storage.index import RELATIVE_OFFSET_MAX
from minikafka.storage.replay import end_marker
from minikafka.storage.scanning import BatchAt

Fetched: TypeAlias = tuple[BatchView, EndMarker | None]


def check_fetched(records: Buffer, next_offset: int) -> list[Fetched]:
    """The whole batches of an answer, with the markers in them; CorruptRecord unless they can follow in the log."""
    batches, _ = read_whole_batches(records)
    checked: list[Fetched] = []
    for batch in batches:
        if batch.base_offset < next_offset or batch.last_offset_delta < 0:
            raise CorruptRecord(
                f"batch of offsets {batch.base_offset} to {batch.last_offset} where {next_offset} is next"
            )
        batch.check_crc()
        checked.append((batch, end_marker(batch)))
        next_offset = batch.next_offset
    return checked


def grouped(batches: Sequence[Fetched], segment_bytes: int) -> list[list[Fetched]]:
    """Batches that surely go into one segment together: at most an eighth of one."""
    groups: list[list[Fetched]] = []
    room = last_offset_max = 0
    for each in batches:
        batch = each[0]
        if batch.size > room or batch.last_offset > last_offset_max:
            groups.append([])
            room = segment_bytes // 8
            last_offset_max = batch.base_offset + RELATIVE_OFFSET_MAX
        groups[-1].append(each)
        room -= batch.size
    return groups


def placed(batches: Sequence[Fetched]) -> tuple[list[BatchAt], int]:
    """Where the batches are, one after the other, and where they end."""
    found, position = [], 0
    for batch, _ in batches:
        found.append(
            BatchAt(position, batch.size, batch.base_offset, batch.last_offset, batch.max_timestamp, batch.leader_epoch)
        )
        position += batch.size
    return found, position
