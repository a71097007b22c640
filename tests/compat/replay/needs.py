"""Which cases our brokers are not asked yet, and why. Whoever makes one answerable removes its row."""

from fnmatch import fnmatchcase
from typing import Final

from tests.compat.replay.recording import Case

REPLICAS_MAX: Final = 3
"""How many replicas a partition may have on our brokers."""

FOLLOWER: Final = "a follower of"
"""Where a step goes that is left out while there are no followers."""

NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "transactions": (
        "add-offsets-to-txn-*",
        "add-partitions-to-txn-*",
        "end-txn-*",
        "fetch-aborted-transaction-*",
        "fetch-two-transactions-*",
        "find-coordinator-batched-*",
        "find-coordinator-empty-key-v3",
        "find-coordinator-v[123]",
        "init-producer-id-*",
        "list-transactions-*",
        "txn-*",
    ),
}

UNANSWERED: Final = ("inter-broker-allocate-producer-ids",)
"""Informative ones that Kafka answers to anybody, and our brokers to nobody on this port."""

UNSAYABLE: Final = (
    "inter-broker-alter-partition-stale-epoch-v2",
    "inter-broker-stale-controller",
    "produce-magic-1-then-fetch-v7",
)
"""Informative ones with messages and formats that our codec does not have."""


def missing(case: Case) -> str | None:
    """What a case needs that is not there, or None if its answers can be compared."""
    return "informative" if case.is_informative else _missing_part(case)


def is_answerable_oddity(case: Case) -> bool:
    """Whether a case shows a defect of Kafka in what our brokers answer too."""
    return case.is_informative and case.name not in UNSAYABLE + UNANSWERED and _missing_part(case) is None


def _missing_part(case: Case) -> str | None:
    return next((need for need, names in NEEDS.items() if any(fnmatchcase(case.name, name) for name in names)), None)
