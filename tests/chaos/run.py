"""`make chaos`: every row on a cluster of its own, and a table of what came of it.

python -m tests.chaos.run --seconds 300 --only "kill -9 leader" --folder DIR --record
"""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.chaos.checker import Verdict, check
from tests.chaos.cluster import Cluster
from tests.chaos.coordinators.rows import ENTRIES as COORDINATOR_ENTRIES
from tests.chaos.faults import Place
from tests.chaos.history import Recorder, load
from tests.chaos.load import Load
from tests.chaos.moving import create_topic
from tests.chaos.outages import outages_by_fault
from tests.chaos.replicas import compare_all, partition_dirs, written_as
from tests.chaos.report import ACKED_MIN, FAULTS_MIN, Entry, Sheet, main, word
from tests.chaos.rows import ROWS, Row
from tests.chaos.waiting import NotInTime, pause

PARTITIONS = 6
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
    def word(self) -> str:
        return word(
            is_clean=not self.verdict.anomalies and not self.troubles,
            is_in_time=self.verdict.longest_outage <= self.row.outage_seconds_max,
            is_run=self.verdict.acked >= ACKED_MIN and self.verdict.faults >= FAULTS_MIN,
        )

    def cells(self) -> list[str]:
        verdict = self.verdict
        numbers = [verdict.faults, verdict.attempted, verdict.acked, verdict.unknown]
        numbers += [verdict.lost, verdict.duplicated, verdict.reordered, verdict.others + len(self.troubles)]
        median = statistics.median(self.fault_outages) if self.fault_outages else 0.0
        outages = [verdict.longest_outage, median, self.row.outage_seconds_max]
        return [
            *(self.row.name, f"{self.seconds:.0f}"),
            *map(str, numbers),
            *(f"{seconds:.2f}" for seconds in outages),
            *(str(self.offsets_compared), str(self.seed)),
        ]

    def findings(self) -> Iterator[str]:
        for anomaly in self.verdict.anomalies[:_SHOWN]:
            yield f"{anomaly.kind} in {anomaly.partition}: {anomaly.text}"
        yield from self.troubles[:_SHOWN]


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
    cluster.reset_injection()
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


def open_cluster(row: Row, folder: Path) -> Cluster:
    return Cluster(folder, row.brokers, linked=row.is_linked, injected=row.is_injected, settings=row.settings)


def run_row(row: Row, folder: Path, seconds: float, seed: int) -> Result:
    with open_cluster(row, folder) as cluster:
        return disturb(cluster, row, "load", seconds, seed=seed)


# The table

SHEET = Sheet(
    path=Path(__file__).with_name("RESULTS.md"),
    preface="""# What was done to clusters, and what came of it

Written by `make chaos`, row by row. Three brokers (four where replicas are moved) and three nodes of ZooKeeper, one
topic of 6 partitions with 3 replicas, min.insync.replicas 2, a session timeout of 4 s; two producers of librdkafka with
acks=all and idempotence, 300 records a second in all. Outages are the longest times in which a partition acknowledged
nothing while somebody was trying; the median is over the longest one of each fault, and a row with an outage longer
than promised is late and fails. A row counts as run with 1,000 acknowledgements and 5 faults. Then all replicas are
compared byte by byte; "offsets compared" is how many offsets they have in common.
""",
    head=(
        *("row", "s", "faults", "attempted", "acked", "unknown", "lost", "duplicated", "reordered", "other"),
        *("longest outage, s", "median", "promised", "offsets compared", "seed"),
    ),
)


def entry(row: Row) -> Entry:
    return Entry(row.name, SHEET, partial(run_row, row), row.all_needs)


if __name__ == "__main__":
    main([*map(entry, ROWS), *COORDINATOR_ENTRIES])
