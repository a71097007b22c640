"""Starting, watching and stopping processes; stand-ins are in the place of brokers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.up.cluster import Cluster
from minikafka.broker.up.folder import Folder
from minikafka.broker.up.plan import UpError, make_plan
from tests.broker.eventually import eventually
from tests.tree import ROOT

STAND_IN = Path(__file__).with_name("stand_in.py")


def command(path: Path) -> list[str]:
    return [sys.executable, str(STAND_IN), str(path)]


def make(folder: Folder, *sets: str) -> Cluster:
    plan = make_plan(2, 0, 1, "nowhere:2181", sets, random.Random())
    return Cluster(plan, folder, command=command)


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@asynccontextmanager
async def running(tmp_path: Path, *sets: str) -> AsyncIterator[tuple[Cluster, dict[str, Any]]]:
    """A cluster that is ready, and its cluster.json."""
    folder = Folder(tmp_path)
    with folder.held(0, fresh=False):
        cluster = make(folder, *sets)
        task = asyncio.create_task(cluster.run())
        try:
            await eventually(lambda: folder.cluster.exists() or task.done())
            yield cluster, json.loads(folder.cluster.read_text())
        finally:
            cluster.tell_to_stop()
            await task


async def test_everything_is_there_when_it_is_ready(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with running(tmp_path) as (_, told):
        assert [each["id"] for each in told["brokers"]] == [1, 2]
        assert all(is_alive(each["pid"]) for each in told["brokers"])
        assert {*told["brokers"][0]} == {"id", "pid", "host", "port", "http_port"}
        assert told["zookeeper"] == []
        assert (tmp_path / "broker-2.properties").exists()
    assert not any(is_alive(each["pid"]) for each in told["brokers"])
    assert not (tmp_path / "cluster.json").exists()
    out, err = capfd.readouterr()
    for each in told["brokers"]:
        assert f"127.0.0.1:{each['port']}" in out
        assert f"http://127.0.0.1:{each['http_port']}/metrics" in out
    assert "broker-1 | starting" in err.splitlines()
    assert "broker-2 | stopped" in err.splitlines()


async def test_brokers_do_not_take_settings_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_LISTENERS", "PLAINTEXT://:1")
    async with running(tmp_path):
        pass
    assert "broker-1 | starting\n" in capfd.readouterr().err


async def test_a_broker_that_dies_is_reported_and_the_others_run_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path) as (_, told):
        first, second = (each["pid"] for each in told["brokers"])
        os.kill(first, signal.SIGKILL)
        heard = ""

        def is_reported() -> bool:
            nonlocal heard
            heard += capfd.readouterr().err
            return "start it again" in heard

        await eventually(is_reported)
        assert f"broker-1 (pid {first}) was ended by SIGKILL; the others run on" in heard
        assert f"minikafka broker --config {tmp_path / 'broker-1.properties'}" in heard
        assert is_alive(second)
        assert (tmp_path / "cluster.json").exists()


@pytest.mark.parametrize(
    ("fate", "complaint", "code"),
    [("2", "broker-2: there is no such thing", 2), ("3", "broker-2: was ended by SIGKILL before it was ready", 1)],
)
async def test_a_broker_that_does_not_come_up(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], fate: str, complaint: str, code: int
) -> None:
    with pytest.raises(UpError, match=f"^{complaint}$") as raised, Folder(tmp_path).held(0, fresh=False):
        await make(Folder(tmp_path), f"num.partitions={fate}", "broker.rack=2").run()
    assert raised.value.code == code
    assert not (tmp_path / "cluster.json").exists()
    err = capfd.readouterr().err
    assert "broker-1 | stopped" in err.splitlines()
    assert fate != "3" or "broker-2 | about to die" in err.splitlines()


async def test_told_to_stop_while_it_starts_and_then_at_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = Folder(tmp_path)
    cluster = make(folder, "num.partitions=4")
    with folder.held(0, fresh=False):
        task = asyncio.create_task(cluster.run())
        await eventually(folder.log_dir(1).exists)
        await eventually(folder.log_dir(2).exists)
        cluster.tell_to_stop()
        # They do not listen to it.
        await asyncio.wait([task], timeout=0.2)
        assert not task.done()
        cluster.tell_to_stop()
        await task
    err = capfd.readouterr().err
    assert "stopped before it was ready" in err
    assert "killing what is left" in err


async def test_a_log_without_end_is_cut_into_lines(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = Folder(tmp_path)
    plan = make_plan(1, 0, 1, "nowhere:2181", [], random.Random())
    script = "import sys; sys.stdout.write('x' * 300_000 + '\\n\\xff\\nlast')"
    with pytest.raises(UpError, match="ended with code 0 before"), folder.held(0, fresh=False):
        await Cluster(plan, folder, command=lambda _: [sys.executable, "-X", "utf8=0", "-c", script]).run()
    lines = capfd.readouterr().err.splitlines()
    assert sum(line.count("x") for line in lines) >= 300_000
    assert lines[-1] == "broker-1 | last"


async def test_brokers_end_with_whoever_started_them(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tests.broker.up.test_cluster import Folder, make\n"
        "folder = Folder(Path(sys.argv[1]))\n"
        "async def run(): await make(folder).run()\n"
        "with folder.held(0, fresh=False): asyncio.run(run())\n"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(tmp_path), cwd=ROOT)
    try:
        await eventually((tmp_path / "cluster.json").exists)
        told = json.loads((tmp_path / "cluster.json").read_text())
    finally:
        parent.kill()
        await parent.wait()
    await eventually(lambda: not any(is_alive(each["pid"]) for each in told["brokers"]))
    assert (tmp_path / "broker-2" / "left-alone").exists()
