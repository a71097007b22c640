"""Mutants of what keeps one peer from taking the broker away from all others: queues, memory, turns of the loop."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        140,
        "every-append-looks-at-every-wait",
        "broker/replicas/commits.py",
        "is_other_role, self._leadership = leadership is None or leadership is not self._leadership, leadership",
        "is_other_role, self._leadership = True, leadership",
        "An offset that moves settles the promises it has passed and looks at no others.",
        "tests/broker/replicas/test_commits.py",
        simulated=False,
    ),
    Mutant(
        141,
        "controller-scans-topic-per-partition",
        "broker/controller/writer.py",
        "topics = {partition.topic: None for partition, _ in changes}",
        "topics = [partition.topic for partition, _ in changes]",
        "Creating partitions looks once through those of their topic.",
        "tests/broker/controller/test_writer.py",
        simulated=False,
    ),
)
