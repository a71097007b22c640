"""The load: producers that never let up, readers that follow them, and one reader in the end that reads everything.

librdkafka's producers with acks=all and idempotence. Whatever it says of a record that is not "acknowledged" counts as
unknown: it does not tell whether the record may have been written. Its pauses between tries are short, so that an
outage that is measured is the cluster's and not the client's.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.history import Recorder, Seen
from tests.chaos.waiting import NotInTime, pause

VALUE_BYTES = 200
"""So that segments are full soon."""
FLUSH_SECONDS = 150.0
FINAL_SECONDS = 200.0
_TURN_SECONDS = 0.01
_POLL_SECONDS = 0.2
_POLL_RECORDS = 500
_AGAIN_SECONDS = 20.0

_COMMON = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    # One that grows comes to differ between records of a batch, and then librdkafka cannot put it together again.
    "retry.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 20,
    # Else a leader that has moved is looked for once a second.
    "topic.metadata.refresh.interval.ms": 100,
    # What is in flight to a process that is stopped has to be given up before it is sent to another.
    "socket.timeout.ms": 3_000,
    "socket.connection.setup.timeout.ms": 1_500,
    # Else it connects to a new leader when it has something to send, and looks for that once a second.
    "enable.sparse.connections": False,
    "log_level": 0,
}
_PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 2,
    # Less than a segment, however much has piled up.
    "batch.num.messages": 50,
    "request.timeout.ms": 2_500,
    "message.timeout.ms": 120_000,
}
_CONSUMER = {
    "group.id": "readers",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 50,
}


def partition_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


class Producing(threading.Thread):
    """A producer that sends values in turn to all partitions, at a steady rate, until told to stop."""

    def __init__(self, recorder: Recorder, bootstrap: str, topic: str, partitions: int, first: int, step: int) -> None:
        """Its values are `first`, `first + step` and so on, so that all producers together repeat none."""
        super().__init__(name=f"producer-{first}", daemon=True)
        self.rate = 150.0
        self._recorder = recorder
        self._servers = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._value = first
        self._step = step
        self._told = threading.Event()
        self._process = self.name
        self._generation = 0
        self._producer = self._make()
        self.failure: BaseException | None = None

    def stop(self) -> None:
        """Send no more, and wait until everything that was sent is known or given up."""
        self._told.set()
        self.join()
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        try:
            self._send_all()
            self._drain()
        except BaseException as failure:
            self.failure = failure

    def _send_all(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._told.is_set():
            while sent < (time.monotonic() - began) * self.rate:
                sent += 1
                self._send()
            self._poll(_TURN_SECONDS)

    def _poll(self, seconds: float) -> None:
        try:
            self._producer.poll(seconds)
        except KafkaException:
            # Something fatal; whoever listens to errors was told.
            self._begin_anew()

    def _drain(self) -> None:
        """Until everything that was sent is known or given up."""
        until = time.monotonic() + FLUSH_SECONDS
        while len(self._producer) and time.monotonic() < until:
            with contextlib.suppress(KafkaException):
                self._producer.flush(_POLL_SECONDS)

    def _send(self) -> None:
        value, self._value = self._value, self._value + self._step
        # All partitions in turn, whatever the step.
        partition = value // self._step % self._partitions
        fields: dict[str, Any] = {"partition": partition_name(self._topic, partition), "value": value}
        process = self._process

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offset = message.offset()
                self._recorder.write(process, "ok", "send", **fields, offset=-1 if offset is None else max(offset, -1))
            else:
                self._recorder.write(process, "info", "send", **fields, note=error.name())

        self._recorder.write(process, "invoke", "send", **fields)
        payload = str(value).encode().ljust(VALUE_BYTES)
        try:
            self._producer.produce(self._topic, payload, partition=partition, on_delivery=delivered)
        except (BufferError, KafkaException) as error:
            # It never left.
            self._recorder.write(process, "fail", "send", **fields, note=str(error))
            if isinstance(error, KafkaException):
                self._begin_anew()
            self._poll(_POLL_SECONDS)

    def _make(self) -> Producer:
        def on_error(error: KafkaError) -> None:
            if error.fatal():
                self._recorder.write(self._process, "info", "fatal", note=f"{error.name()} {error.str()}")

        return Producer({"bootstrap.servers": self._servers, "error_cb": on_error, **_COMMON, **_PRODUCER})

    def _begin_anew(self) -> None:
        """A producer to whom something fatal was said takes no more, and what it has may be anywhere."""
        self._producer.purge()
        self._drain()
        self._generation += 1
        self._process = f"{self.name}-{self._generation}"
        self._producer = self._make()


class Reading(threading.Thread):
    """A reader of all partitions. Every now and then one that reads again begins at the first offset."""

    def __init__(
        self, recorder: Recorder, bootstrap: str, topic: str, partitions: int, name: str, *, again: bool = False
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._recorder = recorder
        self._again = again
        self._told = threading.Event()
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **_COMMON, **_CONSUMER})
        self._places = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
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
                self.assign()
                until = time.monotonic() + (_AGAIN_SECONDS if self._again else float("inf"))
                while not self._told.is_set() and time.monotonic() < until:
                    self.poll()
        except BaseException as failure:
            self.failure = failure

    def assign(self) -> None:
        self._consumer.assign(self._places)
        for place in self._places:
            name = partition_name(place.topic, place.partition)
            self._recorder.write(self.name, "ok", "assign", partition=name, offset=0)

    def poll(self) -> list[Seen]:
        """What comes now, written down."""
        seen = []
        for message in self._consumer.consume(_POLL_RECORDS, _POLL_SECONDS):
            if (error := message.error()) is not None:
                self._take_error(message, error)
                continue
            topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
            assert topic is not None and partition is not None and offset is not None
            assert isinstance(value, bytes)
            seen.append(Seen(partition_name(topic, partition), offset, int(value)))
        if seen:
            self._recorder.write(self.name, "ok", "poll", records=seen)
        return seen

    def _take_error(self, message: Message, error: KafkaError) -> None:
        """Only one is none that passes: that there is nothing where the reader goes on."""
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            name = partition_name(message.topic() or "", message.partition() or 0)
            self._recorder.write(self.name, "fail", "poll", partition=name, note=error.str())
            self.assign()

    def read_to_the_end(self) -> None:
        """Everything that is there now, as the last reader; NotInTime if it cannot be had."""
        until = time.monotonic() + FINAL_SECONDS
        ends = self._ends(until)
        self.assign()
        while any(ends.values()):
            if time.monotonic() > until:
                raise NotInTime(f"reading everything: {ends} offsets to go after {FINAL_SECONDS:g} s")
            for partition, offset, _ in self.poll():
                if offset >= ends[partition] - 1:
                    ends[partition] = 0
        self._recorder.write(self.name, "info", "final")
        self._consumer.close()

    def _ends(self, until: float) -> dict[str, int]:
        ends: dict[str, int] = {}
        while len(ends) < len(self._places):
            for place in self._places:
                try:
                    _, end = self._consumer.get_watermark_offsets(place, timeout=5)
                except KafkaException as error:
                    if time.monotonic() > until:
                        raise NotInTime(f"the end of {place.topic}-{place.partition}: {error}") from error
                    pause(_POLL_SECONDS)
                else:
                    ends[partition_name(place.topic, place.partition)] = end
        return ends


class Load:
    """Some producers and readers of one topic."""

    def __init__(self, recorder: Recorder, bootstrap: str, topic: str, partitions: int, producers: int = 2) -> None:
        self._last = Reading(recorder, bootstrap, topic, partitions, "the last reader")
        self._producers = [
            Producing(recorder, bootstrap, topic, partitions, 1 + index, producers) for index in range(producers)
        ]
        self._readers = [
            Reading(recorder, bootstrap, topic, partitions, "reader"),
            Reading(recorder, bootstrap, topic, partitions, "reader of everything again", again=True),
        ]

    def start(self) -> None:
        for thread in (*self._producers, *self._readers):
            thread.start()

    def stop(self) -> None:
        """Once the cluster is well again."""
        for producer in self._producers:
            producer.stop()
        for reader in self._readers:
            reader.stop()

    def read_everything(self) -> None:
        self._last.read_to_the_end()
