"""Groups: joining, generations, leaders, time."""

from __future__ import annotations

from minikafka.broker.coordinators.groups.group import NEW_MEMBER_TIMEOUT_MS
from minikafka.broker.coordinators.groups.states import State
from minikafka.protocol.errors import ErrorCode, NotCoordinatorError, RequestTimedOutError
from tests.broker.coordinators.stand import PROTOCOLS, Stand


def test_first_member_leads_and_hears_of_itself() -> None:
    stand = Stand()
    answers = stand.join()
    stand.pass_time(0)
    (answer,) = answers
    assert (answer.error, answer.generation, answer.leader_id) == (0, 1, answer.member_id)
    assert [(each.member_id, each.metadata) for each in answer.members] == [(answer.member_id, b"r")]
    assert stand.group.state is State.COMPLETING_REBALANCE


def test_id_is_handed_out_first() -> None:
    stand = Stand()
    (told,) = stand.join(requires_known_id=True)
    assert (told.error, told.generation, told.leader_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1, "")
    answers = stand.join(told.member_id, requires_known_id=True)
    stand.pass_time(0)
    assert answers[0].member_id == told.member_id


def test_static_members_need_no_id() -> None:
    stand = Stand()
    answers = stand.join(instance_id="i", requires_known_id=True)
    stand.pass_time(0)
    assert answers[0].error == ErrorCode.NONE
    assert answers[0].member_id == "i-1"


def test_rebalance_waits_for_those_who_got_an_id() -> None:
    stand = Stand()
    (leader,) = stand.stable(1)
    (told,) = stand.join(requires_known_id=True)
    other = stand.join(requires_known_id=True)[0].member_id
    first = stand.join(told.member_id)
    again = stand.join(leader)
    assert not first and not again
    assert stand.leave(other) == ErrorCode.NONE
    assert first[0].generation == again[0].generation == 2


def test_an_id_that_is_not_used_expires() -> None:
    stand = Stand()
    (leader,) = stand.stable(1)
    stand.join(requires_known_id=True)
    again = stand.join(leader)
    stand.pass_time(9_999)
    assert not again
    stand.pass_time(1)
    assert again[0].generation == 2


def test_strangers_are_told_so() -> None:
    stand = Stand()
    stand.stable(1)
    assert stand.join("who")[0].error == ErrorCode.UNKNOWN_MEMBER_ID
    assert stand.heartbeat("who", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert stand.sync("who", 1)[0].error == ErrorCode.UNKNOWN_MEMBER_ID
    assert stand.leave("who") == ErrorCode.UNKNOWN_MEMBER_ID
    assert stand.commit("who", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert stand.commit("", -1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_other_generations_are_refused() -> None:
    stand = Stand()
    (leader,) = stand.stable(1)
    for generation in (0, 2):
        assert stand.heartbeat(leader, generation) == ErrorCode.ILLEGAL_GENERATION
        assert stand.sync(leader, generation)[0].error == ErrorCode.ILLEGAL_GENERATION
        assert stand.commit(leader, generation) == ErrorCode.ILLEGAL_GENERATION


def test_who_joins_makes_others_join_again() -> None:
    stand = Stand()
    leader, other = stand.stable(2)
    late = stand.join()
    assert stand.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert stand.commit(leader, 1) == ErrorCode.NONE
    answers = [stand.join(leader), stand.join(other)]
    assert {each[0].generation for each in (late, *answers)} == {2}
    assert len(answers[0][0].members) == 3
    assert not answers[1][0].members
    assert stand.commit(leader, 2) == ErrorCode.REBALANCE_IN_PROGRESS


def test_who_does_not_join_in_time_is_out() -> None:
    stand = Stand()
    leader, other = stand.stable(2)
    late = stand.join()
    stand.join(other)
    for _ in range(12):
        # It is alive, but does not join.
        stand.pass_time(4_999)
        stand.heartbeat(leader, 1)
    stand.pass_time(60_000 - 12 * 4_999)
    assert late[0].generation == 2
    assert leader not in stand.group.members.all
    assert late[0].leader_id == other
    assert stand.heartbeat(leader, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_silence_ends_a_session() -> None:
    stand = Stand()
    leader, other = stand.stable(2)
    stand.pass_time(6_000)
    assert stand.heartbeat(other, 1) == ErrorCode.NONE
    stand.pass_time(4_000)
    assert leader not in stand.group.members.all
    assert stand.group.state is State.PREPARING_REBALANCE
    assert stand.join(other)[0].leader_id == other


def test_nobody_left() -> None:
    stand = Stand()
    (leader,) = stand.stable(1)
    assert stand.leave(leader) == ErrorCode.NONE
    assert (stand.group.state, stand.group.generation) == (State.EMPTY, 2)
    assert stand.stores[0][0] == {}
    stand.finish_store()
    assert stand.commit("", -1) == ErrorCode.NONE
    assert stand.heartbeat(leader, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_follower_that_joins_again_unchanged_disturbs_nobody() -> None:
    stand = Stand()
    leader, other = stand.stable(2)
    assert stand.join(other)[0].generation == 1
    assert stand.heartbeat(leader, 1) == ErrorCode.NONE
    stand.join(leader)
    assert stand.group.state is State.PREPARING_REBALANCE


def test_follower_that_changed_starts_a_rebalance() -> None:
    stand = Stand()
    _, other = stand.stable(2)
    assert not stand.join(other, protocols=(("range", b"new"),))
    assert stand.group.state is State.PREPARING_REBALANCE


def test_protocol_that_all_know_and_most_like() -> None:
    stand = Stand()
    joins = [
        stand.join(protocols=(("a", b"1"), ("b", b"2"), ("c", b""))),
        stand.join(protocols=(("b", b"3"), ("a", b""), ("c", b""))),
        stand.join(protocols=(("c", b""), ("b", b""))),
    ]
    stand.pass_time(0)
    assert {each[0].protocol_name for each in joins} == {"b"}


def test_nothing_in_common_is_refused() -> None:
    stand = Stand()
    stand.stable(1)
    assert stand.join(protocols=(("other", b""),))[0].error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stand.join(protocol_type="connect")[0].error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stand.join(protocols=())[0].error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_new_groups_wait_for_more_members() -> None:
    stand = Stand(initial_delay_ms=3_000)
    first = stand.join()
    stand.pass_time(2_000)
    second = stand.join()
    stand.pass_time(1_000)
    assert not first, "somebody came, so it waits once more"
    stand.pass_time(3_000)
    assert first[0].generation == second[0].generation == 1
    assert len(first[0].members) == 2


def test_new_groups_do_not_wait_for_ever() -> None:
    stand = Stand(initial_delay_ms=3_000)
    first = stand.join(rebalance_timeout_ms=5_000)
    for _ in range(5):
        stand.pass_time(999)
        stand.join(rebalance_timeout_ms=5_000)
    stand.pass_time(5_000 - 5 * 999)
    assert first[0].generation == 1


def test_new_member_is_not_kept_waiting_for_ever() -> None:
    stand = Stand()
    leader, _ = stand.stable(2, rebalance_timeout_ms=2 * NEW_MEMBER_TIMEOUT_MS)
    late = stand.join()
    for _ in range(NEW_MEMBER_TIMEOUT_MS // 5_000):
        stand.pass_time(5_000)
        stand.heartbeat(leader, 1)
    assert late[0].error == ErrorCode.UNKNOWN_MEMBER_ID


def test_group_is_full() -> None:
    stand = Stand(size_max=2)
    leader, other = stand.stable(2)
    assert stand.join()[0].error == ErrorCode.GROUP_MAX_SIZE_REACHED
    stand.limits = stand.limits._replace(size_max=1)
    stand.join(leader)
    assert stand.join(other)[0].error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert list(stand.group.members.all) == [leader]


def test_assignment_that_cannot_be_stored_is_told_and_made_anew() -> None:
    stand = Stand()
    answers = stand.join()
    stand.pass_time(0)
    member_id = answers[0].member_id
    synced = stand.sync(member_id, 1, {member_id: b"x"})
    assert not synced, "not before it is stored"
    stand.finish_store(NotCoordinatorError())
    assert synced[0].error == ErrorCode.NOT_COORDINATOR
    assert stand.group.state is State.PREPARING_REBALANCE


def test_assignment_of_a_generation_that_is_over_is_nobodys() -> None:
    stand = Stand()
    answers = stand.join()
    stand.pass_time(0)
    member_id = answers[0].member_id
    synced = stand.sync(member_id, 1, {member_id: b"x"})
    stand.join()
    assert synced[0].error == ErrorCode.REBALANCE_IN_PROGRESS
    stand.join(member_id)
    stand.finish_store()
    assert stand.group.state is State.COMPLETING_REBALANCE
    assert stand.sync(member_id, 2) == []


def test_who_never_syncs_is_out() -> None:
    stand = Stand()
    joins = [stand.join(), stand.join()]
    stand.pass_time(0)
    leader = joins[0][0].leader_id
    lazy = next(each[0].member_id for each in joins if each[0].member_id != leader)
    stand.sync(leader, 1, {leader: b"x"})
    stand.finish_store()
    for _ in range(12):
        stand.pass_time(5_000)
        stand.heartbeat(leader, stand.group.generation)
        stand.heartbeat(lazy, 1)
    assert lazy not in stand.group.members.all


def test_static_member_comes_back_without_a_rebalance() -> None:
    stand = Stand()
    stand.stable(1, instance_id="i")
    old_id = stand.group.members.leader_id
    assert old_id is not None
    for skips in (False, True):
        back = stand.join(instance_id="i", may_skip_assignment=skips)
        assert not back, "not before it is stored"
        stand.finish_store()
        (answer,) = back
        assert (answer.error, answer.generation) == (ErrorCode.NONE, 1)
        assert answer.skip_assignment is skips
        assert answer.leader_id == (answer.member_id if skips else old_id)
        assert bool(answer.members) is skips
        assert stand.heartbeat(old_id, 1, "i") == ErrorCode.FENCED_INSTANCE_ID
        assert stand.heartbeat(answer.member_id, 1, "i") == ErrorCode.NONE
        assert stand.sync(answer.member_id, 1)[0].assignment == b"i-1"
        old_id = answer.member_id
    assert stand.group.state is State.STABLE


def test_static_member_that_could_not_be_stored_is_the_old_one_again() -> None:
    stand = Stand()
    stand.stable(1, instance_id="i")
    back = stand.join(instance_id="i")
    stand.finish_store(RequestTimedOutError())
    assert back[0].error == ErrorCode.REQUEST_TIMED_OUT
    assert stand.heartbeat("i-1", 1, "i") == ErrorCode.NONE


def test_static_member_that_speaks_otherwise_starts_a_rebalance() -> None:
    stand = Stand()
    stand.stable(1, instance_id="i")
    back = stand.join(instance_id="i", protocols=PROTOCOLS[1:])
    assert back[0].generation == 2


def test_static_member_during_assignment() -> None:
    stand = Stand()
    first = stand.join(instance_id="i")
    stand.pass_time(0)
    synced = stand.sync(first[0].member_id, 1, {})
    back = stand.join(instance_id="i")
    assert synced[0].error == ErrorCode.FENCED_INSTANCE_ID
    assert back[0].generation == 2


def test_static_members_are_sent_away_by_name() -> None:
    stand = Stand()
    stand.stable(1, instance_id="i")
    assert stand.leave("other", "i") == ErrorCode.FENCED_INSTANCE_ID
    assert stand.leave("", "i") == ErrorCode.NONE
    assert stand.leave("", "i") == ErrorCode.UNKNOWN_MEMBER_ID


def test_absent_static_member_stays_until_its_session_is_over() -> None:
    stand = Stand()
    joins = [stand.join(), stand.join(instance_id="i", session_timeout_ms=100_000)]
    stand.pass_time(0)
    leader = joins[0][0].leader_id
    stand.sync(leader, 1)
    stand.finish_store()
    again = stand.join(leader)
    stand.pass_time(60_000)
    assert again[0].generation == 2
    assert [each.instance_id for each in again[0].members] == [None, "i"]


def test_the_end_answers_everybody() -> None:
    stand = Stand()
    stand.stable(2)
    waiting = stand.join()
    stand.group.end(ErrorCode.NOT_COORDINATOR)
    assert waiting[0].error == ErrorCode.NOT_COORDINATOR
    assert stand.join()[0].error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stand.heartbeat("x", 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stand.group.wake_at is None
