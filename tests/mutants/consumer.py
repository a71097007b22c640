"""Mutants of the consumer. They need peers that misbehave, or programs that take long; the simulator has neither."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TESTS: Final = "tests/client/consumer"
_CONSUMER: Final = "client/consumer"

MUTANTS: Final = (
    Mutant(
        200,
        "position-epoch-of-batch-before",
        _CONSUMER + "/partition.py",
        "        return Position(self.records[index].offset, self.batch.leader_epoch) if index else self._start",
        "        return Position(self.records[index].offset, self._start.epoch)",
        "The leader epoch of a position is that of the last batch before it.",
        _TESTS + "/test_position_epochs.py",
        simulated=False,
    ),
    Mutant(
        201,
        "skipped-batch-unchecked",
        _CONSUMER + "/fetched.py",
        "            if is_skipped and check_crcs:\n",
        "            if False:\n",
        "The checksum of a batch is looked at before the batch is skipped.",
        _TESTS + "/test_damaged_headers.py",
        simulated=False,
    ),
    Mutant(
        202,
        "generation-of-lost-records-forgotten",
        _CONSUMER + "/handed_out.py",
        "            self._revoked.setdefault(state.tp, generation)\n",
        "            pass\n",
        "Records of a partition that was taken away are committed in their generation, or not at all.",
        _TESTS + "/test_handed_out.py",
        simulated=False,
    ),
    Mutant(
        203,
        "revocation-does-not-wait",
        _CONSUMER + "/rebalance.py",
        "                await self._delivery.wait_nothing_in_hand(held)\n",
        "                pass\n",
        "A rebalance that takes a partition away waits for the program to come back from its records.",
        _TESTS + "/test_handed_out.py",
        simulated=False,
    ),
    Mutant(
        204,
        "reading-never-lets-loop-run",
        _CONSUMER + "/pacing.py",
        "            await asyncio.sleep(0)\n",
        "            pass\n",
        "A program that reads without waiting lets the event loop run at least every 50 ms.",
        _TESTS + "/test_pacing.py",
        simulated=False,
    ),
    Mutant(
        205,
        "loop-of-stopped-consumer-raises",
        _CONSUMER + "/consumer.py",
        "            found = None\n        if found",
        "            raise\n        if found",
        "`async for` ends when another task stops the consumer.",
        _TESTS + "/test_pacing.py",
        simulated=False,
    ),
)
