"""What a run comes to: everything that no guarantee permits, from the histories of its clients and from its observer.

Without a permitted loss every anomaly is a violation. With one, the histories are judged without what it excuses
(`losses`): a record that was sent earlier and is gone in the end, a transaction that began earlier. What is left has
to be free of anomalies all the same, so a permitted loss hides neither a duplicate nor a loss of what came later.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.chaos import checker
from tests.chaos.checker import Anomaly
from tests.chaos.coordinators import groups, transactions
from tests.chaos.history import Event
from tests.sim.campaign import anomalies
from tests.sim.campaign.losses import Permitted, transactions_after, without_lost, without_offsets

_NO_BOUND = transactions.Bounds(hung_seconds=1e9)
"""Nobody looks at stable offsets while a run goes on. That no transaction is open in the end is in `replicas`."""


def judge_records(events: Sequence[Event], permitted: Permitted | None) -> list[str]:
    """Of t: nothing acknowledged is lost, nothing is doubled or reordered, and all readers see the same."""
    return _texts(checker.check(events if permitted is None else without_lost(events, permitted)).anomalies)


def judge_transactions(events: Sequence[Event], permitted: Permitted | None) -> list[str]:
    """Of x: all or nothing of a transaction, and only when it is committed."""
    if permitted is not None:
        events = transactions_after(events, permitted)
    return _texts([*transactions.check(events, _NO_BOUND).anomalies, *anomalies.check(events)])


def judge_groups(events: Sequence[Event], permitted: Permitted | None) -> list[str]:
    """Of the group: one owner a partition and generation, and committed offsets that never move back."""
    return _texts(groups.check(events if permitted is None else without_offsets(events)).anomalies)


def _texts(found: Sequence[Anomaly]) -> list[str]:
    return [f"{anomaly.kind}: {anomaly.partition} {anomaly.text}" for anomaly in found]
