"""Which replica a consumer should read from: one in its own rack, if there is one that has what it wants.

The leader decides, and tells the consumer to go on elsewhere. A follower qualifies if it is in sync and has the offset;
of several in the rack the one that has most is taken. The leader itself is best where it is in the rack.
"""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.broker.replicas.partition import Partition
from minikafka.protocol.control import LiveBroker


def nearest_replica(partition: Partition, rack: str, offset: int, brokers: Mapping[int, LiveBroker]) -> int | None:
    """The broker to read from instead of the leader; None if the leader is as good, or does not lead any more."""
    leadership = partition.leadership
    own = brokers.get(partition.broker_id)
    if leadership is None or own is None or own.rack == rack:
        return None
    near = [
        (follower.log_end_offset, follower.caught_up_ms, broker_id)
        for broker_id, follower in leadership.followers.items()
        if broker_id in leadership.isr
        and broker_id in brokers
        and brokers[broker_id].rack == rack
        and follower.log_start_offset <= offset <= follower.log_end_offset
    ]
    return max(near)[2] if near else None
