"""Groups and offsets as records: read as Kafka wrote them, written as Kafka would."""

from __future__ import annotations

import pytest

from minikafka.broker.coordinators.groups.offsets import Commit
from minikafka.broker.coordinators.groups.records import (
    GroupRecord,
    OffsetRecord,
    group_entry,
    group_tombstone,
    offset_entry,
    read_entry,
    restore,
)
from minikafka.broker.coordinators.groups.states import State
from minikafka.broker.coordinators.journal import Entry
from minikafka.protocol.errors import DecodeError
from minikafka.protocol.records import iter_records, read_batches
from tests.broker.coordinators.stand import Stand
from tests.storage.recorded import recorded_files

RECORDED = [
    Entry(record.key or b"", record.value)
    for batch in read_batches(recorded_files()["__consumer_offsets-1/00000000000000000000.log"])
    for record in iter_records(batch)
]


def test_what_kafka_wrote() -> None:
    found = [read_entry(*each) for each in RECORDED]
    assert [type(each) for each in found] == [GroupRecord, OffsetRecord, OffsetRecord, GroupRecord]
    assert found[1] == OffsetRecord("fxg", ("codec-lz4", 0), Commit(600, 0, "", 1794810312427))


@pytest.mark.parametrize("entry", RECORDED)
def test_our_bytes_are_kafkas(entry: Entry) -> None:
    found = read_entry(*entry)
    if isinstance(found, OffsetRecord):
        assert offset_entry(*found) == entry
    else:
        assert found is not None and found.value is not None
        stand = Stand()
        stand.group.group_id = found.group_id
        restore(stand.group, found.value, 0)
        assignments = {each.member_id: each.assignment for each in stand.group.members}
        assert group_entry(stand.group, assignments) == entry


def test_members_have_a_session_from_the_load_on() -> None:
    found = read_entry(*RECORDED[0])
    assert isinstance(found, GroupRecord) and found.value is not None
    stand = Stand()
    restore(stand.group, found.value, stand.now)
    assert (stand.group.state, stand.group.generation) == (State.STABLE, 1)
    (member,) = stand.group.members
    assert member.deadline_ms == stand.now + member.session_timeout_ms
    stand.pass_time(member.session_timeout_ms)
    assert stand.group.state is State.EMPTY


def test_what_is_deleted_has_no_value() -> None:
    assert read_entry(*group_tombstone("g")) == GroupRecord("g", None)
    assert read_entry(*offset_entry("g", ("t", 1), None)) == OffsetRecord("g", ("t", 1), None)


def test_expiry_of_old_clients_is_kept() -> None:
    commit = Commit(5, -1, "m", 10, 20)
    assert read_entry(*offset_entry("g", ("t", 1), commit)) == OffsetRecord("g", ("t", 1), commit)


def test_topic_id_is_beside_the_bytes_of_kafka() -> None:
    plain = Commit(5, -1, "m", 10)
    commit = plain._replace(topic_id=bytes(range(16)))
    key, value, *headers = offset_entry("g", ("t", 1), commit)
    assert (key, value) == offset_entry("g", ("t", 1), plain)
    assert read_entry(key, value, *headers) == OffsetRecord("g", ("t", 1), commit)
    # As Kafka and earlier versions write it, and as lag monitors read it.
    assert read_entry(key, value) == OffsetRecord("g", ("t", 1), plain)
    assert value is not None and value[:2] == b"\0\x03"
    with pytest.raises(DecodeError):
        read_entry(key, value, [("topic.id", b"short")])


def test_newer_kinds_are_left_alone() -> None:
    assert read_entry(b"\0\x03whatever", b"") is None


def test_keys_that_say_nothing() -> None:
    for key in (b"", b"\0", b"\0\x02"):
        with pytest.raises(DecodeError):
            read_entry(key, None)
