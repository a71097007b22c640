"""Leader epochs: the rules of Kafka's cache, and the same answers as counting over all offsets gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.storage.epochs import LeaderEpochs
from minikafka.storage.formats import BadFile

ENTRIES = [(1, 0), (3, 10), (4, 25)]
END = 40


def test_an_epoch_keeps_its_start() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest_epoch is None
    assert epochs.assign(2, 5)
    assert not epochs.assign(2, 9)
    assert not epochs.assign(2, 5)
    assert epochs.entries() == [(2, 5)]


def test_the_latest_epoch() -> None:
    assert LeaderEpochs(ENTRIES).latest_epoch == 4
    assert len(LeaderEpochs(ENTRIES)) == 3


def test_the_latest_epoch_can_start_earlier_than_thought() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.assign(4, 20)
    assert epochs.entries() == [(1, 0), (3, 10), (4, 20)]


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        ((5, 30), [(1, 0), (3, 10), (4, 25), (5, 30)]),
        ((5, 25), [(1, 0), (3, 10), (5, 25)]),  # epoch 4 wrote nothing
        ((5, 10), [(1, 0), (5, 10)]),
        ((5, 0), [(5, 0)]),
        ((2, 30), [(1, 0), (2, 30)]),  # epochs 3 and 4 are not of this log
        ((3, 30), [(1, 0), (3, 30)]),
        ((0, 30), [(0, 30)]),
    ],
)
def test_a_new_entry_removes_what_contradicts_it(entry: tuple[int, int], left: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.assign(*entry)
    assert epochs.entries() == left


def test_impossible_numbers() -> None:
    for entry in [(-1, 0), (0, -1)]:
        with pytest.raises(ValueError, match="no leader epoch"):
            LeaderEpochs().assign(*entry)
        with pytest.raises(BadFile):
            LeaderEpochs([(0, 0), entry])


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 0)),  # gone with its data: what is left begins at 0
        (1, (1, 10)),
        (2, (1, 10)),
        (3, (3, 25)),
        (4, (4, END)),
        (5, (-1, -1)),
    ],
)
def test_where_an_epoch_ends(asked: int, answer: tuple[int, int]) -> None:
    assert LeaderEpochs(ENTRIES).end_offset_for(asked, END) == answer


def test_an_empty_cache_knows_no_end() -> None:
    assert LeaderEpochs().end_offset_for(0, END) == (-1, -1)


def test_which_epoch_an_offset_is_of() -> None:
    epochs = LeaderEpochs([(2, 5), (3, 8)])
    assert [epochs.epoch_for_offset(offset) for offset in (4, 5, 7, 8, 100)] == [None, 2, 2, 3, 3]
    assert [epochs.start_offset_of(epoch) for epoch in (1, 2, 3, 4)] == [None, 5, 8, None]


@pytest.mark.parametrize(
    ("offset", "left"),
    [(26, 3), (25, 2), (11, 2), (10, 1), (1, 1), (0, 0)],
)
def test_truncation_from_the_end(offset: int, left: int) -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.truncate_from_end(offset) is (left < 3)
    assert epochs.entries() == ENTRIES[:left]
    assert epochs.is_dirty is (left < 3)


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (0, ENTRIES),
        (3, [(1, 3), (3, 10), (4, 25)]),
        (10, [(3, 10), (4, 25)]),
        (24, [(3, 24), (4, 25)]),
        (25, [(4, 25)]),
        (90, [(4, 90)]),
    ],
)
def test_truncation_from_the_start(offset: int, left: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.truncate_from_start(offset) is (left != ENTRIES)
    assert epochs.entries() == left
    assert epochs.is_dirty is (left != ENTRIES)


def test_truncation_before_the_first_entry() -> None:
    epochs = LeaderEpochs([(2, 5)])
    assert not epochs.truncate_from_start(4)
    assert epochs.entries() == [(2, 5)]


def test_only_changes_make_it_dirty() -> None:
    epochs = LeaderEpochs(ENTRIES)
    epochs.assign(4, 30)
    assert not epochs.is_dirty
    epochs.assign(5, 30)
    assert epochs.is_dirty
    epochs.is_dirty = False
    epochs.clear()
    assert epochs.is_dirty and not len(epochs)
    epochs.is_dirty = False
    epochs.clear()
    assert not epochs.is_dirty
    epochs.assign(1, 3)
    assert epochs.entries() == [(1, 3)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=8), st.integers(0, 14))
def test_answers_are_those_of_the_log(leaders: list[tuple[int, int]], start: int) -> None:
    """Against a log of which every offset has its epoch: some leaders, each writing some batches of one record."""
    log: list[int] = []
    epochs, epoch = LeaderEpochs(), 0
    for step, count in leaders:
        epoch += step
        epochs.assign(epoch, len(log))
        log += [epoch] * count
    start = min(start, len(log))
    epochs.truncate_from_start(start)
    for offset in range(start, len(log)):
        assert epochs.epoch_for_offset(offset) == log[offset]
    for asked in {*log[start:]}:
        end = max(offset for offset in range(len(log)) if log[offset] == asked) + 1
        assert epochs.end_offset_for(asked, len(log)) == (asked, end)
