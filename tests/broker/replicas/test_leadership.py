"""Who is in sync and what is committed, by hand-made stories of followers' fetches."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from minikafka.broker.replicas.leadership import Follower, FollowerFetch, Leadership, Moment

LAG_MS = 1_000
ALIVE = {1: 11, 2: 12, 3: 13}


def leading(isr: tuple[int, ...] = (1, 2, 3), start_offset: int = 0, now_ms: int = 0) -> Leadership:
    leadership = Leadership(1, epoch=5, start_offset=start_offset)
    leadership.update((1, 2, 3), isr, partition_epoch=7, now_ms=now_ms)
    return leadership


def fetched(leadership: Leadership, broker_id: int, offset: int, leader_end: int, now_ms: int = 0) -> None:
    fetch = FollowerFetch(broker_id, ALIVE[broker_id], offset, 0)
    leadership.followers[broker_id].on_fetch(fetch, leader_end, now_ms)


def at(leader_end: int, now_ms: int = 0, alive: Mapping[int, int] = ALIVE) -> Moment:
    return Moment(leader_end, now_ms, LAG_MS, alive)


def test_committed_is_what_all_in_sync_replicas_have() -> None:
    leadership = leading()
    fetched(leadership, 2, 8, 10)
    fetched(leadership, 3, 6, 10)
    assert leadership.committed_offset(10, at(10)) == 6


def test_nothing_is_committed_before_followers_have_said_anything() -> None:
    assert leading().committed_offset(10, at(10)) == -1


def test_a_leader_on_its_own_commits_what_it_has() -> None:
    leadership = Leadership(1, 0, 0)
    leadership.update((1,), (1,), 0, 0)
    assert leadership.is_alone
    assert leadership.committed_offset(10, at(10)) == 10


def test_the_leader_counts_only_as_far_as_it_says() -> None:
    leadership = leading((1,))
    assert leadership.committed_offset(4, at(10, now_ms=LAG_MS + 1)) == 4


def test_whoever_is_proposed_to_join_counts_at_once() -> None:
    leadership = leading((1, 2))
    fetched(leadership, 2, 10, 10)
    fetched(leadership, 3, 5, 10)
    later = at(10, now_ms=LAG_MS + 1)
    assert leadership.committed_offset(10, later) == 10
    leadership.propose((1, 2, 3))
    assert leadership.committed_offset(10, later) == 5
    assert leadership.isr == (1, 2)


def test_whoever_is_proposed_to_leave_counts_until_it_has_left() -> None:
    leadership = leading()
    fetched(leadership, 2, 10, 10)
    fetched(leadership, 3, 5, 10)
    later = at(10, now_ms=LAG_MS + 1)
    leadership.propose((1, 2))
    assert leadership.committed_offset(10, later) == 5
    leadership.accept((1, 2), 8)
    assert leadership.committed_offset(10, later) == 10
    assert leadership.partition_epoch == 8


def test_a_proposal_that_is_refused_leaves_what_was() -> None:
    leadership = leading((1, 2))
    leadership.propose((1, 2, 3))
    leadership.withdraw()
    assert leadership.proposed is None
    assert leadership.maximal_isr == {1, 2}


def test_what_has_just_caught_up_is_waited_for() -> None:
    leadership = leading((1, 2))
    fetched(leadership, 2, 10, 10)
    fetched(leadership, 3, 8, 8, now_ms=0)
    assert leadership.committed_offset(10, at(10, now_ms=10)) == 8
    # But not for ever, and not if it is not the same process any more.
    assert leadership.committed_offset(10, at(10, now_ms=LAG_MS + 1)) == 10
    assert leadership.committed_offset(10, at(10, now_ms=10, alive={1: 11, 2: 12, 3: 99})) == 10
    assert leadership.committed_offset(10, at(10, now_ms=10, alive={1: 11, 2: 12})) == 10


@pytest.mark.parametrize(
    ("end", "high_watermark", "start", "alive", "may"),
    [
        (10, 10, 0, ALIVE, True),
        (9, 10, 0, ALIVE, False),
        # It has all that is known to be committed, but not all that was before this epoch.
        (10, 5, 12, ALIVE, False),
        (12, 5, 12, ALIVE, True),
        # It was restarted since, or is gone.
        (10, 10, 0, {3: 99}, False),
        (10, 10, 0, {}, False),
    ],
)
def test_who_may_join(end: int, high_watermark: int, start: int, alive: dict[int, int], may: bool) -> None:
    leadership = leading((1, 2), start_offset=start)
    fetched(leadership, 3, end, 20)
    assert leadership.may_join(3, high_watermark, alive) is may


def test_a_member_need_not_join() -> None:
    leadership = leading()
    fetched(leadership, 3, 10, 10)
    assert not leadership.may_join(3, 0, ALIVE)
    assert not leadership.may_join(4, 0, ALIVE)


def test_a_follower_is_late_when_it_has_not_caught_up_for_long() -> None:
    leadership = leading()
    fetched(leadership, 2, 10, 10, now_ms=0)
    fetched(leadership, 3, 4, 10, now_ms=0)
    assert leadership.out_of_sync(at(10, now_ms=LAG_MS)) == set()
    # The second has all there is, however long ago it said so.
    assert leadership.out_of_sync(at(10, now_ms=LAG_MS + 1)) == {3}
    assert leadership.out_of_sync(at(11, now_ms=LAG_MS + 1)) == {2, 3}


def test_a_follower_that_keeps_up_with_a_moving_end_is_in_sync() -> None:
    follower = Follower()
    for step in range(1, 10):
        # It is always one step behind, and always had what there was at its last fetch.
        follower.on_fetch(FollowerFetch(2, 12, (step - 1) * 10, 0), step * 10, step * LAG_MS)
    assert follower.caught_up_ms == 8 * LAG_MS
    assert follower.is_caught_up(90, 9 * LAG_MS, LAG_MS)


def test_what_is_known_of_followers_outlives_a_change_of_the_isr_but_not_of_the_replicas() -> None:
    leadership = leading()
    fetched(leadership, 2, 8, 10)
    leadership.update((1, 2, 4), (1, 2), 8, 500)
    assert leadership.followers[2].log_end_offset == 8
    assert leadership.followers[4] == Follower()
    assert 3 not in leadership.followers
    leadership.update((1, 2, 5), (1, 2, 5), 9, 600)
    assert leadership.followers[5] == Follower(caught_up_ms=600)


@pytest.mark.parametrize("now_ms", [0, LAG_MS, 10**9])
def test_nobody_waits_for_a_replica_that_has_yet_to_catch_up(now_ms: int) -> None:
    leadership = leading((1, 2), now_ms=now_ms)
    fetched(leadership, 2, 10, 10, now_ms)
    for offset in (0, 5):
        fetched(leadership, 3, offset, 10, now_ms)
        assert leadership.committed_offset(10, at(10, now_ms)) == 10
