"""When an answer that is not the recorded one may become it.

Brokers learn of changes one after the other, and transactions end after they are acknowledged: a question about that
is asked again for a while, and so is a request that was refused for the moment only.
"""

from typing import Any, Final

_KNOWN_A_MOMENT_LATER: Final = {
    # Told to one broker after the other.
    *("DescribeClientQuotas", "DescribeConfigs", "Metadata"),
    # Kafka answers the members before it takes note that the group is stable.
    *("DescribeGroups", "ListGroups"),
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
    if request["api"] in _KNOWN_A_MOMENT_LATER or _reads_what_a_transaction_wrote(request):
        return True
    return any(line.endswith(f"seen {error}") for line in differences for error in _FOR_THE_MOMENT)


def _reads_what_a_transaction_wrote(request: dict[str, Any]) -> bool:
    if request["api"] == "Fetch":
        return bool(request["body"].get("IsolationLevel") == 1)
    return bool(request["api"] == "OffsetFetch")
