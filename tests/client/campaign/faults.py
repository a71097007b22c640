"""Faults of a seed: which APIs, how often, how long."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.proxy.plan import Fault, Rule

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 10, 11, 12, 13, 14
INIT_PRODUCER_ID, EPOCH_END, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 22, 23, 24, 25, 26, 28

GROUP = (OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC)
READING = (FETCH, LIST_OFFSETS, EPOCH_END)
TRANSACTIONS = (INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT)

SHORT, LONG = (0.01, 0.1, 0.3), (0.1, 0.6, 1.5, 2.5)


def broken_connections(rng: Random, apis: Sequence[int]) -> list[Rule]:
    """Answers and requests that are lost, whole or in the middle, with their connections or without."""
    kinds = [Fault.DROP_ANSWER, Fault.RESET_ANSWER, Fault.CUT_REQUEST, Fault.CUT_ANSWER]
    kinds += [Fault.RESET_REQUEST, Fault.DROP_REQUEST]
    return [Rule(fault, tuple(apis), rng.choice([0, 0, 0.01, 0.04])) for fault in kinds]


def late(rng: Random, apis: Sequence[int], seconds: Sequence[float], rates: Sequence[float]) -> list[Rule]:
    """Requests and answers that come late, one by one or as those of a broker that stalls."""
    held = (Fault.HOLD_REQUEST, Fault.HOLD_ANSWER)
    return [
        Rule(fault, tuple(apis), rng.choice(rates), burst=rng.choice([0, 0, 4, 8]), seconds=tuple(seconds))
        for fault in held
    ]
