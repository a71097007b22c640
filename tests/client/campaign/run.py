"""Play seeds:  python -m tests.client.campaign.run --seeds 0:100 [--workload copying] [--client aiokafka] [--at-once 3]

Seeds that were played are kept in a file, by commit, client and workload; a run that is repeated skips them. Each
failing seed is one line with the command that plays it again, and its history is kept. A table sums up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from minikafka.client import Admin
from tests.chaos.history import save
from tests.client.campaign.clients import NAMES
from tests.client.campaign.cluster import CampaignCluster
from tests.client.campaign.copying import Copying
from tests.client.campaign.grouping import Grouping
from tests.client.campaign.play import Hang, Play, Result
from tests.client.campaign.producing import Producing
from tests.client.campaign.recreating import Recreating
from tests.client.campaign.transacting import Transacting
from tests.sim.run import commit_of_tree

WORKLOADS: dict[str, Callable[[Play], Awaitable[None]]] = {
    "producing": lambda play: Producing(play).run(),
    "grouping": lambda play: Grouping(play).run(),
    "transacting": lambda play: Transacting(play).run(),
    "copying": lambda play: Copying(play).run(),
    "recreating": lambda play: Recreating(play).run(),
}
SEED_SECONDS = 90.0
"""A seed that is not over by then is a hang, wherever it is."""
_SHOWN_CHARACTERS, _KIND_CHARACTERS = 300, 40


async def play_seed(
    workload: str, seed: int, client: str, cluster: CampaignCluster, admin: Admin, folder: Path
) -> Result:
    """One seed from its topics to its verdict. A defect of the harness is a violation, too."""
    play = Play(workload, seed, client, cluster, admin)
    began = time.monotonic()
    try:
        async with asyncio.timeout(SEED_SECONDS):
            await WORKLOADS[workload](play)
    except Hang:
        pass
    except Exception as error:
        play.violations.append(f"{error!r} at {traceback.format_exc().splitlines()[-2].strip()}")
        (folder / f"{play.name('error')}.txt").write_text(traceback.format_exc())
    seconds = time.monotonic() - began
    faults = await play.end_faults()
    if play.violations:
        keep(play, folder / f"{client}-{workload}-{seed}")
    await play.clean()
    return Result(workload, client, seed, seconds, play.acked, play.read, play.counts, faults, play.violations)


def keep(play: Play, folder: Path) -> None:
    """What a violation is traced with: the history, and a replica of each partition."""
    folder.mkdir(parents=True, exist_ok=True)
    save(play.history.events, folder / "history.jsonl")
    (folder / "violations.txt").write_text("\n".join(play.violations))
    for partition in play.cluster.brokers[0].log_dir.glob(f"{play.name('')}*"):
        shutil.copytree(partition, folder / partition.name, dirs_exist_ok=True)


class Ledger:
    """The file of seeds that were played."""

    def __init__(self, path: Path, commit: str) -> None:
        self._path, self._commit = path, commit

    def load(self) -> list[Result]:
        if not self._path.exists():
            return []
        lines = [json.loads(line) for line in self._path.read_text().splitlines()]
        return [Result(**fields) for fields in lines if fields.pop("commit") == self._commit]

    def add(self, result: Result) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps({**result._asdict(), "commit": self._commit}) + "\n")


def failure_line(result: Result) -> str:
    where = f"--seeds {result.seed}:{result.seed + 1} --workload {result.workload} --client {result.client}"
    kinds = Counter(violation.split(" in ")[0].split(":")[0][:_KIND_CHARACTERS] for violation in result.violations)
    # That something does not come to its end is often what follows from another violation.
    first = min(result.violations, key=lambda violation: violation.startswith("hang"))[:_SHOWN_CHARACTERS]
    command = f"python -m tests.client.campaign.run {where} --again"
    return f"{result.workload} {result.seed} FAILED {dict(kinds)}: {first!r} replay: {command}"


def table(results: Iterable[Result]) -> str:
    """One line for each workload and client."""
    head = (
        "workload",
        "client",
        "seeds",
        "acked",
        "read",
        "rebalances",
        "leader moves",
        "faults",
        "failing",
        "s a seed",
    )
    lines = [head, ("---",) * len(head)]
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.workload, result.client), []).append(result)
    for (workload, client), some in groups.items():
        faults: dict[str, int] = {}
        for result in some:
            for kind, count in result.faults.items():
                faults[kind] = faults.get(kind, 0) + count
        numbers = [len(some), sum(result.acked for result in some), sum(result.read for result in some)]
        numbers += [sum(result.counts.get(name, 0) for result in some) for name in ("rebalances", "leader moves")]
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(faults.items()))
        failing = sum(bool(result.violations) for result in some)
        mean = sum(result.seconds for result in some) / len(some)
        lines.append((workload, client, *map(str, numbers), kinds, str(failing), f"{mean:.1f}"))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


async def play_all(
    jobs: Iterable[tuple[str, int]],
    client: str,
    cluster: CampaignCluster,
    folder: Path,
    at_once: int,
    add: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Several seeds at a time, which have nothing in common but the brokers. Each is added when it is done."""
    waiting, results = iter(jobs), list[Result]()

    async def work(admin: Admin) -> None:
        for workload, seed in waiting:
            result = await play_seed(workload, seed, client, cluster, admin, folder)
            results.append(result)
            add(result)
            report(result)

    async with Admin(bootstrap_servers=cluster.direct, client_id="campaign") as admin:
        await asyncio.gather(*(work(admin) for _ in range(at_once)))
    return results


def report(result: Result) -> None:
    if result.violations:
        print(failure_line(result), flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.client.campaign.run")
    parser.add_argument("--seeds", default="0:5", help="FIRST:END")
    parser.add_argument("--workload", action="append", choices=WORKLOADS)
    parser.add_argument("--client", action="append", choices=NAMES)
    parser.add_argument("--at-once", type=int, default=2, help="how many seeds share the brokers at a time")
    parser.add_argument("--again", action="store_true", help="play seeds that were played already")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "minikafka-campaign-client")
    parser.add_argument("--verbose", action="store_true", help="one line for each seed, with all its violations")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    # Clients log every record that they fail to deliver here on purpose.
    logging.disable(logging.ERROR)
    first, _, end = options.seeds.partition(":")
    seeds = range(int(first), int(end))
    options.folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(options.folder / "played.jsonl", commit_of_tree())
    workloads, clients = options.workload or [*WORKLOADS], options.client or ["minikafka"]
    wanted = {(workload, client, seed) for workload in workloads for client in clients for seed in seeds}
    played = (
        [] if options.again else [each for each in ledger.load() if (each.workload, each.client, each.seed) in wanted]
    )
    known = {(each.workload, each.client, each.seed) for each in played}
    complaints: list[str] = []
    if wanted - known:
        with CampaignCluster(Path(tempfile.mkdtemp(prefix="minikafka-campaign-cluster-"))) as cluster:
            for client in clients:
                jobs = [(name, seed) for seed in seeds for name in workloads if (name, client, seed) not in known]
                results = asyncio.run(play_all(jobs, client, cluster, options.folder, options.at_once, ledger.add))
                if options.verbose:
                    print(*results, sep="\n")
                played += results
            complaints = cluster.complaints()
    order = [*WORKLOADS]
    print(table(sorted(played, key=lambda each: (order.index(each.workload), NAMES.index(each.client)))))
    print(*complaints, sep="\n")
    return 1 if complaints or any(result.violations for result in played) else 0


if __name__ == "__main__":
    sys.exit(main())
