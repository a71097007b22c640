"""What is done to a cluster, and how it is undone.

A fault is a function that breaks something, lets it be broken for a while, mends it, and returns when the cluster is
whole again. It tells the history what it did just before it does it.
"""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.chaos.cluster import HEAL_SECONDS, SESSION_SECONDS, Broker, Cluster
from tests.chaos.history import Recorder
from tests.chaos.links import State
from tests.chaos.moving import churn_topic, move_replicas
from tests.chaos.waiting import pause, wait_until

# Long enough that ZooKeeper, which looks every half second, has ended a session of somebody it cannot hear.
PAST_SESSION_SECONDS = SESSION_SECONDS * 1.5


class Place(NamedTuple):
    """Where faults happen."""

    cluster: Cluster
    topic: str
    recorder: Recorder
    rng: random.Random

    def tell(self, what: str) -> None:
        self.recorder.write("nemesis", "info", "fault", note=what)

    @property
    def leader(self) -> Broker:
        """Of a partition by chance."""
        states = self.cluster.view.partitions(self.topic)
        return self.cluster.broker(states[self.rng.choice(sorted(states))].leader)

    @property
    def controller(self) -> Broker:
        return self.cluster.broker(self.cluster.view.controller)

    @property
    def follower(self) -> Broker:
        """One that leads less than others, so that mostly followers are hit."""
        leaders = [state.leader for state in self.cluster.view.partitions(self.topic).values()]
        return min(self.cluster.brokers, key=lambda broker: (leaders.count(broker.id), self.rng.random()))

    def wait_until_whole(self) -> None:
        """Until all is as it should be by what ZooKeeper knows, and clients can tell."""
        self.cluster.wait_until_whole(self.topic)
        since = time.monotonic()
        names = list(self.recorder.acked)
        what = "every partition acknowledges"
        wait_until(lambda: all(self.recorder.acked[name] > since for name in names), HEAL_SECONDS, what)


Fault = Callable[[Place], None]


def kill(place: Place, broker: Broker) -> None:
    """Kill a broker and start it again: at once, or when everybody has noticed, or in between."""
    epoch = place.cluster.epoch(broker.id)
    place.tell(f"kill -9 broker {broker.id}")
    broker.kill()
    pause(place.rng.choice([0.1, place.rng.uniform(0.1, 2 * SESSION_SECONDS), PAST_SESSION_SECONDS]))
    broker.start()
    place.cluster.wait_until_back(broker.id, epoch)
    place.wait_until_whole()


def kill_leader(place: Place) -> None:
    kill(place, place.leader)


def kill_follower(place: Place) -> None:
    kill(place, place.follower)


def kill_controller(place: Place) -> None:
    kill(place, place.controller)


def kill_all(place: Place) -> None:
    epochs = place.cluster.view.brokers
    place.tell("kill -9 all brokers")
    for broker in place.cluster.brokers:
        broker.signal(signal.SIGKILL)
    for broker in place.cluster.brokers:
        broker.wait()
    pause(place.rng.choice([0.1, PAST_SESSION_SECONDS]))
    for broker in place.rng.sample(place.cluster.brokers, len(place.cluster.brokers)):
        broker.start()
        pause(place.rng.choice([0.0, 1.0]))
    for broker in place.cluster.brokers:
        place.cluster.wait_until_back(broker.id, epochs[broker.id])
    place.wait_until_whole()


def freeze(place: Place, broker: Broker) -> None:
    """Stop a broker until its session is over, and let it go on as if nothing had been."""
    epoch = place.cluster.epoch(broker.id)
    place.tell(f"SIGSTOP broker {broker.id}")
    broker.signal(signal.SIGSTOP)
    try:
        place.cluster.wait_until_gone(broker.id)
        pause(place.rng.uniform(0, SESSION_SECONDS))
    finally:
        broker.signal(signal.SIGCONT)
    place.cluster.wait_until_back(broker.id, epoch)
    place.wait_until_whole()


def freeze_leader(place: Place) -> None:
    freeze(place, place.leader)


def freeze_controller(place: Place) -> None:
    freeze(place, place.controller)


def kill_zookeeper_node(place: Place) -> None:
    """One of three; the one that leads them as often as another."""
    node = place.rng.choice(place.cluster.nodes)
    place.tell(f"kill -9 ZooKeeper node {node.number}")
    place.cluster.kill_node(node)
    pause(place.rng.uniform(1, PAST_SESSION_SECONDS))
    place.cluster.start_node(node)
    place.wait_until_whole()


def freeze_zookeeper(place: Place) -> None:
    """All nodes, for shorter or longer than sessions last."""
    place.tell("SIGSTOP all ZooKeeper nodes")
    place.cluster.pause_zookeeper()
    pause(place.rng.choice([SESSION_SECONDS / 2, 2 * SESSION_SECONDS]))
    place.cluster.resume_zookeeper()
    place.cluster.wait_until_registered()
    place.wait_until_whole()


def end_session(place: Place) -> None:
    broker = place.rng.choice([place.leader, place.controller, place.follower])
    epoch = place.cluster.epoch(broker.id)
    place.tell(f"the session of broker {broker.id} is ended")
    place.cluster.view.end_session(broker.id)
    place.cluster.wait_until_back(broker.id, epoch)
    place.wait_until_whole()


@contextlib.contextmanager
def cut(place: Place, broker: Broker, others: list[str], what: str) -> Iterator[None]:
    state: State = place.rng.choice(["silent", "broken"])
    place.tell(f"broker {broker.id} cut from {what}, {state}")
    place.cluster.cut(broker.id, others, state)
    try:
        yield
    finally:
        place.cluster.links.heal()


def cut_from_zookeeper(place: Place) -> None:
    broker = place.leader
    epoch = place.cluster.epoch(broker.id)
    with cut(place, broker, place.cluster.node_names, "ZooKeeper"):
        place.cluster.wait_until_gone(broker.id)
        pause(place.rng.uniform(0, SESSION_SECONDS))
    place.cluster.wait_until_back(broker.id, epoch)
    place.wait_until_whole()


def cut_from_brokers(place: Place) -> None:
    """From the other brokers only: clients reach it, and ZooKeeper hears of it."""
    broker = place.leader
    with cut(place, broker, place.cluster.others(broker.id), "other brokers"):
        pause(place.rng.uniform(1, PAST_SESSION_SECONDS))
    place.wait_until_whole()


def restart(place: Place) -> None:
    """One broker after the other, each in good order."""
    for broker in place.cluster.brokers:
        restart_one(place, broker, f"SIGTERM broker {broker.id}")


def restart_one(place: Place, broker: Broker, what: str) -> None:
    epoch = place.cluster.epoch(broker.id)
    place.tell(what)
    code = broker.stop()
    assert code in (0, 143), f"broker {broker.id} ended with {code}"
    broker.start()
    place.cluster.wait_until_back(broker.id, epoch)
    place.wait_until_whole()


def move(place: Place) -> None:
    place.tell("replicas are moved")
    move_replicas(place.cluster, place.topic, place.rng)
    place.wait_until_whole()


def change_factor(place: Place) -> None:
    """Down to one replica and up again; with fewer replicas than min.insync.replicas all of them have to be in sync."""
    for factor in (2, 1, 3):
        place.tell(f"{factor} replicas of each partition")
        move_replicas(place.cluster, place.topic, place.rng, factor)
        place.wait_until_whole()


def move_and_kill(place: Place) -> None:
    """A broker is killed while replicas are moved."""
    move_replicas(place.cluster, place.topic, place.rng)
    kill(place, place.rng.choice(place.cluster.brokers))


def churn(place: Place) -> None:
    place.tell("a topic is made, written to, and deleted")
    churn_topic(place.cluster, "coming-and-going")
    place.wait_until_whole()
