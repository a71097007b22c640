"""The rules as tables: from a state, and who is alive, to the next state."""

from __future__ import annotations

import pytest

from minikafka.broker.controller.leader_election import Standing, first_state, preferred, repaired, without_leaving
from minikafka.broker.zookeeper.topic_nodes import NO_LEADER, Assignment, StateNode

EPOCH = 9


def state(leader: int, *isr: int, epoch: int = 5, recovering: bool = False, unclean_epoch: int = -1) -> StateNode:
    return StateNode(leader, epoch, isr, 8, recovering, unclean_epoch)


def decided(leader: int, *isr: int, recovering: bool = False, unclean_epoch: int = -1) -> StateNode:
    """What a controller of epoch 9 makes of a state of leader epoch 5."""
    return StateNode(leader, 6, isr, EPOCH, recovering, unclean_epoch)


@pytest.mark.parametrize(
    ("replicas", "alive", "expected"),
    [
        ((1, 2, 3), {1, 2, 3}, StateNode(1, 0, (1, 2, 3), EPOCH)),
        ((3, 1, 2), {1, 2, 3}, StateNode(3, 0, (3, 1, 2), EPOCH)),
        ((3, 1, 2), {1, 2}, StateNode(1, 0, (1, 2), EPOCH)),
        ((3,), {1, 2}, None),
    ],
)
def test_first_states(replicas: tuple[int, ...], alive: set[int], expected: StateNode | None) -> None:
    assert first_state(Assignment(replicas), alive.__contains__, EPOCH) == expected


@pytest.mark.parametrize(
    ("before", "alive", "unclean", "after"),
    [
        # All is well.
        (state(1, 1, 2, 3), {1, 2, 3}, False, None),
        (state(1, 1, 3), {1, 3}, False, None),
        # One that is not in sync comes or goes: no matter.
        (state(1, 1, 2), {1, 2}, True, None),
        # A follower in sync dies.
        (state(1, 1, 2, 3), {1, 3}, False, decided(1, 1, 3)),
        (state(2, 1, 2, 3), {2}, True, decided(2, 2)),
        # The leader dies: the first of the assignment that is alive and in sync, in whatever order the ISR is.
        (state(1, 1, 2, 3), {2, 3}, False, decided(2, 2, 3)),
        (state(1, 3, 2, 1), {2, 3}, False, decided(2, 3, 2)),
        (state(1, 1, 3), {2, 3}, True, decided(3, 3)),
        # No one in sync is left: nobody leads, and nobody is removed.
        (state(1, 1), {2, 3}, False, decided(NO_LEADER, 1)),
        (state(1, 1, 2), {3}, False, decided(NO_LEADER, 1, 2)),
        (state(1, 1, 2, 3), set(), True, decided(NO_LEADER, 1, 2, 3)),
        (state(NO_LEADER, 1, 2), {3}, False, None),
        # Unless losing records is preferred.
        (state(1, 1), {2, 3}, True, decided(2, 2, recovering=True, unclean_epoch=6)),
        (state(NO_LEADER, 1), {3}, True, decided(3, 3, recovering=True, unclean_epoch=6)),
        # That it once was so is known for good.
        (state(1, 1, 2, unclean_epoch=3), {1}, False, decided(1, 1, unclean_epoch=3)),
        # One in sync comes back.
        (state(NO_LEADER, 1, 2), {2, 3}, False, decided(2, 2)),
        (state(NO_LEADER, 1, 2), {1, 2, 3}, True, decided(1, 1, 2)),
        # Recovering is for the leader to end.
        (state(1, 1, recovering=True), {2}, False, decided(NO_LEADER, 1, recovering=True)),
    ],
)
def test_repairs(before: StateNode, alive: set[int], unclean: bool, after: StateNode | None) -> None:
    def standing(broker_id: int) -> Standing:
        return Standing.SAME if broker_id in alive else Standing.AWAY

    replicas = Assignment((1, 2, 3))
    assert repaired(replicas, before, standing, EPOCH, unclean=unclean, min_isr=2) == after
    if after is not None:
        # What was decided once is not decided again.
        assert repaired(replicas, after, standing, EPOCH, unclean=unclean, min_isr=2) is None


@pytest.mark.parametrize(
    ("before", "elr", "last_leader", "standings", "after"),
    [
        # A leader that was restarted has lost nothing, and goes on in another epoch.
        (state(1, 1), (), -1, "kaa", decided(1, 1)),
        # It leaves the ISR if somebody else goes on.
        (state(1, 1, 2), (), -1, "ksa", decided(2, 2)),
        (state(1, 1, 2), (), -1, "lsa", decided(2, 2)),
        # All are back and have lost nothing.
        (state(NO_LEADER, 1, 2, 3), (), 2, "kkk", decided(1, 1, 2, 3)),
        (state(NO_LEADER, 1, 2, 3), (), 2, "lka", decided(2, 2)),
        # An eligible one leads if nobody in sync does, restarted in good order or not at all.
        (state(1, 1), (2, 3), -1, "aas", decided(3, 3)),
        (state(1, 1), (2, 3), -1, "lks", decided(2, 2)),
        (state(1, 1, 2), (3,), -1, "aks", decided(2, 2)),
        (state(1, 1), (2, 3), -1, "sss", None),
        # One that may have lost something does not, as long as another one may come back with everything.
        (state(1, 1), (2,), -1, "las", decided(NO_LEADER, 1)),
        (state(NO_LEADER, 1, 2, 3), (), 1, "laa", decided(NO_LEADER, 2, 3)),
        (state(NO_LEADER, 2, 3), (), 1, "lla", decided(NO_LEADER, 3)),
        # Nobody is left to wait for: who led last, or who is there.
        (state(NO_LEADER, 3), (), 1, "lll", decided(1, 1, recovering=True, unclean_epoch=6)),
        (state(NO_LEADER, 3), (), 1, "all", decided(3, 3, recovering=True, unclean_epoch=6)),
        (state(NO_LEADER, 1), (), 1, "lss", decided(1, 1, recovering=True, unclean_epoch=6)),
        (state(NO_LEADER, 2), (3,), 2, "sll", decided(2, 2, recovering=True, unclean_epoch=6)),
    ],
)
def test_repair_after_restarts(
    before: StateNode, elr: tuple[int, ...], last_leader: int, standings: str, after: StateNode | None
) -> None:
    letters = {"a": Standing.AWAY, "s": Standing.SAME, "k": Standing.KEPT, "l": Standing.LOST}
    found = {broker_id: letters[letter] for broker_id, letter in enumerate(standings, 1)}
    known = before._replace(elr=elr, last_leader=last_leader)
    new = repaired(Assignment((1, 2, 3)), known, found.__getitem__, EPOCH, unclean=False, min_isr=2)
    assert (None if new is None else new._replace(elr=(), last_leader=-1)) == after


@pytest.mark.parametrize(
    ("replicas", "min_isr", "unclean", "unclean_epoch"),
    [
        # One host alone was in trouble: what the others have as committed stays, unless availability is preferred.
        ((1, 2, 3), 1, False, 3),
        ((1, 2, 3), 1, True, 6),
        ((1, 2, 3), 2, False, 6),
        # More replicas in sync than there are cannot be asked for.
        ((1,), 2, False, 3),
    ],
)
def test_election_after_unclean_stops_permits_truncation(
    replicas: tuple[int, ...], min_isr: int, unclean: bool, unclean_epoch: int
) -> None:
    before = state(1, 1, unclean_epoch=3)
    new = repaired(Assignment(replicas), before, lambda _: Standing.LOST, EPOCH, unclean=unclean, min_isr=min_isr)
    assert new == decided(1, 1, recovering=True, unclean_epoch=unclean_epoch)


@pytest.mark.parametrize(
    ("before", "may_lead", "after"),
    [
        # It leads: somebody else in sync does, who is not leaving as well.
        (state(1, 1, 2, 3), {2, 3}, decided(2, 2, 3)),
        (state(1, 1, 2, 3), {3}, decided(3, 3)),
        (state(1, 1, 3), {2, 3}, decided(3, 3)),
        # Nobody else can: it goes on until it is gone.
        (state(1, 1), {2, 3}, None),
        (state(1, 1, 2), {3}, None),
        # It follows: it leaves the ISR, unless it is the last.
        (state(2, 1, 2, 3), {2, 3}, decided(2, 2, 3)),
        (state(2, 2, 3), {2, 3}, None),
        (state(NO_LEADER, 1), {2}, None),
        (state(NO_LEADER, 1, 3), {2}, None),
    ],
)
def test_broker_1_leaves(before: StateNode, may_lead: set[int], after: StateNode | None) -> None:
    assert without_leaving(Assignment((1, 2, 3)), before, 1, may_lead.__contains__, EPOCH) == after


@pytest.mark.parametrize(
    ("assignment", "before", "may_lead", "after"),
    [
        (Assignment((1, 2)), state(2, 2, 1), {1, 2}, decided(1, 2, 1)),
        (Assignment((1, 2)), state(1, 1, 2), {1, 2}, None),
        (Assignment((1, 2)), state(2, 2), {1, 2}, None),
        (Assignment((1, 2)), state(2, 2, 1), {2}, None),
        # While it is being moved, the first that stays is preferred.
        (Assignment((3, 1, 2), (3,), (1,)), state(2, 2, 1), {1, 2, 3}, None),
        (Assignment((1, 2, 3), (), (1,)), state(3, 1, 2, 3), {1, 2, 3}, decided(2, 1, 2, 3)),
    ],
)
def test_preferred_leaders(
    assignment: Assignment, before: StateNode, may_lead: set[int], after: StateNode | None
) -> None:
    assert preferred(assignment, before, may_lead.__contains__, EPOCH) == after
