"""Mutants of the client's producer."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_UNKNOWN: Final = "tests/client/producer/test_unknown_outcomes.py"
_WRITES_NOTHING_TWICE: Final = "An idempotent batch that may have been written keeps its number."

MUTANTS: Final = (
    Mutant(
        130,
        "timeout-in-flight-hidden-from-transaction",
        "client/producer/sender.py",
        "                self._give_up(queue, batch, self._too_late(queue, batch))\n",
        "                batch.finish(error=self._too_late(queue, batch))\n",
        "A batch in flight at its delivery timeout fails its transaction.",
        _UNKNOWN,
        simulated=False,
    ),
    Mutant(
        131,
        "abort-does-not-wait-for-batch-in-flight",
        "client/producer/transaction_calls.py",
        "            await self._sender.accumulator.wait_empty()\n",
        "            await self.flush()\n",
        "An abort waits for the answer of every batch, also past its delivery timeout.",
        _UNKNOWN,
        simulated=False,
    ),
    Mutant(
        132,
        "abort-keeps-epoch-of-lost-batch",
        "client/producer/sender.py",
        "loses_numbers=batch.sequence >= 0",
        "loses_numbers=False",
        "After a batch was lost, the next transaction has another producer epoch.",
        _UNKNOWN,
        simulated=False,
    ),
    Mutant(
        133,
        "uncertain-batch-renumbered",
        "client/producer/queues.py",
        " or any(batch.is_uncertain for batch in self.waiting)",
        "",
        _WRITES_NOTHING_TWICE,
        _UNKNOWN,
        simulated=False,
    ),
    Mutant(
        134,
        "lost-answer-taken-for-refusal",
        "client/producer/lane.py",
        "self.was_sent and (self.error is not None or not is_refusal(self.code))",
        "self.was_sent and self.error is not None",
        "An answer that does not rule a write out leaves the batch uncertain.",
        _UNKNOWN,
        simulated=False,
    ),
    Mutant(
        135,
        "given-up-batch-dropped-before-dependent-one",
        "client/producer/queues.py",
        "            elif batch.sequence < 0 or not is_needed:\n",
        "            else:\n",
        "A batch that was given up is sent again while a later one depends on it.",
        _UNKNOWN,
        simulated=False,
    ),
    Mutant(
        136,
        "number-given-in-epoch-with-gap",
        "client/producer/queues.py",
        "        if self.leaves_epoch and not (self.waiting and self.waiting[0].sequence >= 0):\n",
        "        if False:\n",
        "No batch gets its first number in an epoch that its partition leaves.",
        _UNKNOWN,
        simulated=False,
    ),
)
