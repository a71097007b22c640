"""What a group has committed, partition by partition. Pure.

A commit counts when it is in the log of all in-sync replicas. Several may be under way at once, and may come back in
another order than they were written in: what stands later in the log is what holds.

A topic that was deleted and made again is another one of the same name. What was committed for the first stays under
the name until somebody deletes it or commits again, but does not count: whoever reads says of which topic.

Offsets that are committed within a transaction wait for its end, whoever reads then gets them or does not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, TypeAlias

Name: TypeAlias = tuple[str, int]
"""A topic and a partition."""


class Commit(NamedTuple):
    """One committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int | None = None
    """As only old clients ask for; otherwise the broker's retention decides."""
    topic_id: bytes | None = None
    """Of the topic that had the name at the commit; None if that is not known."""

    def is_of(self, topic_id: bytes | None) -> bool:
        """Whether it counts for the topic that has the name now; None if there is none, or its id is not known."""
        return self.topic_id is None or topic_id is None or self.topic_id == topic_id


class _Kept(NamedTuple):
    commit: Commit
    log_offset: int


class Offsets:
    """See the module's description."""

    def __init__(self) -> None:
        self._kept: dict[Name, _Kept] = {}
        self._under_way: dict[Name, int] = {}
        # Of what is under way, where in the log it was deleted meanwhile.
        self._deleted_at: dict[Name, int] = {}
        self._transactions: dict[int, dict[Name, _Kept]] = {}

    @property
    def is_empty(self) -> bool:
        return self.is_empty_without(())

    def is_empty_without(self, names: Collection[Name]) -> bool:
        """Whether nothing would be left without these."""
        is_waiting = self._transactions or self._under_way
        return not is_waiting and self._kept.keys() <= set(names)

    def get(self, name: Name, topic_id: bytes | None = None) -> Commit | None:
        kept = self._kept.get(name)
        return None if kept is None or not kept.commit.is_of(topic_id) else kept.commit

    def names(self) -> list[Name]:
        return list(self._kept)

    def ended(self, topics: Collection[str], topic_id_of: Callable[[str], bytes | None]) -> list[Name]:
        """What was committed for topics that have ended, of which another may have the name by now."""
        found = []
        for name, (commit, _) in self._kept.items():
            if name[0] not in topics:
                continue
            topic_id = topic_id_of(name[0])
            # What deletes it must not stand behind an offset of the next topic, which may be under way.
            is_settled = name not in self._under_way and not self.is_unstable(name)
            if topic_id is None or (commit.topic_id != topic_id and is_settled):
                found.append(name)
        return found

    def is_unstable(self, name: Name, topic_id: bytes | None = None) -> bool:
        """Whether a transaction that has not ended may change it."""
        pending = (each.get(name) for each in self._transactions.values())
        return any(each is not None and each.commit.is_of(topic_id) for each in pending)

    # --------------------------------------------------------------------------------------------- committing

    def begin(self, names: Iterable[Name]) -> None:
        """These are being written: a group that waits for them is not forgotten."""
        for name in names:
            self._under_way[name] = self._under_way.get(name, 0) + 1

    def finish(self, commits: Mapping[Name, Commit], log_offset: int | None) -> None:
        """They are in the log, from this offset on; or it is not known, if it is None."""
        for name, commit in commits.items():
            if log_offset is not None and log_offset > self._deleted_at.get(name, -1):
                self.put(name, commit, log_offset)
            left = self._under_way.pop(name) - 1
            if left:
                self._under_way[name] = left
            else:
                self._deleted_at.pop(name, None)

    def put(self, name: Name, commit: Commit, log_offset: int) -> None:
        known = self._kept.get(name)
        if known is None or known.log_offset < log_offset:
            self._kept[name] = _Kept(commit, log_offset)

    def remove(self, names: Iterable[Name], log_offset: int) -> None:
        """They are deleted there in the log: also for whatever stands before it and is not settled yet."""
        for name in names:
            self._kept.pop(name, None)
            if name in self._under_way:
                self._deleted_at[name] = log_offset
            for producer_id in [each for each, pending in self._transactions.items() if name in pending]:
                del self._transactions[producer_id][name]
                if not self._transactions[producer_id]:
                    del self._transactions[producer_id]

    # ------------------------------------------------------------------------------------------- transactions

    def put_pending(self, producer_id: int, name: Name, commit: Commit, log_offset: int) -> None:
        self._transactions.setdefault(producer_id, {})[name] = _Kept(commit, log_offset)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        for name, kept in self._transactions.pop(producer_id, {}).items():
            if is_committed:
                self.put(name, *kept)

    # ------------------------------------------------------------------------------------------------ expiring

    def expired(
        self, now_ms: int, retention_ms: int, unused_since_ms: int | None, in_use: Collection[str] = ()
    ) -> list[Name]:
        """What was kept for long enough: since the group is unused, or if that is None, since it was committed."""
        found = []
        for name, (commit, _) in self._kept.items():
            # What deletes it would stand behind what a transaction is about to commit, and outlive that.
            if name[0] in in_use or name in self._under_way or self.is_unstable(name):
                continue
            since_ms = commit.commit_ms if unused_since_ms is None else unused_since_ms
            until_ms = since_ms + retention_ms if commit.expire_ms is None else commit.expire_ms
            if now_ms >= until_ms:
                found.append(name)
        return found
