"""Names that are the cases' own: every playing of a case has a suffix, so that none disturbs another."""

import secrets
from typing import Any

from tests.compat.replay.recording import NAME


class Names:
    """From recorded to real names and back."""

    def __init__(self) -> None:
        self.suffix = secrets.token_hex(4)
        self._recorded: dict[str, str] = {}

    def real(self, recorded: str) -> str:
        if not NAME.fullmatch(recorded):
            return recorded
        real = f"{recorded}-{self.suffix}"
        self._recorded[real] = recorded
        return real

    def recorded(self, real: str) -> str:
        return self._recorded.get(real, real)

    def are_ours(self, real: str) -> bool:
        return real.endswith(self.suffix)


def scaled(told: Any, replicas_max: int) -> Any:
    """A recorded body or answer for a cluster whose partitions have fewer replicas.

    Replication factors that three brokers can serve become what this cluster serves, and so do lists of replicas,
    except those that are only validated: they are wrong on purpose.
    """
    if isinstance(told, list):
        return [scaled(each, replicas_max) for each in told]
    if not isinstance(told, dict):
        return told
    if told.get("validateOnly") and any(topic["Assignments"] for topic in told["Topics"]):
        return told
    return {key: _scaled_field(key, value, replicas_max) for key, value in told.items()}


def _scaled_field(key: str, value: Any, replicas_max: int) -> Any:
    if key in ("ReplicationFactor", "replication_factor") and 0 < value <= 3:
        return min(value, replicas_max)
    if key in ("ReplicaNodes", "IsrNodes", "BrokerIds"):
        return value[:replicas_max]
    return scaled(value, replicas_max)
