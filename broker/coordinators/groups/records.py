"""Groups and offsets as records of `__consumer_offsets`, in Kafka's formats: its tools and lag monitors read them.

What is deleted is a key without a value. The versions written are those of Kafka 3.9; all versions are read, and keys
of a newer kind are left alone.

An offset belongs to a topic by its id, for which Kafka 3.9 has no field: it stands in a header of the record. Key and
value are as ever, so whoever reads them without headers, which are Kafka itself and lag monitors, sees no difference.
An offset without the header, written by Kafka or by an earlier version, counts for any topic of the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from minikafka.broker.coordinators.groups.group import Group
from minikafka.broker.coordinators.groups.members import Member
from minikafka.broker.coordinators.groups.offsets import Commit, Name
from minikafka.broker.coordinators.groups.states import State
from minikafka.broker.coordinators.journal import Entry, LabelledEntry
from minikafka.protocol.errors import DecodeError
from minikafka.protocol.messages.coordinator_records import (
    GroupMemberMetadata,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from minikafka.protocol.records.encoder import Header

_OFFSET_KEY: Final = 1
_OFFSET: Final = 3
_OFFSET_WITH_EXPIRY: Final = 1
_GROUP_KEY: Final = 2
_GROUP: Final = 3
_TOPIC_ID: Final = "topic.id"
_TOPIC_ID_BYTES: Final = 16


class OffsetRecord(NamedTuple):
    """A committed offset, or that there is none any more."""

    group_id: str
    name: Name
    commit: Commit | None


class GroupRecord(NamedTuple):
    """A group, or that there is none any more."""

    group_id: str
    value: GroupMetadataValue | None


def offset_entry(group_id: str, name: Name, commit: Commit | None) -> Entry | LabelledEntry:
    key = OffsetCommitKey(group=group_id, topic=name[0], partition=name[1]).dump(_OFFSET_KEY)
    if commit is None:
        return Entry(key, None)
    value = OffsetCommitValue(
        offset=commit.offset,
        leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        commit_timestamp=commit.commit_ms,
        expire_timestamp=-1 if commit.expire_ms is None else commit.expire_ms,
    )
    data = value.dump(_OFFSET if commit.expire_ms is None else _OFFSET_WITH_EXPIRY)
    if commit.topic_id is None:
        return Entry(key, data)
    return LabelledEntry(key, data, ((_TOPIC_ID, commit.topic_id),))


def group_entry(group: Group, assignments: Mapping[str, bytes]) -> Entry:
    """A group as it is, with assignments that may not be its members' yet."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.members.leader_id,
        current_state_timestamp=-1 if group.state_since_ms is None else group.state_since_ms,
        members=[
            GroupMemberMetadata(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                rebalance_timeout=each.rebalance_timeout_ms,
                session_timeout=each.session_timeout_ms,
                subscription=each.metadata(group.protocol_name),
                assignment=assignments.get(each.member_id, b""),
            )
            for each in group.members
        ],
    )
    return Entry(GroupMetadataKey(group=group.group_id).dump(_GROUP_KEY), value.dump(_GROUP))


def group_tombstone(group_id: str) -> Entry:
    return Entry(GroupMetadataKey(group=group_id).dump(_GROUP_KEY), None)


def read_entry(key: bytes, value: bytes | None, headers: Iterable[Header] = ()) -> OffsetRecord | GroupRecord | None:
    """What a record says; None if it is of a kind that is not known here. DecodeError if it says nothing."""
    if len(key) < 2:
        raise DecodeError("a key without a version")
    version = int.from_bytes(key[:2], "big", signed=True)
    if version == _GROUP_KEY:
        group_id = GroupMetadataKey.parse(key).group
        return GroupRecord(group_id, None if value is None else GroupMetadataValue.parse(value))
    if not 0 <= version <= _OFFSET_KEY:
        return None
    what = OffsetCommitKey.parse(key)
    name = (what.topic, what.partition)
    return OffsetRecord(what.group, name, None if value is None else _commit(OffsetCommitValue.parse(value), headers))


def _commit(value: OffsetCommitValue, headers: Iterable[Header]) -> Commit:
    expire_ms = None if value.expire_timestamp < 0 else value.expire_timestamp
    topic_id = dict(headers).get(_TOPIC_ID)
    if topic_id is not None and len(topic_id) != _TOPIC_ID_BYTES:
        raise DecodeError(f"a topic id of {len(topic_id)} bytes")
    return Commit(value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, expire_ms, topic_id)


def restore(group: Group, value: GroupMetadataValue, now: int) -> None:
    """Have a new group be what is written of it; its members have a whole session from now on."""
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.state_since_ms = None if value.current_state_timestamp < 0 else value.current_state_timestamp
    for each in value.members:
        member = Member(
            member_id=each.member_id,
            instance_id=each.group_instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            session_timeout_ms=each.session_timeout,
            rebalance_timeout_ms=each.rebalance_timeout or each.session_timeout,
            protocols=((value.protocol or "", bytes(each.subscription)),),
            assignment=bytes(each.assignment),
        )
        group.members.add(member)
        group.touch(member, now)
    if value.members:
        group.state = State.STABLE
        group.members.leader_id = value.leader if value.leader in group.members.all else value.members[0].member_id
