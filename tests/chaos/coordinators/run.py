"""Groups and transactions on clusters that are broken, and a table of what came of it; a part of `make chaos`.

python -m tests.chaos.coordinators.run --seconds 300 --only transactions --folder DIR --results FILE
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.cluster import Cluster
from tests.chaos.coordinators import group_faults, group_row, transaction_faults, transaction_row
from tests.chaos.coordinators.result import Result, table
from tests.chaos.rows import ROWS as OTHER_ROWS


def run_groups(folder: Path, seconds: float, seed: int) -> Result:
    with Cluster(folder, settings=group_row.SETTINGS) as cluster:
        return group_row.disturb(cluster, group_faults.all_faults(random.Random(seed)), seconds, seed)


def run_transactions(folder: Path, seconds: float, seed: int) -> Result:
    with Cluster(folder, settings=transaction_row.SETTINGS) as cluster:
        return transaction_row.disturb(cluster, transaction_faults.all_faults(random.Random(seed)), seconds, seed)


ROWS = {group_row.NAME: run_groups, transaction_row.NAME: run_transactions}

PREFACE = """# What was done to groups and transactions, and what came of it

Written by `make chaos`. Three brokers and three nodes of ZooKeeper, a session timeout of 4 s, topics of 3 replicas.

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

Outages are the longest times in which a place of a group, or a producer, could not commit. A row counts as run with
1,000 commits and 5 faults.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.coordinators.run")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--only", action="append", choices=[*ROWS, *(row.name for row in OTHER_ROWS)])
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--folder", type=Path, help="keep everything there")
    parser.add_argument("--results", type=Path, help="write the table there")
    options = parser.parse_args()
    # It tells of every connection that is lost here on purpose.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="minikafka-chaos-"))
    results = []
    for name in [name for name in ROWS if not options.only or name in options.only]:
        result = ROWS[name](folder / name, options.seconds, options.seed)
        results.append(result)
        print(table([result]), *result.findings(), sep="\n", flush=True)
        if result.is_clean and options.folder is None:
            shutil.rmtree(folder / name)
        if options.results is not None:
            earlier = options.results.read_text() if options.results.exists() else ""
            options.results.write_text(f"{PREFACE}\n{table(results, earlier)}")
    bad = [result.row for result in results if not result.is_clean]
    sys.exit(f"wrong: {', '.join(bad)}; see {folder}" if bad else 0)


if __name__ == "__main__":
    main()
