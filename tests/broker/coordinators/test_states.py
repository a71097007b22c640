"""The tables of states."""

import pytest

from minikafka.broker.coordinators.groups.states import ANSWERS, TRANSITIONS, Event, State, Wish, next_state


def test_every_wish_has_an_answer_in_every_state() -> None:
    assert set(ANSWERS) == {(state, wish) for state in State for wish in Wish}


def test_the_dead_stay_dead() -> None:
    assert not [event for state, event in TRANSITIONS if state is State.DEAD]


def test_any_group_can_end() -> None:
    assert {state for state, event in TRANSITIONS if event is Event.ENDED} == set(State) - {State.DEAD}


def test_what_is_not_in_the_table_cannot_happen() -> None:
    with pytest.raises(AssertionError, match="ASSIGNED"):
        next_state(State.EMPTY, Event.ASSIGNED)
