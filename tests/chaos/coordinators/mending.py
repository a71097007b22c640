"""What is left to be done when a fault has gone wrong itself: what happened until then is judged all the same."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from minikafka.protocol.errors import KafkaError
from tests.chaos.cluster import Cluster
from tests.chaos.coordinators.wire import Unanswered
from tests.chaos.waiting import NotInTime


@contextlib.contextmanager
def noted(troubles: list[str]) -> Iterator[None]:
    try:
        yield
    except (NotInTime, AssertionError, KafkaError, Unanswered) as error:
        troubles.append(f"{type(error).__name__}: {error}")


def mend(cluster: Cluster, troubles: list[str]) -> None:
    cluster.links.heal()
    for broker in cluster.brokers:
        broker.signal(signal.SIGCONT)
        if not broker.pid:
            troubles.append(f"broker {broker.id} does not run")
            broker.start()
    cluster.wait_until_registered()
