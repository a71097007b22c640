"""The row of transactions: three who do them step by step, a real client that copies, and faults between the steps."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from contextlib import closing

from tests.chaos.cluster import Cluster
from tests.chaos.coordinators import ROWS, transactions
from tests.chaos.coordinators.copying import Copying
from tests.chaos.coordinators.mending import mend, noted
from tests.chaos.coordinators.result import Result
from tests.chaos.coordinators.transaction_faults import Fault, Stage
from tests.chaos.coordinators.transactor import INPUT, TIMEOUT_SECONDS, Transactor
from tests.chaos.coordinators.watching import Reader, Watcher
from tests.chaos.coordinators.wire import Place, Wire
from tests.chaos.history import Recorder, load
from tests.chaos.load import Producing
from tests.chaos.moving import create_topic
from tests.chaos.replicas import compare_all
from tests.chaos.waiting import pause

_, NAME = ROWS
TOPIC, SOURCE, COPIED = "load", "source", "copied"
PARTITIONS, SOURCE_PARTITIONS = 4, 2
TRANSACTORS = 3
SOURCE_RATE = 60.0

# From the end of a transaction's time to the marker that frees what it held up.
HUNG_SECONDS = TIMEOUT_SECONDS + 10.0
_COPY_SECONDS = 90.0
_READ_SECONDS = 120.0
_CALM_SECONDS = (0.2, 1.0)
# A broker's session has to end, or the time of a transaction, and then its markers have to be written.
OUTAGE_SECONDS_MAX = 10.0

SETTINGS = {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class _Cast:
    """Everybody who takes part."""

    def __init__(self, cluster: Cluster, recorder: Recorder, rng: random.Random) -> None:
        servers = cluster.bootstrap
        self.source = [Place(SOURCE, partition) for partition in range(SOURCE_PARTITIONS)]
        written = [Place(TOPIC, partition) for partition in range(PARTITIONS)]
        copied = [Place(COPIED, partition) for partition in range(SOURCE_PARTITIONS)]
        self.transactors = [
            Transactor(recorder, servers, TOPIC, PARTITIONS, f"transactor-{index}", random.Random(rng.random()))
            for index in range(TRANSACTORS)
        ]
        self.producer = Producing(recorder, servers, SOURCE, SOURCE_PARTITIONS, 1, 1)
        self.producer.rate = SOURCE_RATE
        self.copying = Copying(servers, SOURCE, COPIED, cluster.folder / "copier.txt")
        groups = [each.name for each in self.transactors]
        self.watcher = Watcher(recorder, servers, [*written, *copied], groups)
        self.last_watcher = Watcher(recorder, servers, [*written, *copied, *self.source], groups)
        self.reader = Reader(recorder, servers, [*written, *copied], "reader")
        self.last_reader = Reader(recorder, servers, [*written, *copied, *self.source], "the last reader")

    def start(self) -> None:
        for thread in (*self.transactors, self.producer, self.copying, self.watcher, self.reader):
            thread.start()

    def stop(self) -> None:
        """Once the cluster is well again; then everything is read that there is."""
        for transactor in self.transactors:
            transactor.stop()
        self.producer.stop()
        self.copying.wait_until_copied(self.source, _COPY_SECONDS)
        self.copying.stop()
        self.watcher.stop()
        self.reader.stop()
        with closing(self.last_watcher):
            ends = self.last_watcher.look_to_the_end(HUNG_SECONDS)
        self.last_reader.read_to(ends, _READ_SECONDS)


def disturb(cluster: Cluster, faults: Iterable[Fault], seconds: float = float("inf"), seed: int = 0) -> Result:
    """Have transactions done, and faults among them, until there are no more or the time is over."""
    recorder, rng = Recorder(cluster.folder / "transactions.jsonl"), random.Random(seed)
    for topic, partitions in ((TOPIC, PARTITIONS), (SOURCE, SOURCE_PARTITIONS), (COPIED, SOURCE_PARTITIONS)):
        create_topic(cluster, topic, partitions)
    create_topic(cluster, INPUT.topic, 1)
    cast, troubles, began = _Cast(cluster, recorder, rng), list[str](), time.monotonic()
    cast.start()
    try:
        with noted(troubles), Wire(cluster.bootstrap, "nemesis") as wire:
            stage = Stage(cluster, TOPIC, recorder, rng, cast.transactors, cast.copying, wire)
            stage.wait_until_whole()
            for fault in faults:
                fault(stage)
                pause(rng.uniform(*_CALM_SECONDS))
                if time.monotonic() > began + seconds:
                    break
        took = time.monotonic() - began
        with noted(troubles):
            mend(cluster, troubles)
            for transactor in cast.transactors:
                transactor.gate.let_go()
            cluster.wait_until_whole(TOPIC)
            cast.stop()
    finally:
        cast.copying.stop()
    recorder.close()
    return _judge(cluster, recorder, seed, took, troubles)


def _judge(cluster: Cluster, recorder: Recorder, seed: int, took: float, troubles: list[str]) -> Result:
    events = list(load(recorder.path))
    verdict = transactions.check(events, transactions.Bounds(HUNG_SECONDS, SOURCE, COPIED))
    compared = 0
    for topic in (TOPIC, COPIED):
        count, differences = compare_all([broker.log_dir for broker in cluster.brokers], topic)
        compared += count
        troubles += differences
    troubles += cluster.complaints()
    return Result(
        row=NAME,
        seed=seed,
        seconds=took,
        faults=verdict.faults,
        attempted=verdict.attempted,
        committed=verdict.committed,
        unknown=verdict.unknown,
        anomalies=verdict.anomalies,
        longest_outage=verdict.longest_outage,
        outage_seconds_max=OUTAGE_SECONDS_MAX,
        offsets_compared=compared,
        troubles=troubles,
    )
