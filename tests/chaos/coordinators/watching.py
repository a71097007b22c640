"""Those who look on: readers of what is committed, and one who asks where that ends and what groups have committed."""

from __future__ import annotations

import contextlib
import threading
import time
from functools import partial

from confluent_kafka import Consumer, KafkaError, TopicPartition

from minikafka.protocol.errors import KafkaError as Refusal
from minikafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.chaos.coordinators.transaction import stable_offset
from tests.chaos.coordinators.transactor import INPUT, INSIST_SECONDS, offset_name
from tests.chaos.coordinators.wire import Place, Unanswered, Wire, check, insist
from tests.chaos.history import Recorder, Seen
from tests.chaos.waiting import NotInTime

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_LATEST = -1
_LIST_OFFSETS_VERSION = 6
_LOOK_SECONDS = 0.3
_POLL_SECONDS = 0.2
_POLL_RECORDS = 500
_AGAIN_SECONDS = 15.0

_CONSUMER = {
    "group.id": "readers of transactions",
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 50,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 500,
    "socket.timeout.ms": 5_000,
    "log_level": 0,
}


def end_of(wire: Wire, place: Place, isolation: int) -> int:
    """Up to where somebody may read."""
    asked = ListOffsetsPartition(partition_index=place.partition, timestamp=_LATEST)
    topics = [ListOffsetsTopic(name=place.topic, partitions=[asked])]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
    answer = wire.ask_leader(place, request, _LIST_OFFSETS_VERSION)
    found = answer.topics[0].partitions[0]
    check(found.error_code)
    return int(found.offset)


class Reader(threading.Thread):
    """Reads what is committed, and begins again now and then."""

    def __init__(self, recorder: Recorder, bootstrap: str, places: list[Place], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._recorder = recorder
        self._places = [TopicPartition(place.topic, place.partition, 0) for place in places]
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **_CONSUMER})
        self._told = threading.Event()
        self.failure: BaseException | None = None

    def stop(self) -> None:
        self._told.set()
        self.join()
        self._consumer.close()
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        try:
            while not self._told.is_set():
                self._consumer.assign(self._places)
                until = time.monotonic() + _AGAIN_SECONDS
                while not self._told.is_set() and time.monotonic() < until:
                    self.poll()
        except BaseException as failure:
            self.failure = failure

    def poll(self) -> None:
        seen = []
        for message in self._consumer.consume(_POLL_RECORDS, _POLL_SECONDS):
            if (error := message.error()) is not None:
                assert error.code() != KafkaError._AUTO_OFFSET_RESET, error
                continue
            offset, value = message.offset(), message.value()
            assert offset is not None and isinstance(value, bytes)
            seen.append(Seen(f"{message.topic()}-{message.partition()}", offset, int(value)))
        if seen:
            self._recorder.write(self.name, "ok", "poll", records=seen)

    def read_to(self, ends: dict[Place, int], seconds: float) -> None:
        """Everything up to there, as the last reader. It is not given what lies at the end if that is a marker."""
        until = time.monotonic() + seconds
        self._consumer.assign(self._places)
        while missing := {place for place in ends if self._position(place) < ends[place]}:
            if time.monotonic() > until:
                raise NotInTime(f"reading everything: {missing} not read after {seconds:g} s")
            self.poll()
        self._recorder.write(self.name, "info", "final")
        self._consumer.close()

    def _position(self, place: Place) -> int:
        (found,) = self._consumer.position([TopicPartition(place.topic, place.partition)])
        return found.offset


class Watcher(threading.Thread):
    """Writes down where what is committed ends, and what groups have committed."""

    def __init__(self, recorder: Recorder, bootstrap: str, places: list[Place], groups: list[str]) -> None:
        super().__init__(name="watcher", daemon=True)
        self._recorder = recorder
        self._wire = Wire(bootstrap, "watcher", patience_seconds=3.0)
        self._places = places
        self._groups = groups
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
                for place in self._places:
                    with contextlib.suppress(Refusal, Unanswered):
                        self.look(place)
                for group in self._groups:
                    with contextlib.suppress(Refusal, Unanswered):
                        self.look_at_group(group)
        except BaseException as failure:
            self.failure = failure

    def look(self, place: Place) -> tuple[int, int]:
        end = end_of(self._wire, place, READ_UNCOMMITTED)
        committed = end_of(self._wire, place, READ_COMMITTED)
        self._recorder.write(self.name, "ok", "lso", partition=str(place), offset=committed, value=end)
        return committed, end

    def look_at_group(self, group: str) -> int:
        name = offset_name(group)
        self._recorder.write(self.name, "invoke", "offset", partition=name)
        offset = stable_offset(self._wire, group, INPUT)
        self._recorder.write(self.name, "ok", "offset", partition=name, offset=offset)
        return offset

    def look_to_the_end(self, seconds: float) -> dict[Place, int]:
        """Where everything ends when nothing is open any more; NotInTime if it does not come to that."""
        until = time.monotonic() + seconds
        ends: dict[Place, int] = {}
        while open_ones := [place for place in self._places if place not in ends]:
            if time.monotonic() > until:
                raise NotInTime(f"transactions are open in {open_ones} after {seconds:g} s")
            for place in open_ones:
                committed, end = insist(partial(self.look, place), INSIST_SECONDS)
                if committed >= end:
                    ends[place] = committed
        for group in self._groups:
            insist(partial(self.look_at_group, group), INSIST_SECONDS)
        return ends

    def close(self) -> None:
        """For one that was never started."""
        self._wire.close()
