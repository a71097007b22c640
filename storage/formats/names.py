"""Names in a log directory.

    <topic>-<partition>/                          a partition
    <topic>-<partition>.<unique>-delete/          one that is being deleted; -stray, -future likewise
    <20 digits>.log                               a segment, named by its base offset; its indexes likewise
    <20 digits>.log.deleted                       a file to be unlinked later; `.log.1.deleted` and so on likewise
    <20 digits>.log.cleaned, ....log.swap         what compaction writes, before and after it is whole

Only the exact form counts: `t-00` or a name of 19 digits is nobody's file, for another name would be written back.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from minikafka.protocol.errors import InvalidTopicError
from minikafka.protocol.varint import INT32_MAX, INT64_MAX

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"

DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TMP_SUFFIX: Final = ".tmp"

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
REPLICATION_CHECKPOINT: Final = "replication-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
META_PROPERTIES_FILE: Final = "meta.properties"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
LOCK_FILE: Final = ".lock"

DELETE_DIR_SUFFIX: Final = "-delete"
STRAY_DIR_SUFFIX: Final = "-stray"
FUTURE_DIR_SUFFIX: Final = "-future"

_TOPIC_NAME_MAX: Final = 249
_FILE_NAME_MAX: Final = 255

_topic = re.compile(r"[a-zA-Z0-9._-]+")
_partition_dir = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})")
_marked_dir = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})\.([^.\s]+)(-delete|-stray|-future)")
_mark = re.compile(r"((?:\.[1-9][0-9]*)?\.deleted|\.cleaned|\.swap)\Z")
_segment = re.compile(rf"([0-9]{{20}})(\.(?:log|index|timeindex|txnindex|snapshot)(?:{_mark.pattern})?)")


class MarkedDir(NamedTuple):
    """A partition's directory on its way out or in; a long topic name may have been cut."""

    topic: str
    partition: int
    unique: str
    suffix: str


def segment_name(base_offset: int) -> str:
    """The name that the files of a segment have in common."""
    return f"{base_offset:020d}"


def deleted_suffix(number: int) -> str:
    """What is added to the names of segments that leave a log; two of one base offset leave with different numbers."""
    return f".{number}{DELETED_SUFFIX}" if number else DELETED_SUFFIX


def parse_segment_name(name: str) -> tuple[int, str] | None:
    """Base offset and suffix (`.log`, `.index.swap`) of a segment's file, None if it is none."""
    found = _segment.fullmatch(name)
    if found is None or int(found[1]) > INT64_MAX:
        return None
    return int(found[1]), found[2]


def mark_of(kind: str) -> str:
    """The mark of a file that is on its way out or in, at the end of its suffix or name; nothing for others."""
    found = _mark.search(kind)
    return found[1] if found is not None else ""


def partition_dir(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_partition_dir(name: str) -> tuple[str, int] | None:
    """Topic and partition of a directory that is in use, None for any other."""
    found = _partition_dir.fullmatch(name)
    if found is None or int(found[2]) > INT32_MAX or _topic_flaw(found[1]) is not None:
        return None
    return found[1], int(found[2])


def delete_dir(topic: str, partition: int, unique: str) -> str:
    """What a partition's directory is called until its files are gone."""
    return _marked(topic, f"-{partition}.{unique}{DELETE_DIR_SUFFIX}")


def stray_dir(topic: str, partition: int, unique: str) -> str:
    """What the directory of a partition that nobody assigned to this broker is called."""
    return _marked(topic, f"-{partition}.{unique}{STRAY_DIR_SUFFIX}")


def _marked(topic: str, end: str) -> str:
    return topic[: _FILE_NAME_MAX - len(end)] + end


def parse_marked_dir(name: str) -> MarkedDir | None:
    """What `delete_dir`, `stray_dir` or Kafka made of a partition's name, None if it is none."""
    found = _marked_dir.fullmatch(name)
    if found is None or int(found[2]) > INT32_MAX or _topic_flaw(found[1]) is not None:
        return None
    return MarkedDir(found[1], int(found[2]), found[3], found[4])


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicError unless a topic may have the name."""
    flaw = _topic_flaw(name)
    if flaw is not None:
        raise InvalidTopicError(f"Topic name is invalid: {flaw}")


def _topic_flaw(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    # Kafka's texts, since clients show them to people and some match on them.
    if len(name) > _TOPIC_NAME_MAX:
        return f"the length of '{name}' is longer than the max allowed length {_TOPIC_NAME_MAX}"
    if not _topic.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
