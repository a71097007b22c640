"""`minikafka up` from its arguments to its exit code.

0   stopped when it was told to
1   it could not start
2   it was asked for what cannot be
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from minikafka.broker.up.cluster import Cluster
from minikafka.broker.up.folder import Folder, default_folder
from minikafka.broker.up.plan import Plan, UpError, make_plan
from minikafka.broker.zookeeper.kit import KitError


class Wanted(NamedTuple):
    """The arguments of the command."""

    brokers: int
    zookeeper_nodes: int
    port: int
    data: str | None
    fresh: bool
    zookeeper: str | None
    sets: Sequence[str]
    options: Sequence[str]
    """For every broker's command line."""


def run(wanted: Wanted) -> int:
    """Run a cluster until told to stop."""
    try:
        folder = Folder(Path(wanted.data) if wanted.data else default_folder(os.environ, wanted.port))
        with folder.held(0 if wanted.zookeeper else wanted.zookeeper_nodes, fresh=wanted.fresh):
            plan = make_plan(
                wanted.brokers,
                wanted.port,
                wanted.zookeeper_nodes,
                wanted.zookeeper,
                wanted.sets,
                random.Random(),
                folder.last_ports(),
            )
            asyncio.run(_run(plan, folder, wanted.options))
    except (UpError, KitError) as error:
        print(f"minikafka up: {error}", file=sys.stderr)
        return error.code if isinstance(error, UpError) else 1
    return 0


async def _run(plan: Plan, folder: Folder, options: Sequence[str]) -> None:
    cluster = Cluster(plan, folder, options)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, cluster.tell_to_stop)
    await cluster.run()
