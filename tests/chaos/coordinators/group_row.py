"""The row of groups: members step by step, some of them static, real clients that cooperate, and faults among them."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterable

from minikafka.protocol.errors import KafkaError
from tests.chaos.cluster import Cluster
from tests.chaos.coordinators import ROWS, groups
from tests.chaos.coordinators.group_faults import Fault, Stage
from tests.chaos.coordinators.member import Member, place_name
from tests.chaos.coordinators.members import RealMembers
from tests.chaos.coordinators.mending import mend, noted
from tests.chaos.coordinators.result import Result
from tests.chaos.coordinators.transaction import stable_offset
from tests.chaos.coordinators.wire import Place, Unanswered, Wire
from tests.chaos.history import Recorder, load
from tests.chaos.load import Producing
from tests.chaos.moving import create_topic
from tests.chaos.waiting import pause

NAME, _ = ROWS
TOPIC = "shared"
PARTITIONS = 4
DYNAMIC, STATIC, REAL = "dynamic", "static", "real"
MEMBERS = {DYNAMIC: 3, STATIC: 2}
REAL_MEMBERS = 2
RATE = 40.0
_LOOK_SECONDS = 0.3
_CALM_SECONDS = (0.2, 1.0)
# A broker's session has to end, then a member's, and then all have to join again.
OUTAGE_SECONDS_MAX = 12.0

SETTINGS = {"group.min.session.timeout.ms": "1000"}


class OffsetWatcher(threading.Thread):
    """Asks all the time what groups have committed."""

    def __init__(self, recorder: Recorder, servers: str, names: list[str], places: list[Place]) -> None:
        super().__init__(name="watcher", daemon=True)
        self._recorder = recorder
        self._wire = Wire(servers, "watcher")
        self._wanted = [(group, place) for group in names for place in places]
        self._told = threading.Event()
        self.failure: BaseException | None = None

    def stop(self) -> None:
        self._told.set()
        self.join()
        self._wire.close()
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        try:
            while not self._told.wait(_LOOK_SECONDS):
                for group, place in self._wanted:
                    with contextlib.suppress(KafkaError, Unanswered):
                        self._look(group, place)
        except BaseException as failure:
            self.failure = failure

    def _look(self, group: str, place: Place) -> None:
        name = place_name(group, place)
        self._recorder.write(self.name, "invoke", "offset", partition=name)
        offset = stable_offset(self._wire, group, place)
        self._recorder.write(self.name, "ok", "offset", partition=name, offset=offset)


class _Cast:
    """Everybody who takes part."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        servers = cluster.bootstrap
        self.places = [Place(TOPIC, partition) for partition in range(PARTITIONS)]
        self.members = [
            Member(recorder, servers, group, self.places, f"{group}-{number}", is_static=group == STATIC)
            for group, count in MEMBERS.items()
            for number in range(count)
        ]
        self.real = RealMembers(servers, REAL, self.places, REAL_MEMBERS, cluster.folder)
        self.producer = Producing(recorder, servers, TOPIC, PARTITIONS, 1, 1)
        self.producer.rate = RATE
        self.watcher = OffsetWatcher(recorder, servers, [*MEMBERS, REAL], self.places)

    def start(self) -> None:
        self.real.start()
        for thread in (*self.members, self.producer, self.watcher):
            thread.start()

    def stop(self) -> None:
        for member in self.members:
            member.stop()
        self.producer.stop()
        self.watcher.stop()


def disturb(cluster: Cluster, faults: Iterable[Fault], seconds: float = float("inf"), seed: int = 0) -> Result:
    """Have members come and go, until there are no more faults or the time is over."""
    recorder, rng = Recorder(cluster.folder / "groups.jsonl"), random.Random(seed)
    create_topic(cluster, TOPIC, PARTITIONS)
    cast, troubles, began = _Cast(cluster, recorder), list[str](), time.monotonic()
    try:
        cast.start()
        with noted(troubles), Wire(cluster.bootstrap, "nemesis") as wire:
            stage = Stage(cluster, recorder, rng, cast.members, cast.places, cast.real, wire)
            stage.wait_until_whole()
            for fault in faults:
                fault(stage)
                pause(rng.uniform(*_CALM_SECONDS))
                if time.monotonic() > began + seconds:
                    break
        took = time.monotonic() - began
        with noted(troubles):
            mend(cluster, troubles)
            for member in cast.members:
                member.gate.let_go()
            cast.stop()
    finally:
        cast.real.close()
    recorder.close()
    verdict = groups.check(load(recorder.path))
    troubles += cluster.complaints()
    return Result(
        row=NAME,
        seed=seed,
        seconds=took,
        faults=verdict.faults,
        attempted=verdict.attempted,
        committed=verdict.acked,
        unknown=verdict.unknown,
        anomalies=[*verdict.anomalies, *cast.real.double_owners()],
        longest_outage=verdict.longest_outage,
        outage_seconds_max=OUTAGE_SECONDS_MAX,
        offsets_compared=0,
        troubles=troubles,
    )
