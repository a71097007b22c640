"""What must hold of all replicas once the faults are over for a while.

Every partition has its whole ISR and a leader, everything is committed and no transaction is open; and replicas are
equal: their records byte for byte over the offsets that all have, their producers and their leader epochs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minikafka.broker.replicas.partition import Partition
from minikafka.broker.zookeeper.topic_nodes import StateNode, TopicNode, topic_path
from minikafka.protocol.records import BatchView, ControlType, iter_records, read_marker, read_whole_batches
from minikafka.protocol.varint import Buffer
from tests.sim.cluster import SimCluster

_STATE = "/state"
INTERNAL = ("__consumer_offsets", "__transaction_state")
"""Compacted, by each replica by itself."""


def partitions(cluster: SimCluster) -> list[tuple[str, int, StateNode]]:
    """All partitions there are, as ZooKeeper has them."""
    found = []
    for path, node in sorted(cluster.zookeeper.nodes.items()):
        if path.endswith(_STATE):
            _, _, _, topic, _, index, _ = path.split("/")
            found.append((topic, int(index), StateNode.decode(path, node.data)))
    return found


def replicas_of(cluster: SimCluster, topic: str, index: int) -> tuple[tuple[int, ...], bool]:
    """Where a partition is to be, and whether it is being moved."""
    path = topic_path(topic)
    placed = TopicNode.decode(path, cluster.zookeeper.nodes[path].data).partitions[index]
    return tuple(placed.replicas), placed.is_reassigned


def partition_at(cluster: SimCluster, broker_id: int, topic: str, index: int) -> Partition | None:
    node = cluster.nodes[broker_id]
    context = node.broker.context if node.is_running else None
    return None if context is None else context.partitions.all.get((topic, index))


def unsettled(cluster: SimCluster) -> list[str]:
    """What is not yet as it must be in the end."""
    found = []
    for topic, index, state in partitions(cluster):
        name = f"{topic}-{index}"
        replicas, is_moving = replicas_of(cluster, topic, index)
        if is_moving:
            found.append(f"stuck-reassignment: {name} is still moved to {replicas}, {state}")
            continue
        here = {each: partition_at(cluster, each, topic, index) for each in replicas}
        leader = here.get(state.leader)
        if leader is None or leader.leadership is None or set(state.isr) != set(replicas):
            found.append(f"no-progress: {name} ends with {state}, replicas {replicas}")
        elif any(each is None for each in here.values()):
            found.append(f"no-progress: {name} is not at all of {replicas}")
        elif leader.log.high_watermark < leader.log.log_end_offset:
            found.append(f"no-progress: {name} is committed up to {leader.log.high_watermark} only")
        elif leader.log.last_stable_offset < leader.log.log_end_offset:
            found.append(f"hung: a transaction is open in {name} from {leader.log.last_stable_offset} on")
        else:
            found += differences(name, {key: describe(each) for key, each in here.items() if each is not None})
    return found


def describe(partition: Partition) -> dict[str, Any]:
    """What has to be equal at all replicas."""
    log = partition.log
    return {
        "start": log.log_start_offset,
        "end": log.log_end_offset,
        "read": lambda low: _records(partition, low),
        # An epoch in which nothing was written is known to its leader only.
        "epochs": [each for each in log.epochs.entries() if each[1] < log.log_end_offset],
        "producers": {
            each.producer_id: (each.producer_epoch, each.last_sequence, each.current_txn_first_offset)
            for each in log.producers.snapshot()
        },
    }


def _records(partition: Partition, low: int) -> object:
    """Bytes; of a compacted topic, which each replica compacts by itself, the last committed value of each key."""
    log, data = partition.log, b""
    while low < log.log_end_offset:
        # A read ends with its segment.
        some = bytes(log.plan_read(low, 1 << 30, log.log_end_offset).run())
        batches, _ = read_whole_batches(some)
        if not batches:
            break
        data, low = data + some, batches[-1].next_offset
    return last_values(read_whole_batches(data)[0]) if partition.topic in INTERNAL else data


def last_values(batches: Sequence[BatchView]) -> dict[bytes, bytes]:
    """What compaction comes to. Of a transaction without a marker, compaction has removed that: it was committed."""
    changes: list[tuple[bool, dict[bytes, bytes | None]]] = []
    aborted: set[int] = set()
    for batch in reversed(batches):
        if batch.is_control:
            marker = read_marker(batch)
            is_abort = marker is not None and marker.type is ControlType.ABORT
            (aborted.add if is_abort else aborted.discard)(batch.producer_id)
            continue
        is_lost = batch.is_transactional and batch.producer_id in aborted
        records = {bytes(record.key or b""): _copy(record.value) for record in iter_records(batch)}
        changes.append((is_lost, records))
    last: dict[bytes, bytes | None] = {}
    for is_lost, records in reversed(changes):
        if not is_lost:
            last |= records
    return {key: value for key, value in last.items() if value is not None}


def _copy(value: Buffer | None) -> bytes | None:
    return None if value is None else bytes(value)


def differences(name: str, replicas: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Where replicas of one partition differ. They may begin at different offsets, by retention."""
    low = max(each["start"] for each in replicas.values())
    first_id, *others = sorted(replicas)
    first, found = replicas[first_id], []
    for other_id in others:
        other = replicas[other_id]
        if other["end"] != first["end"]:
            found.append(f"replicas-differ: {name} ends at {first['end']} and {other['end']}")
        elif low < first["end"] and first["read"](low) != other["read"](low):
            found.append(f"replicas-differ: records of {name} from {low} on at {first_id} and {other_id}")
        if first["start"] == other["start"]:
            for what in ("epochs", "producers"):
                if first[what] != other[what]:
                    found.append(f"{what}-differ: {name}: {first[what]} at {first_id}, {other[what]} at {other_id}")
    return found
