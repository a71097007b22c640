"""Which cases our brokers are not asked, and why; all others they have to answer as Kafka does."""

from typing import Final

from tests.compat.replay.recording import Case

REPLICAS_MAX: Final = 3
"""How many replicas a partition may have on our brokers."""

FOLLOWER: Final = "a follower of"
"""Where a step goes that is left out on a cluster without followers."""

UNANSWERED: Final = ("inter-broker-allocate-producer-ids",)
"""Informative ones that Kafka answers to anybody, and our brokers to nobody on this port."""

UNSAYABLE: Final = (
    "inter-broker-alter-partition-stale-epoch-v2",
    "inter-broker-stale-controller",
    "produce-magic-1-then-fetch-v7",
)
"""Informative ones with messages and formats that our codec does not have."""


def is_answerable_oddity(case: Case) -> bool:
    """Whether a case shows a defect of Kafka in what our brokers answer too."""
    return case.is_informative and case.name not in UNSAYABLE + UNANSWERED
