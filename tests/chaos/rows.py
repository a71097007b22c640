"""The rows: what is done to a cluster, and how long a partition may be without an acknowledgement because of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.chaos import clocks, deposed, disks, faults, incarnations, mixed, power, upgrades
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
    is_injected: bool = False
    settings: Mapping[str, str] = {}
    needs: Sequence[str] = ()

    @property
    def all_needs(self) -> Sequence[str]:
        return (*self.needs, *(["cc"] if self.is_injected else []))


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
    Row("power loss of leader", power.of_leader, AFTER_KILL_SECONDS),
    # Two of three are down: nothing is acknowledged before one of them is back, after its session, and in the ISRs.
    Row("power loss of leader and controller", power.of_leader_and_controller, 12.0),
    # The others are gone for a session, then the leader's session has to end.
    Row("power loss of last in-sync replica", power.of_last_in_sync, 15.0, is_linked=True),
    # A broker whose only disk fails ends its session, so that others take over at once.
    Row("disk full", disks.fill, 2.0, is_injected=True),
    Row("disk EIO", disks.fail, 2.0, is_injected=True),
    # Half of the time a leader is killed under the wrong time.
    Row("clock jump", clocks.jump, AFTER_KILL_SECONDS, is_injected=True, settings=clocks.SETTINGS),
    Row("replication factor 3-2-1-3", faults.change_factor, 1.5, brokers=4),
    # The group's coordinator, which leads partitions too, stands still meanwhile.
    Row("topic recreated under groups", incarnations.recreate, AFTER_KILL_SECONDS, brokers=4),
    # Producers notice by timeouts of seconds that a leader which accepts their records cannot replicate them.
    Row("deposed coordinator", deposed.isolate_coordinator, AFTER_KILL_SECONDS + 3.0, is_linked=True),
    Row("deposed leader", deposed.isolate_leader, AFTER_KILL_SECONDS + 3.0, is_linked=True),
    Row("rolling upgrade and back", upgrades.roll, AFTER_SHUTDOWN_SECONDS, needs=["an earlier version"]),
    # The longest of all: all brokers are killed, and one node of ZooKeeper is down too.
    Row("everything", mixed.mix, 25.0, brokers=4, is_linked=True, is_injected=True, settings=clocks.SETTINGS),
)
