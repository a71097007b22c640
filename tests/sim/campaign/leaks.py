"""What must be gone when brokers and clients have stopped in good order: their tasks, connections, ports and files."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from tests.sim.cluster import SimCluster
from tests.sim.loop import Process, SimLoop


async def leaks(cluster: SimCluster, clients: Sequence[Process]) -> list[str]:
    """Stop all brokers, one after the other, and see what is left; the clients have stopped before."""
    left = [text for process in clients for text in tasks_left(process)]
    for broker_id, node in cluster.nodes.items():
        process = node.process
        async with asyncio.timeout(60):
            await process.spawn(node.broker.stop(), "stop")
        # What is cancelled by that ends in the next turns of the loop.
        await asyncio.sleep(0.1)
        left += tasks_left(process)
        left += [f"leak: broker {broker_id} leaves {path} open" for path in node.disk.open_paths()]
        left += [f"leak: broker {broker_id} leaves {text}" for text in cluster.network.left_of(node.host)]
    return left


def tasks_left(process: Process) -> list[str]:
    """The tasks that a process has not ended, by what they run."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    counts = Counter(getattr(task.get_coro(), "__qualname__", "") for task in loop.tasks_of(process))
    return [f"leak: {process.name} leaves {count} of {work}" for work, count in sorted(counts.items())]
