"""Committed offsets: order, transactions, expiry."""

from __future__ import annotations

from minikafka.broker.coordinators.groups.offsets import Commit, Offsets

NAME = ("t", 0)


def _commit(offset: int, commit_ms: int = 0, expire_ms: int | None = None) -> Commit:
    return Commit(offset, -1, "", commit_ms, expire_ms)


def test_later_in_the_log_holds_whatever_comes_back_first() -> None:
    offsets = Offsets()
    first, second = {NAME: _commit(1)}, {NAME: _commit(2)}
    offsets.begin(first)
    offsets.begin(second)
    offsets.finish(second, 11)
    offsets.finish(first, 10)
    assert offsets.get(NAME) == second[NAME]


def test_what_is_not_known_to_be_written_does_not_hold() -> None:
    offsets = Offsets()
    offsets.begin([NAME])
    assert offsets.get(NAME) is None
    assert not offsets.is_empty
    offsets.finish({NAME: _commit(1)}, None)
    assert offsets.get(NAME) is None
    assert offsets.is_empty


def test_what_was_deleted_behind_it_does_not_come_back() -> None:
    """Whoever reads the log finds the deletion last, and so must whoever remembers it."""
    offsets = Offsets()
    offsets.put(NAME, _commit(1), 1)
    before, behind = {NAME: _commit(2)}, {NAME: _commit(3)}
    offsets.begin(before)
    offsets.put_pending(7, NAME, _commit(4), 3)
    offsets.remove([NAME], 4)
    offsets.begin(behind)
    offsets.finish(before, 2)
    offsets.end_transaction(7, is_committed=True)
    assert offsets.get(NAME) is None
    offsets.finish(behind, 5)
    assert offsets.get(NAME) == behind[NAME]
    offsets.remove([NAME], 6)
    assert offsets.is_empty


def test_transactions_end_one_way_or_the_other() -> None:
    offsets = Offsets()
    offsets.put(NAME, _commit(1), 1)
    for producer_id, is_committed, holds in ((7, False, 1), (8, True, 5)):
        offsets.put_pending(producer_id, NAME, _commit(5), 2)
        assert offsets.is_unstable(NAME)
        assert offsets.get(NAME) == _commit(1)
        offsets.end_transaction(producer_id, is_committed=is_committed)
        assert not offsets.is_unstable(NAME)
        assert offsets.get(NAME) == _commit(holds)


def test_expiry() -> None:
    offsets = Offsets()
    offsets.put(("a", 0), _commit(1, commit_ms=100), 1)
    offsets.put(("b", 0), _commit(1, commit_ms=100, expire_ms=150), 2)
    offsets.put(("c", 0), _commit(1, commit_ms=180), 3)
    assert offsets.expired(149, 100, None) == []
    assert offsets.expired(150, 100, None) == [("b", 0)]
    assert offsets.expired(200, 100, None, {"b"}) == [("a", 0)]
    # Of a group that nobody uses, all are as old as that.
    assert offsets.expired(290, 100, 190) == [("a", 0), ("b", 0), ("c", 0)]
    offsets.begin([("a", 0)])
    assert ("a", 0) not in offsets.expired(290, 100, 190)


def test_what_a_transaction_may_still_commit_does_not_expire() -> None:
    """What deletes it would stand behind it in the log: compaction would keep that alone."""
    offsets = Offsets()
    offsets.put(NAME, _commit(1, commit_ms=100), 1)
    offsets.put_pending(7, NAME, _commit(2, commit_ms=100), 2)
    assert offsets.expired(300, 100, None) == []
    offsets.end_transaction(7, is_committed=False)
    assert offsets.expired(300, 100, None) == [NAME]


OLD, NEW = bytes(15) + b"\x01", bytes(15) + b"\x02"


def test_offsets_count_for_the_topic_they_were_committed_for() -> None:
    offsets = Offsets()
    offsets.put(NAME, _commit(1)._replace(topic_id=OLD), 1)
    offsets.put_pending(7, NAME, _commit(2)._replace(topic_id=OLD), 2)
    assert (offsets.get(NAME, OLD), offsets.get(NAME, NEW)) == (offsets.get(NAME), None)
    assert offsets.is_unstable(NAME, OLD) and not offsets.is_unstable(NAME, NEW)
    offsets.end_transaction(7, is_committed=True)
    assert offsets.get(NAME) is not None and offsets.get(NAME, NEW) is None
    offsets.put(NAME, _commit(3), 3)
    assert offsets.get(NAME, NEW) == offsets.get(NAME, OLD) == _commit(3)


def test_offsets_of_a_topic_that_has_ended() -> None:
    offsets = Offsets()
    offsets.put(("a", 0), _commit(1)._replace(topic_id=OLD), 1)
    offsets.put(("a", 1), _commit(1)._replace(topic_id=NEW), 2)
    offsets.put(("a", 2), _commit(1), 3)
    offsets.put(("b", 0), _commit(1)._replace(topic_id=OLD), 4)
    assert offsets.ended({"a"}, lambda _: NEW) == [("a", 0), ("a", 2)]
    assert offsets.ended({"a"}, lambda _: None) == [("a", 0), ("a", 1), ("a", 2)]
    # What deletes them would stand behind what is committed for the new topic, and outlive that.
    offsets.begin([("a", 0)])
    offsets.put_pending(7, ("a", 2), _commit(2)._replace(topic_id=NEW), 5)
    assert offsets.ended({"a"}, lambda _: NEW) == []
