"""The cluster of a campaign: quick timeouts and small segments, so that much happens within seconds."""

from __future__ import annotations

from tests.sim.campaign.plan import Plan

REPLICAS = ((1, 2, 3), (2, 3, 1))
CHURNED = "churned"
"""A topic that is deleted and created again."""
WEAK = {"segment.bytes": "4000", "retention.bytes": "12000"}

_SETTINGS = {
    "replica.socket.timeout.ms": "2000",
    "controller.socket.timeout.ms": "2000",
    "request.timeout.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.segment.bytes": "16384",
    "log.index.size.max.bytes": "16384",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "3000",
    "log.retention.check.interval.ms": "3000",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
    "offsets.commit.timeout.ms": "2000",
    "group.initial.rebalance.delay.ms": "100",
    "broker.rack": "r{id}",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


def settings_of(plan: Plan) -> dict[str, str]:
    return {
        **_SETTINGS,
        "log.dirs": ",".join(f"/data-{number}" for number in range(plan.log_dirs)),
        "minikafka.durability": plan.durability,
        "zookeeper.session.timeout.ms": str(plan.session_ms),
        "replica.lag.time.max.ms": str(plan.lag_ms),
        "replica.fetch.max.bytes": str(plan.fetch_bytes),
        # A fetch must not wait for longer than a follower may lag.
        "replica.fetch.wait.max.ms": str(min(500, plan.lag_ms // 2)),
    }
