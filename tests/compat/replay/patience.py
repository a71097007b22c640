"""When an answer that is not the recorded one may become it.

Brokers learn of changes one after the other, and transactions end after they are acknowledged: a question that changes
nothing is asked again for a while, and so is a request that was refused for the moment only.
"""

from typing import Any, Final

_READING: Final = {
    "DescribeClientQuotas",
    "DescribeConfigs",
    "DescribeGroups",
    "DescribeLogDirs",
    "DescribeTransactions",
    "ListOffsets",
    "ListTransactions",
    "Metadata",
    "OffsetFetch",
}

_FOR_THE_MOMENT: Final = (
    "CONCURRENT_TRANSACTIONS",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
)


def is_worth_another_try(request: dict[str, Any], differences: list[str]) -> bool:
    if "api" not in request:
        return False
    if request["api"] in _READING or _is_fetch_without_session(request):
        return True
    return any(line.endswith(f"seen {error}") for line in differences for error in _FOR_THE_MOMENT)


def _is_fetch_without_session(request: dict[str, Any]) -> bool:
    return request["api"] == "Fetch" and bool(request["body"].get("SessionEpoch", -1) == -1)
