"""Run seeds:  python -m tests.sim.run --seeds 0:100 [--profile full|replication] [--workers 2] [--stop-at-first]

Finished seeds are kept in a file, by commit and profile; a run that is repeated skips them. Each failing seed is one
line with the command that replays it. Seeds from 1,000,000 on are reserved: they judge the product and are not for its
development.

    python -m tests.sim.run --minimize 303

shrinks a failing seed to the few faults that it needs and prints them as a test.
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

from tests.sim.campaign.minimize import kind_of, minimize, schedule_of
from tests.sim.campaign.plan import Plan, plan_of
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


def shrink(seed: int, profile: str) -> int:
    """Print the schedule to which a seed can be shrunk."""
    plan = plan_of(seed, profile)
    violations = play(plan).violations
    if not violations:
        print(f"seed {seed} of profile {profile} has no violation")
        return 1
    kind = kind_of(violations[0])

    def fails(candidate: Plan) -> bool:
        is_failing = kind in map(kind_of, play(candidate).violations)
        print(f"{len(candidate.faults)} faults: {kind if is_failing else 'passes'}", file=sys.stderr, flush=True)
        return is_failing

    smallest = minimize(plan, fails)
    print(f"# {violations[0][:_SHOWN_CHARACTERS]}")
    print(schedule_of(smallest, violations[0]))
    return 0


def failure_line(result: Result, profile: str) -> str:
    command = f"python -m tests.sim.run --seeds {result.seed}:{result.seed + 1} --profile {profile} --again"
    return f"seed {result.seed} FAILED: {result.violations[0][:_SHOWN_CHARACTERS]!r} replay: {command}"


def report(finished: list[Result], commit: str, profile: str) -> str:
    counts: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for result in finished:
        counts.update(result.counts)
        faults.update(result.faults)
        reasons.update(result.permitted.keys())
        kinds.update({kind_of(violation) for violation in result.violations})
    counted, seeds = sum(result.counted for result in finished), max(1, len(finished))
    bad = sum(bool(result.violations) for result in finished)
    cpu_seconds = sum(result.cpu_seconds for result in finished) or 1.0
    permitted = sum(bool(result.permitted) for result in finished)
    lines = [
        f"commit {commit}, profile {profile}: {len(finished)} seeds, {counted} count, {bad} with violations",
        f"permitted losses in {100 * permitted / seeds:.1f} % of the seeds: {_shown(reasons)}",
        f"seeds by kind of violation: {_shown(kinds)}",
        f"{len(finished) / cpu_seconds:.2f} seeds per CPU second",
        f"happened: {_shown(counts)}",
        f"injected: {_shown(faults)}",
    ]
    return "\n".join(lines)


def _shown(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "-"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.run")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seeds", metavar="FIRST:END")
    what.add_argument("--minimize", type=int, metavar="SEED")
    parser.add_argument("--profile", choices=PROFILES, default="full")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--stop-at-first", action="store_true")
    parser.add_argument("--again", action="store_true", help="run finished seeds again")
    parser.add_argument("--reserved", action="store_true")
    parser.add_argument("--results", type=Path, default=Path("sim-results.jsonl"))
    given = parser.parse_args(arguments)
    if given.minimize is not None:
        return shrink(given.minimize, given.profile)
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
