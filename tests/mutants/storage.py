"""Mutants of what a disk can do to a broker, and of what a lookup may cost."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_GROWTH: Final = "tests/storage/test_growth.py"
_READING: Final = "tests/broker/replicas/test_reading.py"
_COMPACTION: Final = "tests/storage/test_compaction_limits.py"
_DIRS: Final = "tests/storage/test_log_dirs.py"

MUTANTS: Final = (
    Mutant(
        160,
        "fallocate-required",
        "storage/allocation.py",
        "        if error.errno not in _NO_FALLOCATE:\n            raise\n",
        "        raise\n",
        "A file system without fallocate is not a broken disk.",
        "tests/storage/test_real_disk.py",
        simulated=False,
    ),
    Mutant(
        161,
        "last-batch-is-cleaned",
        "storage/batch_filter.py",
        "if kept is None and (is_last or self._is_last_of_producer(batch)):",
        "if kept is None and self._is_last_of_producer(batch):",
        "The last batch of what is cleaned stays, so that readers reach the end of the log.",
        _COMPACTION,
        simulated=False,
    ),
    Mutant(
        162,
        "aborted-up-to-the-bound",
        "broker/replicas/reading.py",
        "self.partition.log.aborted_transactions(self._plan.offset, end)",
        "self.partition.log.aborted_transactions(self._plan.offset, self._bound.offset)",
        "A fetch looks up aborted transactions only as far as its batches go.",
        _READING,
        simulated=False,
    ),
    Mutant(
        163,
        "deleted-names-not-unique",
        "storage/formats/names.py",
        'return f".{number}{DELETED_SUFFIX}" if number else DELETED_SUFFIX',
        "return DELETED_SUFFIX",
        "Two segments of one base offset leave the log under different names.",
        "tests/storage/test_swapping.py",
        simulated=False,
    ),
    Mutant(
        164,
        "readers-do-not-hold-files",
        "storage/disk.py",
        "            is_held = self._holders > 0\n",
        "            is_held = False\n",
        "A file stays open while a thread reads it.",
        "tests/storage/test_real_disk.py",
        simulated=False,
    ),
    Mutant(
        165,
        "overtaken-read-not-planned-again",
        "broker/replicas/reading.py",
        "                self._plan_again(plan)\n",
        "                return\n",
        "A read that is overtaken by retention is planned again.",
        _READING,
        simulated=False,
    ),
    Mutant(
        166,
        "delete-horizon-overflows",
        "storage/batch_filter.py",
        "min(now_ms + delete_retention_ms, INT64_MAX)",
        "now_ms + delete_retention_ms",
        "A delete horizon fits into 64 bits.",
        _COMPACTION,
        simulated=False,
    ),
    Mutant(
        167,
        "half-made-log-counts",
        "storage/log_dirs.py",
        "            if elsewhere is not None:\n                log_dir.do",
        "            if False:\n                log_dir.do",
        "A log that was made in vain does not stop the next start, and passes for no other.",
        _DIRS,
        simulated=False,
    ),
    Mutant(
        168,
        "complete-log-made-twice",
        "storage/log_dirs.py",
        "if not each.is_offline or job.may_be_complete:",
        "if not each.is_offline:",
        "Another directory is taken only if nothing that looks like the partition is left in the first.",
        _DIRS,
        simulated=False,
    ),
    Mutant(
        169,
        "empty-time-index-is-bad",
        "storage/segment.py",
        "return self._disk.exists(self.time_index.path) and self.first_timestamp < 0",
        "return False",
        "A time index without entries is right for records without timestamps.",
        _GROWTH,
        simulated=False,
    ),
)
