"""Batches that come before their turn, through no fault of their producer.

An idempotent producer has several batches under way. One of them may be refused because leadership has moved, or for
want of in-sync replicas, when those behind it are on their way; and they find a leader that could take them. There is a
gap then, but nothing is lost: the refused batch will be sent again.

OUT_OF_ORDER_SEQUENCE_NUMBER would be true, and does harm. librdkafka takes it as a reason to begin a new epoch for all
its partitions, in which it sends under new numbers whatever it has no answer for; what was written the first time is
then there twice, and no broker can tell. It may even send the second batch first by itself: its thread for the new
leader goes on as soon as the old one's has given up, without looking at what that one has just handed back.

So a leader asks for such a batch again, with an error that is part of every change of leaders, for as long as the
missing one may take to come. After that the gap is one.

Pure: time is an argument.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.layout import SEQUENCE_MASK
from minikafka.storage.producers import Producer

PATIENCE_MS: Final = 5_000
"""Clients pause up to a second before they try again."""


class _Missing(NamedTuple):
    """What a producer has left out, and how long it has been waited for."""

    epoch: int
    sequence: int
    since_ms: int


class EarlyBatches:
    """What one leadership knows of producers that leave something out."""

    __slots__ = ("_missing", "_watchful_since_ms", "is_watchful")

    def __init__(self) -> None:
        # Forgotten with the producer, when that expires. Most leaders never need one.
        self._missing: WeakKeyDictionary[Producer, _Missing] | None = None
        self._watchful_since_ms = 0
        self.is_watchful = False
        """Whether somebody's first batch may have been refused just now, here or by another, and be on its way."""

    def on_elected(self, epoch: int, now_ms: int) -> None:
        """The leadership begins; the first one of a partition has nobody before it."""
        self._watchful_since_ms = now_ms
        self.is_watchful = epoch > 0

    def may_be_first(self, batch: BatchView, now_ms: int) -> bool:
        """Whether to take a batch of a producer that nobody knows, though it is not its first.

        What came before it may have been deleted. But if that was refused, by the last leader or here, and only the
        next batch is taken, the producer cannot go on: its first is out of order then, for good.
        """
        if now_ms - self._watchful_since_ms > PATIENCE_MS:
            self.is_watchful = False
        return not self.is_watchful or batch.base_sequence <= 0

    def __len__(self) -> int:
        return len(self._missing or ())

    def on_refused(self, batch: BatchView, producer: Producer | None, now_ms: int) -> None:
        """A batch was refused in such a way that it will be sent again."""
        if producer is not None:
            self._miss(batch, producer, now_ms)
        elif batch.producer_id >= 0:
            self.is_watchful = True
            self._watchful_since_ms = now_ms

    def is_excused(self, batch: BatchView, producer: Producer | None, start_offset: int, now_ms: int) -> bool:
        """Whether a batch that is out of order may be in order when it is sent again.

        `start_offset` is where the leadership begins: whoever has written since has found its leader.
        """
        if producer is None or not _is_ahead(batch, producer):
            return False
        expected = (batch.producer_epoch, producer.next_sequence(batch.producer_epoch))
        missing = None if self._missing is None else self._missing.get(producer)
        if missing is not None and missing[:2] == expected:
            return now_ms - missing.since_ms <= PATIENCE_MS
        is_new_here = not producer.batches or producer.batches[-1].last_offset < start_offset
        if is_new_here:
            self._miss(batch, producer, now_ms)
        return is_new_here

    def _miss(self, batch: BatchView, producer: Producer, now_ms: int) -> None:
        epoch = batch.producer_epoch
        if self._missing is None:
            self._missing = WeakKeyDictionary()
        self._missing[producer] = _Missing(epoch, producer.next_sequence(epoch), now_ms)


def _is_ahead(batch: BatchView, producer: Producer) -> bool:
    # Numbers begin anew after the highest: the nearer way round says which of two comes first.
    ahead = batch.base_sequence - producer.next_sequence(batch.producer_epoch) & SEQUENCE_MASK
    return 0 < ahead <= SEQUENCE_MASK >> 1
