"""The rows of groups and transactions; a part of `make chaos` with a table of its own."""

from __future__ import annotations

import random
from pathlib import Path

from tests.chaos.cluster import Cluster
from tests.chaos.coordinators import group_faults, group_row, transaction_faults, transaction_row
from tests.chaos.coordinators.result import HEAD, Result
from tests.chaos.report import Entry, Sheet

SHEET = Sheet(
    path=Path(__file__).with_name("RESULTS.md"),
    preface="""# What was done to groups and transactions, and what came of it

Written by `make chaos`, row by row. Three brokers and three nodes of ZooKeeper, a session timeout of 4 s, topics of 3
replicas.

Groups: five members step by step in two groups, sessions of 3 s, the members of one group static, and two clients of
librdkafka that cooperate, one of them static. Members, coordinators and both are killed before each step of a member
(join, sync, ask for offsets, commit, heartbeat), members and coordinators are stopped until they are none any more.
"Committed" are offsets that were accepted. A double owner is also who commits when another owns.

Transactions: three producers step by step, each transaction over two or three partitions and an offset of a group,
some aborted on purpose, a transaction timeout of 5 s; beside them a client of librdkafka that reads, processes and
writes. Producers, both coordinators and the leader of the data are killed before each step of a transaction (init,
begin, add partitions, produce, produce again, add offsets, commit offsets, end), others take the transactional id, and
the end of a transaction comes late. "Torn" is also what was committed and is not there, and an input that has not one
output; "aborted reads" are also those that came too early; "hung" is what holds readers up for longer than the timeout
and 10 s.

Outages are the longest times in which a place of a group, or a producer, could not commit; a row with a longer one than
promised is late and fails. A row counts as run with 1,000 commits and 5 faults.
""",
    head=HEAD,
)


def run_groups(folder: Path, seconds: float, seed: int) -> Result:
    with Cluster(folder, settings=group_row.SETTINGS) as cluster:
        return group_row.disturb(cluster, group_faults.all_faults(random.Random(seed)), seconds, seed)


def run_transactions(folder: Path, seconds: float, seed: int) -> Result:
    with Cluster(folder, settings=transaction_row.SETTINGS) as cluster:
        return transaction_row.disturb(cluster, transaction_faults.all_faults(random.Random(seed)), seconds, seed)


ENTRIES = (Entry(group_row.NAME, SHEET, run_groups), Entry(transaction_row.NAME, SHEET, run_transactions))
