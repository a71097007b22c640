"""`make bench-failover`: kill -9 of the controller of three brokers with many partitions; when do all have leaders?

A third of the partitions lose their leader with it, and all lose the one that decides. What the clock shows includes
the session timeout, after which ZooKeeper tells the others; the rest is ours: an election, reading the cluster,
choosing leaders, writing that down and telling everybody. Asked is another broker, for all partitions at once.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from minikafka.client import Admin
from minikafka.client.admin import NewTopic
from tests.chaos.cluster import SESSION_SECONDS, Cluster
from tests.chaos.links import HOST

PARTITIONS_EACH = 100
SECONDS_MAX = 120.0


async def fail_over(cluster: Cluster, topics: Sequence[NewTopic]) -> tuple[float, float]:
    """Seconds to make all topics, and from the kill until every partition has a leader that is alive."""
    names = [topic.name for topic in topics]
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        began = time.monotonic()
        for topic in topics:
            await admin.create_topics([topic], timeout_ms=60_000)
        made_seconds = time.monotonic() - began
        controller_id = (await admin.describe_cluster()).controller_id
        assert controller_id is not None
    others = ",".join(f"{HOST}:{each.port}" for each in cluster.brokers if each.id != controller_id)
    async with Admin(bootstrap_servers=others) as admin:
        await asyncio.to_thread(cluster.broker(controller_id).kill)
        killed = time.monotonic()
        while time.monotonic() < killed + SECONDS_MAX:
            described = await admin.describe_topics(names)
            leaders = [each.leader for topic in described.values() for each in topic.partitions]
            if all(leader not in (None, controller_id) for leader in leaders):
                return made_seconds, time.monotonic() - killed
            await asyncio.sleep(0.02)
    raise SystemExit(f"some partitions have no leader after {SECONDS_MAX:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.failover")
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    count = max(1, options.partitions // PARTITIONS_EACH)
    topics = [NewTopic(f"t{number}", PARTITIONS_EACH, 3) for number in range(count)]
    print(f"{count * PARTITIONS_EACH} partitions of 3 replicas on 3 brokers; session timeout {SESSION_SECONDS:.0f} s")
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="minikafka-bench-") as folder, Cluster(Path(folder), 3) as cluster:
            made, failed_over = asyncio.run(fail_over(cluster, topics))
        print(f"round {number + 1}: made in {made:.1f} s, all leaders {failed_over:.2f} s after kill -9", flush=True)


if __name__ == "__main__":
    main()
