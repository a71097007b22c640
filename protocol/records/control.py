"""Control batches: the markers that end a transaction in a partition.

A marker is a batch of one record with the control bit set, written by a broker for the coordinator. It takes an offset
like any record, and consumers read past it.

    key    version i16, type i16 (0 abort, 1 commit; others belong to Kafka's own quorum)
    value  version i16, coordinator epoch i32

Later versions may only add fields at the end, so what follows is ignored.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.builder import BatchBuilder
from minikafka.protocol.records.reader import iter_records

_VERSION = 0
_KEY = Struct(">hh")
_VALUE = Struct(">hi")

# A marker is a hundred bytes; more is not one, however it is compressed.
_MARKER_BYTES_MAX = 1 << 16


class ControlType(IntEnum):
    """What a control record says."""

    ABORT = 0
    COMMIT = 1


class EndMarker(NamedTuple):
    """The end of a producer's transaction."""

    type: ControlType
    coordinator_epoch: int


def build_marker(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
) -> bytearray:
    """The batch that ends a transaction."""
    builder = BatchBuilder()
    builder.append(timestamp_ms, _KEY.pack(_VERSION, control_type), _VALUE.pack(_VERSION, coordinator_epoch))
    return builder.build(producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True)


def read_marker(batch: BatchView) -> EndMarker | None:
    """The marker in a control batch, None if it is of a kind that does not end transactions."""
    records = [*iter_records(batch, _MARKER_BYTES_MAX)]
    if len(records) != 1:
        raise CorruptRecord(f"control batch at offset {batch.base_offset} has {len(records)} records")
    key, value = records[0].key or b"", records[0].value or b""
    if len(key) < _KEY.size:
        raise CorruptRecord(f"control batch at offset {batch.base_offset} has a key of {len(key)} bytes")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecord(f"control batch at offset {batch.base_offset} has version {version}")
    if number not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if len(value) < _VALUE.size:
        raise CorruptRecord(f"end marker at offset {batch.base_offset} has a value of {len(value)} bytes")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise CorruptRecord(f"end marker at offset {batch.base_offset} has version {version}")
    return EndMarker(ControlType(number), coordinator_epoch)
