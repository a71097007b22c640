"""What a broker and the process that compacts its logs tell each other, as msgpack maps with a length before each.

    broker   plan                     child   group, group, ... and at last done, or an error
    broker   go                       after each group, when it has been put to use

The child waits for `go`, so that the disk never holds much more than one segment twice.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final, TypeAlias

import msgpack

from minikafka.storage.batch_filter import LastBatch
from minikafka.storage.cleaning import CleanedGroup, CompactionPlan, SegmentSpan
from minikafka.storage.config import LogConfig
from minikafka.storage.formats import AbortedTxn

Message: TypeAlias = dict[str, Any]

LENGTH: Final = Struct(">I")

_CONFIG_FIELDS: Final = ("segment_bytes", "segment_index_bytes", "index_interval_bytes", "delete_retention_ms")
"""All of a topic's configuration that matters to compaction."""


def encode(message: Message) -> bytes:
    data: bytes = msgpack.packb(message)
    return LENGTH.pack(len(data)) + data


def decode(data: bytes) -> Message:
    message: Message = msgpack.unpackb(data, strict_map_key=False)
    return message


def plan_message(plan: CompactionPlan) -> Message:
    return plan._asdict() | {
        "config": {name: getattr(plan.config, name) for name in _CONFIG_FIELDS},
        "last_batches": dict(plan.last_batches),
    }


def read_plan(message: Message) -> CompactionPlan:
    fields = message | {
        "config": LogConfig(**message["config"]),
        "segments": tuple(SegmentSpan(*each) for each in message["segments"]),
        "aborted": tuple(AbortedTxn(*each) for each in message["aborted"]),
        "last_batches": {key: LastBatch(*each) for key, each in message["last_batches"].items()},
    }
    return CompactionPlan(**fields)


def group_message(group: CleanedGroup) -> Message:
    return {"group": group}


def read_group(message: Message) -> CleanedGroup:
    old, new, next_dirty_offset = message["group"]
    return CleanedGroup(tuple(SegmentSpan(*each) for each in old), SegmentSpan(*new), next_dirty_offset)
