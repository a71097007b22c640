"""Mutants of the group and transaction coordinators."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_K: Final = "tests/broker/coordinators"
_GROUPS: Final = "broker/coordinators/groups"
_TXN: Final = "broker/coordinators/transactions"
_RULES: Final = "tests/broker/coordinators/test_transaction_rules.py tests/broker/coordinators/test_transactions.py"

MUTANTS: Final = (
    Mutant(
        28,
        "load-published-after-leadership",
        "broker/coordinators/shards.py",
        "        if not seat.journal.is_current:\n            log.info",
        "        if False:\n            log.info",
        "What was loaded is not served if leadership was lost meanwhile.",
        _K + "/test_shards.py",
        redundant="`Shards.at` asks the journal again before it hands a shard out.",
    ),
    Mutant(
        29,
        "load-does-not-wait-for-commit",
        "broker/coordinators/journal.py",
        "        await self._committed(end_offset)\n",
        "",
        "A coordinator serves only when everything it has loaded is committed.",
        _K + "/test_shards.py " + _K + "/test_offsets.py " + _K + "/test_transaction_races.py",
    ),
    Mutant(
        30,
        "offset-commit-before-replicated",
        _GROUPS + "/shard.py",
        "        if written.promise is None:\n            group.offsets.finish",
        "        if True:\n            group.offsets.finish",
        "A committed offset holds when all in-sync replicas have it.",
        _K + "/test_offsets.py " + _K + "/test_group_schedules.py",
    ),
    Mutant(
        31,
        "txn-state-before-replicated",
        _TXN + "/shard.py",
        "        if written.promise is None:\n            self._settle(txn)",
        "        if True:\n            self._settle(txn)",
        "A change of a transaction holds when all in-sync replicas have it.",
        _K + "/test_transactions.py " + _K + "/test_transaction_races.py",
    ),
    Mutant(
        32,
        "marker-while-loading",
        _TXN + "/writing.py",
        "            self._groups.shards.at(partition.index)\n",
        "            pass\n",
        "A marker is not written to a partition of __consumer_offsets that is being loaded.",
        _K,
    ),
    Mutant(
        34,
        "fencing-without-epoch-bump",
        _TXN + "/transaction.py",
        "_replace(epoch=txn.epoch + 1, last_epoch=NO_EPOCH)",
        "_replace(last_epoch=NO_EPOCH)",
        "A producer that is fenced has an old epoch from then on.",
        _RULES,
    ),
    Mutant(
        40,
        "stale-generation-accepted",
        _GROUPS + "/group.py",
        "        if generation != self.generation:\n            raise IllegalGenerationError\n",
        "",
        "A member of an earlier generation is refused.",
        _K + "/test_group.py",
    ),
    Mutant(
        68,
        "old-producer-in-transaction",
        _TXN + "/transaction.py",
        "    if who.epoch != txn.epoch:\n",
        "    if False:\n",
        "Only the newest epoch of a transactional id changes its transaction.",
        _RULES,
    ),
    Mutant(
        69,
        "partitions-added-to-a-decided-transaction",
        _TXN + "/transaction.py",
        "def check_open(txn: Transaction) -> None:\n    if txn.state in DECIDED:",
        "def check_open(txn: Transaction) -> None:\n    if False:",
        "A transaction that is decided takes no more partitions.",
        _RULES,
    ),
    Mutant(
        70,
        "decided-on-what-is-changing",
        _TXN + "/shard.py",
        "        if transactional_id in self._on_the_way:\n",
        "        if False:\n",
        "Nothing is decided while a change of the transaction is being replicated.",
        _K + "/test_transactions.py " + _K + "/test_transaction_races.py",
    ),
    Mutant(
        71,
        "refused-marker-counts",
        _TXN + "/markers.py",
        "if not code or code in _NOT_NEEDED}",
        "if True}",
        "A transaction completes when every partition has its marker.",
        _K + "/test_transactions.py " + _K + "/test_transaction_races.py",
    ),
    Mutant(
        72,
        "older-commit-wins",
        _GROUPS + "/offsets.py",
        "if known is None or known.log_offset < log_offset:",
        "if True:",
        "Of two commits the later one in the log holds.",
        _K + "/test_offsets.py",
    ),
    Mutant(
        73,
        "unstable-offsets-expire",
        _GROUPS + "/offsets.py",
        "if name[0] in in_use or name in self._under_way or self.is_unstable(name):",
        "if name[0] in in_use:",
        "Offsets that are being written, or are part of an open transaction, do not expire.",
        _K + "/test_offsets.py",
    ),
)
