"""What a leader knows within one epoch: who is in sync, how far each follower is, and so what is committed.

Pure bookkeeping; the rules that keep committed records from being lost:

- The high watermark is the smallest log end of the *maximal* ISR: what the controller has decided, and whoever is
  proposed to join. A replica that joins counts at once, one that leaves counts until that is settled.
- It waits too for whoever has just caught up and may join: else a follower that keeps up would never be let in.
- A follower may join when it has everything that is committed, and everything from before this epoch: a new leader
  may know of less that is committed than the old one had shown.
- A follower is out of sync when it has not had all that the leader had for `replica.lag.time.max.ms`.
- One proposal at a time. Until it is answered, the ISR that counts for producers is the one that was decided. However
  often it is asked for, it is about the processes that had caught up when it was made: one that has been started since
  may have lost what it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from minikafka.broker.replicas.early import EarlyBatches

NO_BROKER_EPOCH: Final = -1
_NEVER_MS: Final = -(1 << 62)


@dataclass(slots=True)
class Follower:
    """How far a follower is, by its fetches."""

    log_end_offset: int = -1
    log_start_offset: int = -1
    broker_epoch: int = NO_BROKER_EPOCH
    """Of the process that fetched: one that was started since may have lost what it had."""
    caught_up_ms: int = _NEVER_MS
    """When it last had all that the leader had."""
    fetched_ms: int = _NEVER_MS
    leader_end_offset: int = 0
    """How far the leader was at the last fetch."""

    def on_fetch(self, fetch: FollowerFetch, leader_end_offset: int, now_ms: int) -> None:
        if fetch.offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif fetch.offset >= self.leader_end_offset:
            # It has all that there was when it fetched before.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset = fetch.offset
        self.log_start_offset = fetch.log_start_offset
        self.broker_epoch = fetch.broker_epoch
        self.fetched_ms = now_ms
        self.leader_end_offset = leader_end_offset

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_ms_max: int) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_ms_max


class FollowerFetch(NamedTuple):
    """What a follower says of itself when it fetches."""

    broker_id: int
    broker_epoch: int
    offset: int
    log_start_offset: int


class Moment(NamedTuple):
    """What followers are measured by."""

    leader_end_offset: int
    now_ms: int
    lag_ms_max: int
    broker_epochs: Mapping[int, int]
    """Of the brokers that are alive."""


class Leadership:
    """One epoch of leading one partition."""

    __slots__ = (
        *("broker_id", "early", "epoch", "followers", "is_alone", "isr", "is_recovering", "joining", "maximal_isr"),
        *("eligible", "partition_epoch", "proposed", "start_offset"),
    )

    def __init__(self, broker_id: int, epoch: int, start_offset: int) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.start_offset = start_offset
        """Where the epoch begins: whoever has less than this may miss what was committed before."""
        self.isr: tuple[int, ...] = ()
        self.eligible: tuple[int, ...] = ()
        """Replicas out of the ISR that may lead next (KIP-966): nothing is committed without them. The controller lets
        go of them when enough replicas are in sync, or fewer are asked for."""
        self.early = EarlyBatches()
        self.partition_epoch = -1
        self.is_recovering = False
        self.followers: dict[int, Follower] = {}
        self.proposed: tuple[int, ...] | None = None
        """The ISR that the controller was or is to be asked for, and has not answered."""
        self.joining: dict[int, int] = {}
        """Of whom it is proposed to let in, the broker epoch of the process that had caught up then."""
        self.maximal_isr: frozenset[int] = frozenset()
        self.is_alone = True
        """There is no other replica at all, so what the leader has is committed."""

    def update(
        self,
        replicas: Iterable[int],
        isr: Iterable[int],
        partition_epoch: int,
        now_ms: int,
        *,
        is_recovering: bool = False,
    ) -> None:
        """Take over what the controller has decided; a proposal made before is answered by it."""
        self.partition_epoch = partition_epoch
        self.is_recovering = is_recovering
        known, in_sync = self.followers, frozenset(isr)
        # Whoever is in sync has the time of a whole lag to fetch before it counts as out of sync. Any other has never
        # caught up: nobody waits for it before it has.
        self.followers = {
            each: known.get(each) or (Follower(caught_up_ms=now_ms) if each in in_sync else Follower())
            for each in replicas
            if each != self.broker_id
        }
        self.is_alone = not self.followers
        self._settle(tuple(isr))

    def _settle(self, isr: tuple[int, ...]) -> None:
        self.isr = isr
        self.proposed = None
        self.maximal_isr = frozenset(isr)

    # --------------------------------------------------------------------------------------------- proposals

    def propose(self, isr: tuple[int, ...]) -> None:
        assert self.proposed is None
        self.proposed = isr
        new = set(isr).difference(self.isr)
        self.joining = {each: follower.broker_epoch for each, follower in self.followers.items() if each in new}
        self.maximal_isr = frozenset((*self.isr, *isr))

    def accept(self, isr: Iterable[int], partition_epoch: int, eligible: Iterable[int] = ()) -> None:
        """The controller has written a proposal, or has told us what holds."""
        self.partition_epoch = partition_epoch
        self.eligible = tuple(eligible)
        self._settle(tuple(isr))

    def withdraw(self) -> None:
        """The controller will not have it, and never had: what was decided before holds."""
        self._settle(self.isr)

    # ----------------------------------------------------------------------------------------------- progress

    def on_append(self, end_offset: int, now_ms: int) -> None:
        """The leader is about to have more than `end_offset`: whoever has that much has all there is until now.

        A follower says nothing of a partition in which nothing happens, and yet it is not behind.
        """
        for follower in self.followers.values():
            if follower.log_end_offset == end_offset:
                follower.caught_up_ms = now_ms

    def committed_offset(self, own_end_offset: int, at: Moment) -> int:
        """Up to where all replicas that count have the log."""
        committed = own_end_offset
        for broker_id, follower in self.followers.items():
            if follower.log_end_offset < committed and (
                broker_id in self.maximal_isr or self._is_about_to_join(broker_id, follower, at)
            ):
                committed = follower.log_end_offset
        return committed

    def _is_about_to_join(self, broker_id: int, follower: Follower, at: Moment) -> bool:
        is_alive = at.broker_epochs.get(broker_id) == follower.broker_epoch
        return is_alive and follower.is_caught_up(at.leader_end_offset, at.now_ms, at.lag_ms_max)

    def may_join(self, broker_id: int, high_watermark: int, broker_epochs: Mapping[int, int]) -> bool:
        """Whether a follower has all it must have, and still is the process that said so."""
        follower = self.followers.get(broker_id)
        return (
            follower is not None
            and broker_id not in self.maximal_isr
            and follower.log_end_offset >= max(high_watermark, self.start_offset)
            and broker_epochs.get(broker_id) == follower.broker_epoch
        )

    def idle_outside(self, end_offset: int, broker_epochs: Mapping[int, int]) -> list[int]:
        """Followers that have everything and are not in sync.

        A follower says no more of a partition in which nothing happens. When it last did, it may not have been known to
        be alive, or another proposal was under way; nobody would ever look at it again.
        """
        if self.proposed is not None or len(self.isr) > len(self.followers):
            return []
        outside = (each for each, follower in self.followers.items() if follower.log_end_offset == end_offset)
        return [each for each in outside if self.may_join(each, end_offset, broker_epochs)]

    def out_of_sync(self, at: Moment) -> set[int]:
        """Members of the ISR that lag behind for too long."""
        followers = ((each, self.followers[each]) for each in self.isr if each in self.followers)
        return {
            broker_id
            for broker_id, follower in followers
            if not follower.is_caught_up(at.leader_end_offset, at.now_ms, at.lag_ms_max)
        }
