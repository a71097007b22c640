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
    Mutant(
        137,
        "closed-twice-at-once",
        "client/producer/producer.py",
        "            if self._closing is None:\n",
        "            if True:\n",
        "A producer that is stopped by two at once is closed once.",
        "tests/client/producer/test_closing.py",
        simulated=False,
    ),
    Mutant(
        138,
        "loop-ends-under-a-call",
        "client/loop_thread.py",
        "        thread.users += thread.users > 0\n",
        "        thread.users += 0\n",
        "The loop of synchronous clients does not end before every call on it has returned.",
        "tests/client/test_sync.py",
        simulated=False,
    ),
    Mutant(
        139,
        "abort-repeated-from-its-start",
        "client/producer/transactions.py",
        "        # coordinator may have begun the next epoch already.\n        self._forget()\n",
        "",
        "An abort that is called again does not end a transaction that it has ended.",
        "tests/client/producer/test_concurrent_transactions.py",
        simulated=False,
    ),
    Mutant(
        250,
        "two-ends-of-one-transaction",
        "client/producer/transactions.py",
        "            if self.number == number and self.state is not State.READY:\n",
        "            if True:\n",
        "Of two aborts at the same time the second ends nothing.",
        "tests/client/producer/test_concurrent_transactions.py",
        simulated=False,
    ),
)
