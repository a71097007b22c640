"""Run seeds:  python -m tests.sim.run --seeds 0:100 [--profile full|replication] [--workers 2] [--stop-at-first]

Finished seeds are kept in a file, by commit and profile; a run that is repeated skips them. Each failing seed is one
line with the command that replays it. Seeds from 1,000,000 on are reserved: they judge the product and are not for its
development.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tests.sim.campaign.plan import plan_of
from tests.sim.campaign.play import Result, play

RESERVED_FROM = 1_000_000
PROFILES = ("full", "replication")
_SHOWN_CHARACTERS = 300


def run_seed(seed: int, profile: str) -> Result:
    return play(plan_of(seed, profile))


def parse_seeds(text: str, *, reserved: bool) -> range:
    first, _, end = text.partition(":")
    seeds = range(int(first), int(end))
    if seeds and seeds[-1] >= RESERVED_FROM and not reserved:
        raise ValueError(f"seeds from {RESERVED_FROM} on are reserved; --reserved runs them all the same")
    return seeds


class Ledger:
    """The file of finished seeds."""

    def __init__(self, path: Path, commit: str, profile: str) -> None:
        self._path, self._commit, self._profile = path, commit, profile

    def load(self) -> dict[int, Result]:
        found = {}
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                given = json.loads(line)
                if (given.pop("commit"), given.pop("profile")) == (self._commit, self._profile):
                    found[given["seed"]] = Result(**given)
        return found

    def add(self, result: Result) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps({**result._asdict(), "commit": self._commit, "profile": self._profile}) + "\n")


def commit_of_tree() -> str:
    """The commit, with a mark if files were changed since."""
    told = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"


def results(seeds: Iterable[int], profile: str, workers: int) -> Iterator[Result]:
    if workers == 1:
        yield from (run_seed(seed, profile) for seed in seeds)
        return
    with ProcessPoolExecutor(workers, max_tasks_per_child=50) as pool:
        waiting = [pool.submit(run_seed, seed, profile) for seed in seeds]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def failure_line(result: Result, profile: str) -> str:
    command = f"python -m tests.sim.run --seeds {result.seed}:{result.seed + 1} --profile {profile} --again"
    return f"seed {result.seed} FAILED: {result.violations[0][:_SHOWN_CHARACTERS]!r} replay: {command}"


def report(found: list[Result], commit: str, profile: str) -> str:
    counts: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for each in found:
        counts.update(each.counts)
        faults.update(each.faults)
    counted = [each for each in found if each.counted]
    bad = [each for each in found if each.violations]
    cpu_seconds = sum(each.cpu_seconds for each in found) or 1.0
    permitted = sum(bool(each.permitted) for each in found)
    lines = [
        f"commit {commit}, profile {profile}: {len(found)} seeds, {len(counted)} count, {len(bad)} with violations",
        f"permitted losses in {100 * permitted / max(1, len(found)):.1f} % of the seeds",
        f"{len(found) / cpu_seconds:.2f} seeds per CPU second",
        "happened: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())),
        "injected: " + ", ".join(f"{name} {count}" for name, count in sorted(faults.items())),
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.run")
    parser.add_argument("--seeds", required=True, metavar="FIRST:END")
    parser.add_argument("--profile", choices=PROFILES, default="full")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--stop-at-first", action="store_true")
    parser.add_argument("--again", action="store_true", help="run finished seeds again")
    parser.add_argument("--reserved", action="store_true")
    parser.add_argument("--results", type=Path, default=Path("sim-results.jsonl"))
    given = parser.parse_args(arguments)
    try:
        seeds = parse_seeds(given.seeds, reserved=given.reserved)
    except ValueError as error:
        parser.error(str(error))
    commit = commit_of_tree()
    ledger = Ledger(given.results, commit, given.profile)
    # What was run on changed files says nothing of the next change.
    known = {} if given.again or commit.endswith("-dirty") else ledger.load()
    found = [known[seed] for seed in seeds if seed in known]
    for result in results([seed for seed in seeds if seed not in known], given.profile, given.workers):
        ledger.add(result)
        found.append(result)
        if result.violations:
            print(failure_line(result, given.profile), flush=True)
            if given.again:
                print("\n".join(result.violations))
            if given.stop_at_first:
                break
    print(report(found, commit, given.profile))
    return 1 if any(each.violations for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
