"""How long requests took of late: quantiles of the last minutes, out of counters that only ever grow.

Every minute the counters are put aside; what was counted since the oldest that are kept is what is recent. A quantile
is as good as the buckets are, which double in width; within one, times are taken to be spread evenly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from minikafka.broker.statistics import RequestStatistics

MINUTES: Final = 5
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)

Buckets = Sequence[int]


class Recent:
    """See the module's description."""

    def __init__(self) -> None:
        self._kept: deque[dict[str, Buckets]] = deque(maxlen=MINUTES)

    def put_aside(self, requests: Mapping[str, RequestStatistics]) -> None:
        """To be done once a minute."""
        self._kept.append({name: tuple(each.buckets) for name, each in requests.items()})

    def buckets(self, name: str, request: RequestStatistics) -> list[int]:
        """What was counted of late, bucket by bucket."""
        before = self._kept[0].get(name) if self._kept else None
        if before is None:
            return list(request.buckets)
        return [now - then for now, then in zip(request.buckets, before, strict=True)]


def quantiles_ms(buckets: Buckets, wanted: Iterable[float] = QUANTILES) -> list[float]:
    """Times in milliseconds below which these parts of all are; nothing if there are none."""
    total = sum(buckets)
    return [_quantile_micros(buckets, part * total) / 1000 for part in wanted] if total else []


def _quantile_micros(buckets: Buckets, rank: float) -> float:
    below = 0
    for number, count in enumerate(buckets):
        if count and below + count >= rank:
            # Bucket n is from 2^(n-1) to 2^n microseconds, and the first is below one.
            low = 0.0 if number == 0 else 2.0 ** (number - 1)
            return low + (2.0**number - low) * (rank - below) / count
        below += count
    return 0.0
