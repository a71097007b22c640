"""The recorded cases as they are played.

Steps are listed in the order in which their answers came. Where they were sent in another order, or something happened
in between that no step tells, `ORDERS` has the order to play.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from tests.protocol.recordings import cases

NAME: Final = re.compile(r"(?:topic|group|txn|user)\d+|x{240}")
"""What had a random suffix when it was recorded."""


@dataclass(frozen=True)
class Send:
    """Send a step's request and go on."""

    step: int


@dataclass(frozen=True)
class Take:
    """Wait for its answer."""

    step: int


@dataclass(frozen=True)
class Whole:
    """A step from beginning to end."""

    step: int


@dataclass(frozen=True)
class Until:
    """Something that no step tells: wait for it or bring it about. `name` is a method of the player."""

    name: str


Move = Send | Take | Whole | Until

# A member that joins waits for the others, and its answer is listed after theirs.
_REBALANCING: Final = Until("group1_is_rebalancing")

ORDERS: Final[dict[str, list[Move]]] = {
    "pipelined-behind-long-poll": [Whole(0), Send(1), Send(3), Send(4), Take(1), Whole(2), Take(3), Take(4)],
    "fetch-long-poll-wakes-on-produce-v11": [Whole(0), Send(2), Whole(1), Take(2)],
    "join-group-protocol-choice": [Whole(0), Send(2), _REBALANCING, Whole(1), Take(2)],
    "rebalance-follower-rejoins-unchanged": [Whole(0), Whole(1), Send(3), _REBALANCING, Whole(2), Take(3)],
    "rebalance-two-members-v3": [*map(Whole, range(2)), Send(5), _REBALANCING, *map(Whole, range(2, 5)), Take(5)],
    "rebalance-two-members-v5": [*map(Whole, range(4)), Send(7), _REBALANCING, *map(Whole, range(4, 7)), Take(7)],
    "rebalance-member-expires": [Whole(0), Whole(1), Until("group1_is_empty")],
    "txn-timeout-aborts": [*map(Whole, range(4)), Until("txn1_is_aborted")],
    "offset-fetch-from-before-topic-deleted": [Whole(0), Whole(1), Until("topic1_is_deleted")],
}


AS_KAFKA_4: Final = {
    ("txn-offset-commit-errors-v3", 10): ("NONE", "INVALID_PRODUCER_EPOCH"),
    ("txn-offset-commit-errors-v3", 11): ("INVALID_PRODUCER_EPOCH", "NONE"),
}
"""What Kafka 3.9 answers in a step, and what Kafka 4.3.1 and our brokers do: an epoch that nobody was given is refused
while a transaction is open, and so takes nothing away from the one that holds (KIP-890)."""


@dataclass(frozen=True)
class Case:
    """One recorded conversation."""

    name: str
    steps: list[dict[str, Any]]
    is_informative: bool

    def moves(self) -> list[Move]:
        """All steps in the order to play them: the exceptions, then the rest as listed."""
        first = ORDERS.get(self.name, [])
        done = {move.step for move in first if not isinstance(move, Until)}
        return [*first, *(Whole(step) for step in range(len(self.steps)) if step not in done)]

    def requests(self) -> list[dict[str, Any]]:
        return [step["request"] for step in self.steps if "request" in step]

    @property
    def apis(self) -> set[str]:
        return {request.get("api", "") for request in self.requests()}

    @property
    def deletes_topics(self) -> bool:
        return "DeleteTopics" in self.apis or Until("topic1_is_deleted") in self.moves()

    def givens(self) -> list[Any]:
        return [step["given"] for step in self.steps if "given" in step]


def all_cases() -> list[Case]:
    return [
        Case(name, [_as_expected(name, *each) for each in enumerate(case["steps"])], "informative" in case)
        for name, case in cases().items()
    ]


def _as_expected(name: str, number: int, step: dict[str, Any]) -> dict[str, Any]:
    if (name, number) not in AS_KAFKA_4:
        return step
    return {**step, "answer": json.loads(json.dumps(step["answer"]).replace(*AS_KAFKA_4[name, number]))}
