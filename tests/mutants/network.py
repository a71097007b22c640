"""Mutants of what keeps one peer from taking the broker away from all others: queues, memory, turns of the loop."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_ADMISSION: Final = "tests/broker/network/test_admission.py"

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
    Mutant(
        142,
        "brokers-locked-out",
        "broker/network/server.py",
        "len(self.connections) >= limits.connections_max and not self._make_room(connection)",
        "len(self.connections) >= limits.connections_max",
        "max.connections does not keep brokers out where they have a listener of their own (KIP-402).",
        _ADMISSION,
        simulated=False,
    ),
    Mutant(
        143,
        "slow-reader-is-idle",
        "broker/network/connection.py",
        "return has_news or unsent < before",
        "return has_news",
        "A peer that reads a large answer slowly is not idle.",
        _ADMISSION,
        simulated=False,
    ),
    Mutant(
        144,
        "deaf-peer-is-busy",
        "broker/network/connection.py",
        "return self.is_busy and not self.unsent_bytes",
        "return self.is_busy",
        "A peer that takes nothing of what it asked for is idle, however much is owed to it.",
        _ADMISSION,
        simulated=False,
    ),
    Mutant(
        145,
        "paused-peer-has-a-deadline",
        "broker/network/connection.py",
        "return not self._is_paused and not self._reader.is_between_frames",
        "return not self._reader.is_between_frames",
        "A frame is not late while it is this broker that does not read.",
        _ADMISSION,
        simulated=False,
    ),
    Mutant(
        146,
        "entries-in-one-turn",
        "broker/handlers/slices.py",
        "        if number % at_once == 0:\n            await asyncio.sleep(0)\n",
        "",
        "A request with many entries lets the loop get on with its other work.",
        "tests/broker/handlers/test_slices.py",
        simulated=False,
    ),
    Mutant(
        147,
        "repeated-groups-cost-each",
        "broker/handlers/group_admin.py",
        "dict.fromkeys(request.groups),",
        "request.groups,",
        "In a request that only reads, an entry that is there again is answered once.",
        "tests/broker/handlers/test_groups.py::test_repeated_entries_are_answered_once",
        simulated=False,
    ),
)
