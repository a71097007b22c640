"""What ZooKeeper knows about a cluster, ours or Apache Kafka's: who is there, who leads, who is in sync.

And the one thing that is done to ZooKeeper from outside: ending somebody's session.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from tests.chaos.waiting import wait_until

_CONNECT_SECONDS = 30.0
_SESSION_SECONDS = 10.0
_STEAL_SECONDS = 5.0

# ZooKeeper makes a session's password of its number, with Java's generator.
_PASSWORD_SECRET = 0xB3415C00
_JAVA_FACTOR = 0x5DEECE66D
_JAVA_MASK = (1 << 48) - 1


class PartitionState(NamedTuple):
    """Of one partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        return self.leader >= 0 and set(self.isr) == set(self.replicas)


class View:
    """A session of our own with the ensemble."""

    def __init__(self, connect: str) -> None:
        self._connect = connect
        self._client = KazooClient(connect, timeout=_SESSION_SECONDS)

    def __enter__(self) -> Self:
        self._client.start(_CONNECT_SECONDS)
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.stop()
        self._client.close()

    @property
    def brokers(self) -> dict[int, int]:
        """Registered brokers, with their broker epochs."""
        found = {}
        for name in self._client.get_children("/brokers/ids"):
            try:
                found[int(name)] = int(self._client.get(f"/brokers/ids/{name}")[1].czxid)
            except NoNodeError:
                continue
        return found

    @property
    def controller(self) -> int:
        """-1 if there is none."""
        node = self._json("/controller")
        return -1 if node is None else int(node["brokerid"])

    def partitions(self, topic: str) -> dict[int, PartitionState]:
        """Those that have a state already."""
        node = self._json(f"/brokers/topics/{topic}")
        return {} if node is None else dict(self._states(topic, node["partitions"]))

    def _states(self, topic: str, assignment: dict[str, list[int]]) -> Iterator[tuple[int, PartitionState]]:
        for name, replicas in assignment.items():
            state = self._json(f"/brokers/topics/{topic}/partitions/{name}/state")
            if state is not None:
                isr = tuple(map(int, state["isr"]))
                yield int(name), PartitionState(int(state["leader"]), int(state["leader_epoch"]), isr, tuple(replicas))

    @property
    def is_moving(self) -> bool:
        """Whether partitions are being moved from broker to broker."""
        return self._client.exists("/admin/reassign_partitions") is not None or any(
            (node := self._json(f"/brokers/topics/{topic}"))
            and (node.get("adding_replicas") or node.get("removing_replicas"))
            for topic in self._client.get_children("/brokers/topics")
        )

    def end_session(self, broker_id: int) -> None:
        """End the session of a broker, as ZooKeeper would if it had not heard of it for too long.

        Whoever opens a session with its number and password takes it over, and may then close it. The robbed one may
        be quick enough to take it back before, so this is tried until it has worked.
        """
        _, stat = self._client.get(f"/brokers/ids/{broker_id}")
        session = int(stat.ephemeralOwner)

        def is_over() -> bool:
            self._steal(session)
            exists = self._client.exists(f"/brokers/ids/{broker_id}")
            return exists is None or exists.ephemeralOwner != session

        wait_until(is_over, _CONNECT_SECONDS, f"the end of broker {broker_id}'s session")

    def _steal(self, session: int) -> None:
        thief = KazooClient(self._connect, timeout=_SESSION_SECONDS, client_id=(session, session_password(session)))
        try:
            thief.start(_STEAL_SECONDS)
            thief.stop()
        except (KazooException, thief.handler.timeout_exception):
            # It was taken back in between.
            thief.stop()
        finally:
            thief.close()

    def _json(self, path: str) -> dict[str, Any] | None:
        try:
            return dict(json.loads(self._client.get(path)[0]))
        except NoNodeError:
            return None


def session_password(session: int) -> bytes:
    """What ZooKeeper wants to hear of whoever says that a session is his."""
    seed = ((session ^ _PASSWORD_SECRET) ^ _JAVA_FACTOR) & _JAVA_MASK
    password = b""
    while len(password) < 16:
        seed = (seed * _JAVA_FACTOR + 0xB) & _JAVA_MASK
        password += (seed >> 16 & 0xFFFFFFFF).to_bytes(4, "little")
    return password
