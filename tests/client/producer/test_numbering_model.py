"""The rules of numbering against a model of a leader, by seeds: requests that are lost, held up, and arrive when their
connection has been given up; answers that are lost; refusals before and after the write; delivery timeouts."""

from __future__ import annotations

from collections import Counter, deque
from random import Random
from typing import Final, NamedTuple, cast

import pytest

from minikafka.client.cluster import Cluster
from minikafka.client.errors import ConnectionFailed
from minikafka.client.producer.batch import Answer, Batch
from minikafka.client.producer.config import ProducerConfig
from minikafka.client.producer.identity import Identities
from minikafka.client.producer.lane import Lane, Outcome, Taken
from minikafka.client.producer.queues import PartitionQueue
from minikafka.client.producer.sender import Sender
from minikafka.client.producer.sequences import Identity
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import ErrorCode

STEPS: Final = 600
SEEDS: Final = 200
REFUSALS: Final = (ErrorCode.INVALID_RECORD, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE)


class SteppedClock:
    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


class Sent(NamedTuple):
    """A batch as it left the producer."""

    queue: PartitionQueue
    batch: Batch
    epoch: int
    sequence: int
    values: list[bytes | None]


class Leader:
    """Takes batches as Kafka's ProducerStateManager does; it knows its producer from the start."""

    def __init__(self) -> None:
        self.epoch = 0
        self.next_sequence = 0
        self.last_batches: deque[tuple[int, int]] = deque(maxlen=5)
        self.log: list[bytes | None] = []

    def take(self, sent: Sent, refusal: int) -> int:
        if refusal in REFUSALS:
            return refusal
        if sent.epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if sent.epoch == self.epoch and (sent.sequence, len(sent.values)) in self.last_batches:
            return ErrorCode.NONE
        if sent.sequence != (self.next_sequence if sent.epoch == self.epoch else 0):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if sent.epoch > self.epoch:
            self.last_batches.clear()
        self.epoch = sent.epoch
        self.next_sequence = sent.sequence + len(sent.values)
        self.last_batches.append((sent.sequence, len(sent.values)))
        self.log += sent.values
        return refusal


class FakeLane:
    """The sender's way to the leader; a test takes from it when it likes."""

    node_id = 1
    in_flight = 0

    def __init__(self) -> None:
        self.ready: dict[PartitionQueue, None] = {}

    def wake(self, queue: PartitionQueue) -> None:
        self.ready[queue] = None


class Model:
    """One partition, its producer and its leader, and connections that hold requests."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.clock = SteppedClock()
        config = ProducerConfig(delivery_timeout_ms=100, retry_backoff_ms=self.rng.choice([1, 20]), max_batch_size=150)
        self.cluster = Cluster(config, clock=self.clock, rng=self.rng)
        identities = Identities(self.cluster, config)
        identities.current = Identity(7, 0)
        self.sender = Sender(self.cluster, config, identities)
        self.lane = cast(Lane, FakeLane())
        self.sender._lanes[1] = self.lane
        self.queue = PartitionQueue(TopicPartition("t", 0))
        self.leader = Leader()
        self.unread: deque[Sent] = deque()  # by the leader, of the connection that is open
        self.answers: deque[tuple[Sent, int]] = deque()
        self.old: list[deque[Sent]] = []  # connections that were given up, and that the leader may still read
        self.batches: list[Batch] = []
        self.values: dict[Batch, list[bytes | None]] = {}
        self.records = 0
        self.has_faults = True

    def append(self) -> None:
        value = b"%d" % self.records
        self.records += 1
        size = self.rng.choice([30, 60])
        batch = self.sender.accumulator.batch_for(self.queue, size)
        self.sender.accumulator.bytes += size
        if batch not in self.values:
            self.batches.append(batch)
            self.values[batch] = []
        batch.extend(self.clock.now_ms, [value], None, size)
        self.values[batch].append(value)

    def send(self) -> None:
        self.lane.ready[self.queue] = None
        taken: Taken = self.sender.take(self.lane)
        for queue, batch in taken:
            self.unread.append(Sent(queue, batch, batch.identity.epoch, batch.sequence, [*batch.values]))

    def read(self) -> None:
        """The leader reads the next request of some connection."""
        pipes = [pipe for pipe in [self.unread, *self.old] if pipe]
        if not pipes:
            return
        pipe = self.rng.choice(pipes)
        sent = pipe.popleft()
        refusal = ErrorCode.NONE
        if self.has_faults and self.rng.random() < 0.1:
            refusal = self.rng.choice([*REFUSALS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
        code = self.leader.take(sent, refusal)
        if pipe is self.unread:
            self.answers.append((sent, code))

    def answer(self) -> None:
        if self.answers:
            sent, code = self.answers.popleft()
            self.sender.settle(sent.queue, sent.batch, Outcome(code, answer=Answer(0)))

    def disconnect(self) -> None:
        lost = [sent for sent, _ in self.answers] + [*self.unread]
        # What was in the socket is there as far as it got.
        self.old.append(deque([*self.unread][: self.rng.randint(0, len(self.unread))]))
        self.unread, self.answers = deque(), deque()
        for sent in lost:
            self.sender.settle(sent.queue, sent.batch, Outcome(error=ConnectionFailed("broke")))

    def pass_time(self) -> None:
        self.clock.now_ms += self.rng.choice([1, 5, 20])
        self.sender.give_up_late()

    def play(self) -> None:
        actions = [self.append] * 4 + [self.send] * 6 + [self.read] * 6 + [self.answer] * 6
        actions += [self.disconnect] + [self.pass_time] * self.rng.choice([1, 4])
        for _ in range(STEPS):
            self.rng.choice(actions)()
        self.has_faults = False
        for _ in range(STEPS):
            for action in (self.send, self.read, self.answer):
                action()
            self.clock.now_ms += 1
            self.sender.give_up_late()

    def check(self) -> None:
        assert not self.sender.accumulator.incomplete, "something was never settled"
        log = self.leader.log
        assert [value for value, count in Counter(log).items() if count > 1] == []
        delivered = [
            value
            for batch in self.batches
            for index, value in enumerate(self.values[batch])
            if batch.find(index)[0].error is None
        ]
        assert [value for value in log if value in {*delivered}] == delivered


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
async def test_numbering_writes_nothing_twice_and_keeps_the_order(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "leader", lambda *_: 1)
    monkeypatch.setattr(Sender, "_look_again", lambda *_: None)
    delivered = 0
    for seed in range(first, first + 50):
        model = Model(seed)
        model.play()
        try:
            model.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        delivered += model.sender.metrics.batches_delivered
        await model.cluster.close()
    assert delivered > 1000
