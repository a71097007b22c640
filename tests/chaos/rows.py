"""The rows: what is done to a cluster, and how long a partition may be without an acknowledgement because of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.chaos import faults
from tests.chaos.cluster import SESSION_SECONDS
from tests.chaos.faults import Fault

AFTER_KILL_SECONDS = SESSION_SECONDS + 1.0
AFTER_SHUTDOWN_SECONDS = 0.25


class Row(NamedTuple):
    """One row of the table."""

    name: str
    fault: Fault
    outage_seconds_max: float
    """What is promised."""
    brokers: int = 3
    is_linked: bool = False
    settings: Mapping[str, str] = {}
    needs: Sequence[str] = ()


ROWS = (
    Row("kill -9 leader", faults.kill_leader, AFTER_KILL_SECONDS),
    Row("kill -9 follower", faults.kill_follower, AFTER_KILL_SECONDS),
    Row("kill -9 controller", faults.kill_controller, AFTER_KILL_SECONDS),
    # Six seconds down, three starts a second apart, and sessions that have to end before the next begins.
    Row("kill -9 all", faults.kill_all, 20.0),
    Row("SIGSTOP leader", faults.freeze_leader, AFTER_KILL_SECONDS),
    Row("SIGSTOP controller", faults.freeze_controller, AFTER_KILL_SECONDS),
    Row("kill -9 ZooKeeper node", faults.kill_zookeeper_node, 1.0),
    # Longer than a session: all of them end at once.
    Row("SIGSTOP ZooKeeper", faults.freeze_zookeeper, 6.0),
    Row("session expiry", faults.end_session, 1.5),
    Row("leader cut from ZooKeeper", faults.cut_from_zookeeper, 1.0, is_linked=True),
    # For as long as it is cut, up to six seconds, and until it is in the ISR of others again.
    Row("leader cut from followers", faults.cut_from_brokers, 8.0, is_linked=True),
    Row("rolling restart", faults.restart, AFTER_SHUTDOWN_SECONDS),
    Row("reassignment", faults.move, 1.5, brokers=4),
    Row("reassignment and kill -9", faults.move_and_kill, AFTER_KILL_SECONDS + 1.0, brokers=4),
    Row("topic delete and recreate", faults.churn, 1.0),
)
