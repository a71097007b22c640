"""Transactions as records: read as Kafka wrote them, written as Kafka would."""

from __future__ import annotations

from itertools import pairwise

import pytest

from minikafka.broker.coordinators.journal import Entry
from minikafka.broker.coordinators.transactions.records import entry, read_entry
from minikafka.broker.coordinators.transactions.states import FOLLOWERS, State
from minikafka.protocol.errors import DecodeError
from minikafka.protocol.records import iter_records, read_batches
from tests.storage.recorded import recorded_files

RECORDED = [
    Entry(record.key or b"", record.value)
    for path, data in recorded_files().items()
    if path.startswith("__transaction_state-") and path.endswith(".log") and data
    for batch in read_batches(data)
    for record in iter_records(batch)
]


def test_what_kafka_wrote() -> None:
    found = [read_entry(*each) for each in RECORDED]
    states = [each[1].state for each in found if each is not None and each[1] is not None]
    assert len(states) == len(RECORDED) > 10
    assert {*states} >= {State.EMPTY, State.ONGOING, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}
    # One producer wrote them, one after the other.
    assert all(after in FOLLOWERS[before] for before, after in pairwise(states))


def test_our_bytes_are_kafkas() -> None:
    for each in RECORDED:
        found = read_entry(*each)
        assert found is not None and found[1] is not None
        ours = entry(found[1])
        assert ours.key == each.key
        # Partitions have no order of their own.
        assert ours.value is not None and each.value is not None
        assert sorted(ours.value) == sorted(each.value)
        assert read_entry(*ours) == found


@pytest.mark.parametrize("key", [b"", b"\0"])
def test_a_key_that_says_nothing(key: bytes) -> None:
    with pytest.raises(DecodeError):
        read_entry(key, b"")


def test_keys_of_another_kind_are_left_alone() -> None:
    assert read_entry(b"\0\x09anything", b"") is None


def test_a_state_that_does_not_exist() -> None:
    key, value = RECORDED[0]
    assert value is not None
    # Version, producer id, epoch and timeout come before it.
    at = 2 + 8 + 2 + 4
    with pytest.raises(DecodeError):
        read_entry(key, value[:at] + b"\x63" + value[at + 1 :])
