"""Fetch sessions: opening, continuing, news, and room for them."""

from __future__ import annotations

import itertools

import pytest

from minikafka.broker.fetch_sessions import FetchSession, FetchSessions
from minikafka.broker.replicas.waiting import DataWatch
from minikafka.protocol.errors import (
    ErrorCode,
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
)
from minikafka.protocol.messages.fetch import (
    EpochEndOffset,
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

MINUTES_MS = 60_000


def request(
    offsets: dict[int, int] | None = None,
    *,
    session_id: int = 0,
    epoch: int = 0,
    forget: list[int] | None = None,
) -> FetchRequest:
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=100)
        for index, offset in (offsets or {}).items()
    ]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=wanted)],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=forget or [])],
    )


def answer(index: int, high_watermark: int = 0, **fields: object) -> FetchablePartitionResponse:
    made = FetchablePartitionResponse(partition_index=index, high_watermark=high_watermark, records=b"")
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(lambda: slots, itertools.count(100).__next__)


def create(all_sessions: FetchSessions, now_ms: int, *, is_privileged: bool = False) -> FetchSession | None:
    return all_sessions.create(False, is_privileged, now_ms, DataWatch(lambda _: 0))


def opened(all_sessions: FetchSessions, offsets: dict[int, int], now_ms: int = 0) -> FetchSession:
    session = create(all_sessions, now_ms)
    assert session is not None
    session.update(request(offsets))
    return session


def test_a_session_is_continued_by_the_request_that_comes_next() -> None:
    all_sessions = sessions()
    session = opened(all_sessions, {0: 5, 1: 6})
    again = all_sessions.resume(request({0: 8}, session_id=session.id, epoch=1, forget=[1]), False, 0)
    assert again is session
    assert {key: each.wanted.fetch_offset for key, each in session.partitions.items()} == {("t", 0): 8}
    with pytest.raises(InvalidFetchSessionEpochError):
        all_sessions.resume(request(session_id=session.id, epoch=1), False, 0)
    all_sessions.resume(request(session_id=session.id, epoch=2), False, 0)


def test_a_session_that_is_not_there_cannot_be_continued() -> None:
    all_sessions = sessions()
    with pytest.raises(FetchSessionIdNotFoundError):
        all_sessions.resume(request(session_id=0, epoch=3), False, 0)
    session = opened(all_sessions, {0: 0})
    all_sessions.close(session.id)
    with pytest.raises(FetchSessionIdNotFoundError):
        all_sessions.resume(request(session_id=session.id, epoch=1), False, 0)


def test_a_session_goes_on_by_names_or_by_ids_as_it_began() -> None:
    all_sessions = sessions()
    session = opened(all_sessions, {0: 0})
    with pytest.raises(FetchSessionTopicIdError):
        all_sessions.resume(request(session_id=session.id, epoch=1), True, 0)


def test_only_news_is_told() -> None:
    session = opened(sessions(), {0: 0, 1: 0})
    key = ("t", 0)
    assert session.news([(key, answer(0, 5))]) == [key]
    assert session.news([(key, answer(0, 5))]) == []
    assert session.news([(key, answer(0, 6))]) == [key]
    assert session.news([(key, answer(0, 6, log_start_offset=2))]) == [key]
    assert session.news([(key, answer(0, 6, log_start_offset=2, records=b"x"))]) == [key]
    assert session.news([(key, answer(0, 6, log_start_offset=2, preferred_read_replica=2))]) == [key]
    assert session.news([(key, answer(0, 6, log_start_offset=2, diverging_epoch=EpochEndOffset()))]) == [key]


def test_after_an_error_the_next_answer_is_news() -> None:
    session = opened(sessions(), {0: 0})
    key = ("t", 0)
    session.news([(key, answer(0, 5))])
    assert session.news([(key, answer(0, -1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))]) == [key]
    assert session.news([(key, answer(0, 5))]) == [key]


def test_whoever_had_records_goes_to_the_end() -> None:
    session = opened(sessions(), {0: 0, 1: 0, 2: 0})
    session.news([(("t", 0), answer(0, records=b"x")), (("t", 1), answer(1))])
    assert list(session.partitions) == [("t", 1), ("t", 2), ("t", 0)]


def test_a_partition_that_was_forgotten_meanwhile_is_no_news() -> None:
    session = opened(sessions(), {0: 0})
    assert session.news([(("t", 9), answer(9, records=b"x"))]) == []


def test_there_is_room_for_so_many() -> None:
    all_sessions = sessions(slots=2)
    first, second = (opened(all_sessions, {0: 0}) for _ in range(2))
    assert create(all_sessions, MINUTES_MS) is None
    # The second was used; the first has not been for two minutes.
    all_sessions.resume(request(session_id=second.id, epoch=1), False, 2 * MINUTES_MS)
    third = create(all_sessions, 2 * MINUTES_MS + 1)
    assert third is not None
    with pytest.raises(FetchSessionIdNotFoundError):
        all_sessions.resume(request(session_id=first.id, epoch=1), False, 0)
    assert len(all_sessions) == 2


def test_a_follower_takes_the_place_of_a_client() -> None:
    all_sessions = sessions(slots=1)
    opened(all_sessions, {0: 0})
    follower = create(all_sessions, 1, is_privileged=True)
    assert follower is not None
    assert create(all_sessions, 2, is_privileged=True) is None


def test_ids_are_never_used_twice_at_a_time() -> None:
    numbers = iter([0, 7, 7, 8])
    all_sessions = FetchSessions(lambda: 10, numbers.__next__)
    ids = [session.id for _ in range(2) if (session := create(all_sessions, 0)) is not None]
    assert ids == [7, 8]


def test_the_number_of_the_next_request_starts_over() -> None:
    session = opened(sessions(), {0: 0})
    session.epoch = (1 << 31) - 1
    session.advance()
    assert session.epoch == 1


def test_what_was_forgotten_is_not_looked_at_for_ever() -> None:
    session = opened(sessions(), {0: 0, 1: 0})
    session.update(request({}, forget=[1]))
    # An answer that was on its way says that there is more of it.
    session.watch.told([("t", 0), ("t", 1)])
    assert list(session.pending()) == [("t", 0)]
    assert session.watch.pending() == [("t", 0)]
