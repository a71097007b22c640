"""The rules that need no broker: membership, fetch sessions, aborted transactions, memory."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.consumer.fetched import read_fetched
from minikafka.client.consumer.membership import NO_GENERATION, TRANSITIONS, Event, Membership, State
from minikafka.client.consumer.memory import Memory
from minikafka.client.consumer.partition import Position
from minikafka.client.consumer.sessions import FetchSession, SessionFields, Wanted
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import AbortedTransaction, FetchablePartitionResponse
from minikafka.protocol.records import BatchBuilder, BatchView, ControlType, build_marker, read_batches

# ------------------------------------------------------------------------------------------------- membership


def test_the_table_is_whole() -> None:
    assert TRANSITIONS.keys() == {*State}
    assert all(row.keys() == {*Event} for row in TRANSITIONS.values())


@given(st.lists(st.sampled_from([*Event])))
def test_whatever_happens_to_a_member(events: list[Event]) -> None:
    member = Membership()
    generation = 0
    for event in events:
        was_known, before = member.is_known, member.state
        if event is Event.JOINED:
            generation += 1
            member.joined(generation, "me")
        else:
            member.on(event)
        # Assignments come with a generation, and nobody outside the group has one.
        if member.state in (State.SYNCING, State.STABLE):
            assert member.is_known and member.member_id
        if member.state in (State.OUT, State.EXPIRED, State.FAILED):
            assert not member.is_known and not member.member_id
        # A generation that ends without the member's own doing is noticed.
        if was_known and not member.is_known:
            assert member.has_lost or member.state is State.OUT
        if before is State.FAILED:
            assert member.state is State.FAILED
        if event is Event.UNSUBSCRIBED:
            assert member.state in (State.OUT, State.FAILED) and not (member.has_lost and member.state is State.OUT)


def test_the_usual_way() -> None:
    member = Membership()
    assert member.on(Event.SUBSCRIBED) is State.JOINING
    member.name("me-1")
    assert member.joined(1, "me-1") is State.SYNCING
    assert member.on(Event.SYNCED) is State.STABLE
    assert member.on(Event.REBALANCE) is State.JOINING
    # Until it has joined again, it can commit in the generation it was in.
    assert (member.generation_id, member.member_id) == (1, "me-1")
    assert member.joined(2, "me-1") is State.SYNCING
    assert member.on(Event.ILLEGAL_GENERATION) is State.JOINING
    assert (member.generation_id, member.member_id, member.take_lost()) == (NO_GENERATION, "me-1", True)
    assert member.on(Event.UNKNOWN_MEMBER) is State.JOINING
    assert (member.member_id, member.take_lost()) == ("", False)


# --------------------------------------------------------------------------------------------------- sessions

PARTITIONS = [TopicPartition(topic, number) for topic in "ab" for number in range(3)]


class BrokerOfSessions:
    """What a broker believes of a session."""

    def __init__(self) -> None:
        self.id = 0
        self.epoch = 0
        self.known: dict[TopicPartition, int] = {}

    def take(self, fields: SessionFields) -> int:
        """The error code it answers with."""
        named = {
            TopicPartition(topic.topic, each.partition): each.fetch_offset
            for topic in fields.topics
            for each in topic.partitions
        }
        if fields.session_epoch == 0:
            self.known, self.epoch = named, 1
            return ErrorCode.NONE
        if fields.session_id != self.id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if fields.session_epoch != self.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        self.known.update(named)
        for topic in fields.forgotten:
            for number in topic.partitions:
                del self.known[TopicPartition(topic.topic, number)]
        self.epoch += 1
        return ErrorCode.NONE


changes = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(PARTITIONS), st.none() | st.integers(0, 3)),
        st.sampled_from(["answered"] * 4 + ["lost", "forgotten", "declined"]),
    )
)


@given(changes)
def test_broker_and_session_agree(steps: list[tuple[dict[TopicPartition, int | None], str]]) -> None:
    session, broker, next_id = FetchSession(), BrokerOfSessions(), 1
    for wishes, fate in steps:
        for tp, offset in wishes.items():
            if offset is None:
                session.forget(tp)
            else:
                session.want(tp, Wanted(offset, 0, 0, 1))
        if fate == "forgotten":
            broker.id = -1
        fields = session.begin()
        code = broker.take(fields)
        if fate == "lost":
            session.restart()
        elif code:
            session.restart(code)
        else:
            assert broker.known == {tp: wanted.offset for tp, wanted in session.wanted.items()}
            if fields.session_epoch == 0:
                broker.id = 0 if fate == "declined" else next_id
                next_id += 1
            session.accept(broker.id)


def test_a_session_names_only_what_has_changed() -> None:
    session = FetchSession()
    for tp in PARTITIONS:
        session.want(tp, Wanted(0, 0, 0, 1))
    assert sum(len(topic.partitions) for topic in session.begin().topics) == 6
    session.accept(9)
    assert session.begin() == SessionFields(9, 1, [], [])
    session.accept(9)
    session.want(PARTITIONS[0], Wanted(5, 0, 0, 1))
    session.forget(PARTITIONS[5])
    fields = session.begin()
    assert [(topic.topic, [each.fetch_offset for each in topic.partitions]) for topic in fields.topics] == [("a", [5])]
    assert [(topic.topic, topic.partitions) for topic in fields.forgotten] == [("b", [2])]


# ---------------------------------------------------------------------------------------------- transactions


def batch_of(base: int, count: int, producer: int = -1) -> bytes:
    builder = BatchBuilder()
    for number in range(count):
        builder.append(0, None, b"%d" % (base + number))
    if producer < 0:
        data = builder.build()
    else:
        data = builder.build(producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)
    BatchView(data).patch(base, 0)
    return bytes(data)


def marker(base: int, kind: ControlType, producer: int) -> bytes:
    data = build_marker(kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0)
    BatchView(data).patch(base, 0)
    return bytes(data)


LOG = b"".join(
    [
        batch_of(0, 2),
        batch_of(2, 2, producer=7),
        batch_of(4, 2, producer=8),
        marker(6, ControlType.ABORT, 7),
        batch_of(7, 1, producer=7),
        marker(8, ControlType.COMMIT, 8),
        marker(9, ControlType.COMMIT, 7),
        batch_of(10, 1, producer=7),
        marker(11, ControlType.ABORT, 7),
    ]
)


def fetched_offsets(aborted: Iterable[tuple[int, int]], offset: int, read_committed: bool) -> tuple[list[int], int]:
    transactions = [AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in aborted]
    # As brokers do, from the batch on that has the offset.
    records = b"".join(bytes(each.data) for each in read_batches(LOG) if each.next_offset > offset)
    answer = FetchablePartitionResponse(
        partition_index=0, high_watermark=12, aborted_transactions=transactions, records=records
    )
    found = read_fetched(answer, Position(offset), read_committed)
    return [chunk.batch.base_offset for chunk in found.chunks], found.chunks[-1].after.offset


def test_aborted_transactions_are_left_out() -> None:
    assert fetched_offsets([(7, 10), (7, 2)], 0, True) == ([0, 4, 7], 12)
    assert fetched_offsets([], 0, False) == ([0, 2, 4, 7, 10], 12)
    # A fetch from the middle of a transaction.
    assert fetched_offsets([(7, 2), (7, 10)], 3, True) == ([4, 7], 12)


def test_reading_goes_on_past_what_is_left_out() -> None:
    answer = FetchablePartitionResponse(partition_index=0, high_watermark=12, records=marker(6, ControlType.ABORT, 7))
    assert read_fetched(answer, Position(6), True)[:2] == (Position(7, 0), [])


# ---------------------------------------------------------------------------------------------------- memory


@given(st.lists(st.tuples(st.sampled_from(["reserve", "settle", "free"]), st.integers(1, 2000))))
def test_memory_is_never_overdrawn(steps: list[tuple[str, int]]) -> None:
    told: list[bool] = []
    memory = Memory(1000, 100, lambda: told.append(memory.has_room))
    reserved: list[int] = []
    for what, size in steps:
        if what == "reserve":
            had_room = memory.has_room
            if room := memory.reserve(size, 1 + size % 3):
                reserved.append(room)
            assert bool(room) == had_room
        elif what == "settle" and reserved:
            room = reserved.pop()
            memory.take(room)
            memory.settle(room)
        elif what == "free" and memory.used_bytes:
            memory.free(min(size, memory.used_bytes))
        assert 0 <= memory.used_bytes + memory.reserved_bytes <= 1000
    assert all(told)


@pytest.mark.parametrize("sharers", [1, 3])
def test_everybody_gets_a_share(sharers: int) -> None:
    memory = Memory(900, 100, lambda: None)
    assert [memory.reserve(5000, sharers) for _ in range(sharers)] == [900 // sharers] * sharers
    assert memory.reserve(1, sharers) == 0
