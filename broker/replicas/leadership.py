"""What a leader knows within one epoch: who is in sync, how far each follower is, and so what is committed.

Pure bookkeeping. The high watermark is the smallest log end among the leader and all that are, or may already be, in
sync: a replica that is about to join counts at once, one that is about to leave counts until that is settled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class Follower:
    """How far a follower is, by its last fetch."""

    log_end_offset: int = -1
    log_start_offset: int = -1
    broker_epoch: int = -1
    fetched_ms: int = 0
    caught_up_ms: int = 0
    """When it last had all that the leader had."""


class Leadership:
    """One epoch of leading one partition."""

    __slots__ = ("broker_id", "epoch", "followers", "is_alone", "isr", "partition_epoch", "start_offset")

    def __init__(self, broker_id: int, epoch: int, start_offset: int) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.start_offset = start_offset
        """Where the epoch begins: whoever has less than this may miss what was committed before."""
        self.isr: tuple[int, ...] = ()
        self.partition_epoch = -1
        self.followers: dict[int, Follower] = {}
        self.is_alone = True
        """Nobody else is in sync, so what the leader has is committed."""

    def update(self, replicas: Iterable[int], isr: Iterable[int], partition_epoch: int) -> None:
        """Take over what the controller has decided."""
        self.isr = tuple(isr)
        self.partition_epoch = partition_epoch
        known = self.followers
        self.followers = {each: known.get(each) or Follower() for each in replicas if each != self.broker_id}
        self.is_alone = not any(each != self.broker_id for each in self.isr)

    def committed_offset(self, own_end_offset: int) -> int:
        """Up to where all in-sync replicas have the log."""
        ends = [self.followers[each].log_end_offset for each in self.isr if each in self.followers]
        return min(own_end_offset, *ends) if ends else own_end_offset
