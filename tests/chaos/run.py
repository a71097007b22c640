"""`make chaos`: every row on a cluster of its own, and a table of what came of it.

python -m tests.chaos.run --seconds 300 --only "kill -9 leader" --folder DIR --results FILE
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.chaos.checker import Verdict, check
from tests.chaos.cluster import Cluster
from tests.chaos.coordinators import ROWS as COORDINATOR_ROWS
from tests.chaos.history import Recorder, load
from tests.chaos.load import Load
from tests.chaos.moving import create_topic
from tests.chaos.outages import outages_by_fault
from tests.chaos.replicas import compare_all, partition_dirs, written_as
from tests.chaos.rows import ROWS, Place, Row
from tests.chaos.waiting import NotInTime, pause
from tests.tree import ROOT

PARTITIONS = 6
# A row with less of either proves nothing.
ACKED_MIN = 1000
FAULTS_MIN = 5
_WARM_SECONDS = 2.0
_CALM_SECONDS = (0.5, 3.0)
_SHOWN = 5


class Result(NamedTuple):
    """What came of one row."""

    row: Row
    seed: int
    seconds: float
    verdict: Verdict
    fault_outages: list[float]
    offsets_compared: int
    troubles: list[str]
    """What else must not be: replicas that differ, a cluster that did not become whole, tracebacks."""

    @property
    def is_clean(self) -> bool:
        return not self.verdict.anomalies and not self.troubles

    @property
    def is_in_time(self) -> bool:
        return self.row.outage_seconds_max is None or self.verdict.longest_outage <= self.row.outage_seconds_max

    @property
    def is_run(self) -> bool:
        return self.verdict.acked >= ACKED_MIN and self.verdict.faults >= FAULTS_MIN


def disturb(
    cluster: Cluster, row: Row, topic: str, seconds: float, faults_max: int | None = None, seed: int = 0
) -> Result:
    """Put a cluster under load and do to it what a row says, again and again; then look at what is left."""
    recorder = Recorder(cluster.folder / f"{topic}.jsonl")
    place = Place(cluster, topic, recorder, random.Random(seed))
    troubles: list[str] = []
    began = time.monotonic()
    create_topic(cluster, topic, PARTITIONS)
    clients = Load(recorder, cluster.bootstrap, topic, PARTITIONS)
    clients.start()
    with _noted(troubles):
        pause(_WARM_SECONDS)
        _break_often(place, row, began + seconds, faults_max)
    took = time.monotonic() - began
    with _noted(troubles):
        _mend(cluster, troubles)
        clients.stop()
        cluster.wait_until_whole(topic)
        clients.read_everything()
    recorder.close()
    events = list(load(recorder.path))
    compared, differences = compare_all([broker.log_dir for broker in cluster.brokers], topic)
    troubles += [*differences, *cluster.complaints()]
    verdict = explained(check(events), partition_dirs(cluster.brokers[0].log_dir, topic))
    return Result(row, seed, took, verdict, outages_by_fault(events), compared, troubles)


def explained(verdict: Verdict, folders: Mapping[str, Path]) -> Verdict:
    """With the numbers under which the first duplicates were written: whose fault it is can be seen from them."""
    shown = [each for each in verdict.anomalies if each.offsets][:_SHOWN]
    texts = {
        each: "; ".join([each.text, *(written_as(folders[each.partition], offset) for offset in each.offsets)])
        for each in shown
        if each.partition in folders
    }
    return verdict._replace(anomalies=[each._replace(text=texts.get(each, each.text)) for each in verdict.anomalies])


def _break_often(place: Place, row: Row, until: float, faults_max: int | None) -> None:
    done = 0
    while time.monotonic() < until and (faults_max is None or done < faults_max):
        row.fault(place)
        done += 1
        pause(place.rng.uniform(*_CALM_SECONDS))


def _mend(cluster: Cluster, troubles: list[str]) -> None:
    """Whatever a fault has left behind that went wrong itself."""
    cluster.links.heal()
    cluster.resume_zookeeper()
    for node in cluster.nodes:
        if not node.is_running():
            cluster.start_node(node)
    for broker in cluster.brokers:
        if not broker.pid:
            troubles.append(f"broker {broker.id} has ended by itself")
            broker.start()
    cluster.wait_until_registered()


@contextlib.contextmanager
def _noted(troubles: list[str]) -> Iterator[None]:
    """What fails is told in the end: what has happened until then is judged all the same."""
    try:
        yield
    except (NotInTime, AssertionError) as error:
        troubles.append(f"{type(error).__name__}: {error}")


def run_row(row: Row, folder: Path, seconds: float, seed: int) -> Result:
    with Cluster(folder, row.brokers, linked=row.is_linked) as cluster:
        return disturb(cluster, row, "load", seconds, seed=seed)


# The table

HEAD = (
    *("row", "s", "faults", "attempted", "acked", "unknown", "lost", "duplicated", "reordered", "other"),
    *("longest outage, s", "median", "promised", "offsets compared", "seed", "commit", "verdict"),
)


def cells(result: Result) -> list[str]:
    verdict, row = result.verdict, result.row
    numbers = [verdict.faults, verdict.attempted, verdict.acked, verdict.unknown]
    numbers += [verdict.lost, verdict.duplicated, verdict.reordered, verdict.others + len(result.troubles)]
    median = statistics.median(result.fault_outages) if result.fault_outages else 0.0
    promised = "-" if row.outage_seconds_max is None else f"{row.outage_seconds_max:.2f}"
    outages = [f"{verdict.longest_outage:.2f}", f"{median:.2f}", promised]
    return [
        *(row.name, f"{result.seconds:.0f}"),
        *map(str, numbers),
        *outages,
        *(str(result.offsets_compared), str(result.seed), commit(), word(result)),
    ]


def word(result: Result) -> str:
    if not result.is_clean:
        return "**wrong**"
    if not result.is_run:
        return "not run"
    return "well" if result.is_in_time else "late"


@cache
def commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip() or "-"


def line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |\n"


def table(results: Iterable[Result], earlier: str = "") -> str:
    """Of these, and of rows that were run earlier and not now."""
    lines = {text.split(" | ")[0].removeprefix("| "): f"{text}\n" for text in earlier.splitlines()}
    lines |= {result.row.name: line(cells(result)) for result in results}
    known = [lines[row.name] for row in ROWS if row.name in lines]
    return "".join([line(HEAD), line(["---"] * len(HEAD)), *known])


def findings(result: Result) -> Iterator[str]:
    for anomaly in result.verdict.anomalies[:_SHOWN]:
        yield f"{anomaly.kind} in {anomaly.partition}: {anomaly.text}"
    yield from result.troubles[:_SHOWN]


PREFACE = """# What was done to clusters, and what came of it

Written by `make chaos`. Three brokers (four where replicas are moved) and three nodes of ZooKeeper, one topic of 6
partitions with 3 replicas, min.insync.replicas 2, a session timeout of 4 s; two producers of librdkafka with acks=all
and idempotence, 300 records a second in all. Outages are the longest times in which a partition acknowledged nothing
while somebody was trying; the median is over the longest one of each fault. A row counts as run with 1,000
acknowledgements and 5 faults. Then all replicas are compared byte by byte; "offsets compared" is how many offsets they
have in common.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--only", action="append", choices=[*(row.name for row in ROWS), *COORDINATOR_ROWS])
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--folder", type=Path, help="keep everything there")
    parser.add_argument("--results", type=Path, help="write the table there")
    options = parser.parse_args()
    # It tells of every connection that is lost here on purpose.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="minikafka-chaos-"))
    results = []
    for number, row in enumerate(row for row in ROWS if not options.only or row.name in options.only):
        place = folder / f"row-{number}"
        result = run_row(row, place, options.seconds, options.seed)
        results.append(result)
        print(table([result]), *findings(result), sep="\n", flush=True)
        if result.is_clean and options.folder is None:
            shutil.rmtree(place)
        if options.results is not None:
            earlier = options.results.read_text() if options.results.exists() else ""
            options.results.write_text(f"{PREFACE}\n{table(results, earlier)}")
    bad = [result.row.name for result in results if not result.is_clean]
    sys.exit(f"wrong: {', '.join(bad)}; see {folder}" if bad else 0)


if __name__ == "__main__":
    main()
