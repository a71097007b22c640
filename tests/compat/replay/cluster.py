"""The brokers under test."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Address: TypeAlias = tuple[str, int]


@dataclass(frozen=True)
class Cluster:
    """Where brokers listen, and how many replicas a partition may have."""

    brokers: dict[int, Address]
    replicas_max: int = 3

    @classmethod
    def read(cls, path: Path, replicas_max: int) -> "Cluster":
        """From the cluster.json of a running one."""
        rows = json.loads(path.read_text())["brokers"]
        return cls({row["id"]: (row["host"], row["port"]) for row in rows}, replicas_max)

    @property
    def ids(self) -> list[int]:
        return sorted(self.brokers)
