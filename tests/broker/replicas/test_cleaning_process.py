"""The process that compacts: what passes between it and the broker, and that it ends with the broker."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from minikafka.broker.replicas.cleaning_wire import (
    LENGTH,
    decode,
    encode,
    group_message,
    plan_message,
    read_group,
    read_plan,
)
from minikafka.storage.batch_filter import LastBatch
from minikafka.storage.cleaning import CleanedGroup, CompactionPlan, SegmentSpan
from minikafka.storage.config import LogConfig
from minikafka.storage.formats import AbortedTxn
from tests.broker.replicas.dirs import until
from tests.tree import ROOT

PLAN = CompactionPlan(
    directory="/data/orders-0",
    config=LogConfig(segment_bytes=1, segment_index_bytes=2, index_interval_bytes=3, delete_retention_ms=4),
    generation=5,
    segments=(SegmentSpan(0, 10, 100), SegmentSpan(10, 2**62, 2**40)),
    first_dirty_offset=6,
    end_offset=2**62,
    aborted=(AbortedTxn(1, 2, 3, 4), AbortedTxn(2**62, 6, 7, 8)),
    last_batches={7: LastBatch(8, 9), 2**62: LastBatch(-1, 0)},
    now_ms=1_750_000_000_000,
    keys_max=12,
)

BROKER = """
import asyncio, sys
from minikafka.broker.replicas.cleaning_process import ChildRunner
from tests.storage.compacting import COMPACTED, plan_of, put
from tests.storage.logs import open_log
from minikafka.storage.disk import RealDisk

async def main():
    log = open_log(RealDisk(), sys.argv[1], COMPACTED)
    for number in range(60):
        put(log, (b"k", b"%d" % number))
    runner = ChildRunner()
    async for group in runner.clean(plan_of(log)):
        print(runner.pid, flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


def test_a_plan_arrives_as_it_was_sent() -> None:
    data = encode(plan_message(PLAN))
    assert LENGTH.unpack_from(data)[0] == len(data) - LENGTH.size
    assert read_plan(decode(data[LENGTH.size :])) == PLAN


def test_a_group_arrives_as_it_was_sent() -> None:
    group = CleanedGroup((SegmentSpan(0, 10, 100), SegmentSpan(10, 20, 0)), SegmentSpan(0, 20, 50), 20)
    assert read_group(decode(encode(group_message(group))[LENGTH.size :])) == group


def is_running(pid: int) -> bool:
    """A process that nobody has waited for yet has ended all the same."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


async def test_it_ends_with_the_broker_even_in_the_middle_of_something(tmp_path: Path) -> None:
    broker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", BROKER, str(tmp_path / "t-0")),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    child = None
    try:
        assert broker.stdout is not None
        child = int(await broker.stdout.readline())
        # It does not even look at the pipe now.
        os.kill(child, signal.SIGSTOP)
        assert is_running(child)
        broker.kill()
        await until(lambda: not is_running(child))
    finally:
        with suppress(ProcessLookupError):
            broker.kill()
        await broker.wait()
        if child is not None and is_running(child):
            os.kill(child, signal.SIGKILL)


async def test_it_imports_no_more_than_it_needs() -> None:
    code = "import sys, minikafka.broker.replicas.cleaning_child; print(*sys.modules)"
    made = await asyncio.to_thread(subprocess.run, [sys.executable, "-P", "-c", code], capture_output=True, check=True)
    modules = made.stdout.decode().split()
    assert "minikafka.storage.cleaning" in modules
    assert not {"asyncio", "kazoo", "uvloop", "minikafka.broker.node", "minikafka.storage.log"} & {*modules}
