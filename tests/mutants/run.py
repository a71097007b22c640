"""`make mutants`: removes one rule after the other in a copy of the tree, and prints which test notices it.

    python -m tests.mutants.run [--only NAME] [--stages unit,schedules,seeds] [--seeds FIRST:END] [--every]
                                [--tree KEY] [--results FILE]

A mutant is done with the first stage that kills it, or with `--every` after all of them. A stage ends with its first
failing test; the schedules nearest to the mutant come first. That test is run again without the mutant: one that fails
there, too, is no kill, and the run fails. What is done is kept in a file by mutant, stage and tree, so a run that was
interrupted goes on where it stopped. Exit code 1: a mutant does not match its source, survives all stages without being
redundant, or could not be judged.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.mutants.mutant import Mutant
from tests.mutants.report import SURVIVED, Key, Results, table
from tests.mutants.table import MUTANTS
from tests.mutants.tree_key import tree_key
from tests.tree import ROOT, files

SEEDS: Final = "seeds"
STAGES: Final = ("unit", "schedules", SEEDS)
STAGE_SECONDS_MAX: Final = 1800
_NICENESS: Final = 10
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.MULTILINE)
_BAD_SEED: Final = re.compile(r"^seed (\d+) FAILED: ", re.MULTILINE)

_NEAR: Final = {
    "broker/contact": ("deposed", "leases"),
    "broker/controller": ("eligible", "in_sync", "leaders", "reassignments", "registration"),
    "broker/coordinators/groups": ("topic_ids", "leases", "transactions"),
    "broker/coordinators/transactions": ("transactions", "transaction_versions"),
    "broker/features": ("transaction_versions",),
    "broker/coordinators": ("leases", "transactions"),
    "broker/handlers/control": ("control", "registration", "sessions"),
    "broker/handlers/fetch": ("readers", "deposed"),
    "broker/handlers/transactions": ("transactions",),
    "broker/replicas": ("in_sync", "truncation", "producers", "readers", "unsettled"),
    "broker/replication": ("truncation", "restarts", "in_sync"),
    "broker/zookeeper": ("registration", "sessions", "control"),
    "storage/producers": ("transactions", "producers", "clocks"),
    "storage/retention": ("clocks",),
    "storage": ("restarts", "truncation", "log_dirs"),
}
"""By where a mutant is, the schedules that are run first; the first row that fits counts."""


class Broken(Exception):
    """A stage said nothing about the mutant."""


class Options(NamedTuple):
    only: str | None
    stages: tuple[str, ...]
    seeds: str
    kept: Path
    results: Path | None
    every: bool
    """Whether a mutant goes through all stages, also after one has killed it."""
    tree: str
    """The tree that results are kept for."""


class Tree:
    """A copy of the project, in which one rule at a time is missing."""

    def __init__(self, root: Path, seeds: str) -> None:
        self.root = root
        path = os.pathsep.join((str(root / "src"), str(root)))
        self._environment = {**os.environ, "PYTHONPATH": path}
        self._seeds = seeds
        for name in files():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)

    def killer(self, mutant: Mutant, stage: str) -> str:
        """The first test or seed that notices that the rule is missing; SURVIVED if none does."""
        is_seeded = stage == SEEDS
        path = self.root / mutant.file
        original = path.read_text()
        try:
            mutant.apply(self.root)
            self._forget_compiled(path)
            found = self._first_bad_seed(self._seeds) if is_seeded else self._first_failure(_tests_of(mutant, stage))
        finally:
            path.write_text(original)
            self._forget_compiled(path)
        if found is None:
            return SURVIVED
        if (self._first_bad_seed(found) if is_seeded else self._first_failure([found])) is not None:
            raise Broken(f"{found} fails without the mutant, too")
        return found

    @staticmethod
    def _forget_compiled(path: Path) -> None:
        """Python compares time stamps in whole seconds, which is too coarse for a quick edit and its reversal."""
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()

    def _first_failure(self, tests: Sequence[str]) -> str | None:
        found = self._run("pytest", _FAILED, "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests)
        return None if found is None else found.group(1)

    def _first_bad_seed(self, seeds: str) -> str | None:
        """As `FIRST:END`, so that it can be run again."""
        arguments = ("--workers", "1", "--stop-at-first", "--again", "--results", os.devnull)
        found = self._run("tests.sim.run", _BAD_SEED, "--seeds", seeds, *arguments)
        return None if found is None else f"{found.group(1)}:{int(found.group(1)) + 1}"

    def _run(self, module: str, failure: re.Pattern[str], *arguments: str) -> re.Match[str] | None:
        """The failure that a program reports."""
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=self.root,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=STAGE_SECONDS_MAX,
        )
        if done.returncode == 0:
            return None
        found = failure.search(done.stdout)
        if done.returncode != 1 or found is None:
            raise Broken(f"{module} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
        return found


def _tests_of(mutant: Mutant, stage: str) -> Sequence[str]:
    if stage == "unit":
        return mutant.units.split()
    near = [f"tests/schedules/test_{name}.py" for name in _nearest(mutant.file)]
    others = sorted(str(each.relative_to(ROOT)) for each in (ROOT / "tests/schedules").glob("test_*.py"))
    files_of_stage = [each for each in dict.fromkeys((*near, *others)) if not each.endswith("test_by_lot.py")]
    return (*files_of_stage, "-k", "not test_rule_is_needed")


def _nearest(file: str) -> Sequence[str]:
    """Schedules that are about what is in a file."""
    return next((names for folder, names in _NEAR.items() if file.startswith(folder)), ())


def run(options: Options) -> int:
    chosen = [each for each in MUTANTS if options.only is None or options.only in each.title]
    for mutant in chosen:
        # Before anything takes long: the table has to match.
        mutant.mutated((ROOT / mutant.file).read_text())
    results, problems = _load(options.kept), 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Tree(Path(folder), options.seeds)
        for mutant in chosen:
            problems += _judge(mutant, copy, options, results)
    if options.results is not None:
        options.results.write_text(table(MUTANTS, STAGES, results))
    print(f"{len(chosen)} mutants, {problems} of them not killed or not judged", flush=True)
    return 1 if problems else 0


def _judge(mutant: Mutant, copy: Tree, options: Options, results: Results) -> bool:
    """Whether nothing has killed a mutant that something has to kill."""
    killed = False
    for stage in options.stages:
        if stage == SEEDS and not mutant.simulated:
            continue
        if killed and not options.every:
            break
        key = Key(mutant.title, stage if stage != SEEDS else f"seeds {options.seeds}", options.tree)
        if key not in results:
            try:
                results[key] = copy.killer(mutant, stage)
            except (Broken, subprocess.TimeoutExpired) as error:
                print(f"{mutant.title:44} {stage:10} NOT JUDGED: {error}", flush=True)
                return True
            _keep(options.kept, key, results[key])
        killed |= results[key] != SURVIVED
        print(f"{mutant.title:44} {stage:10} {results[key]}", flush=True)
    return not killed and not mutant.redundant


def _load(kept: Path) -> Results:
    if not kept.exists():
        return {}
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    return {Key(*row[:3]): row[3] for row in rows}


def _keep(kept: Path, key: Key, killer: str) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.open("a") as file:
        file.write(json.dumps([*key, killer]) + "\n")


def _options() -> Options:
    parser = argparse.ArgumentParser(description="Remove one rule after the other, and see which test notices.")
    parser.add_argument("--only", help="mutants with this in their number and name")
    parser.add_argument("--stages", default="unit,schedules", help=f"of {','.join(STAGES)}")
    parser.add_argument("--seeds", default="0:300", help="for the stage seeds, FIRST:END")
    parser.add_argument("--kept", type=Path, default=ROOT / ".mutants" / "results.jsonl", help="what is done already")
    parser.add_argument("--results", type=Path, help="write the table there")
    parser.add_argument("--every", action="store_true", help="run all stages, also of mutants that one has killed")
    parser.add_argument("--tree", help="what results are kept for, and which are taken as done; this tree by default")
    said = parser.parse_args()
    stages = tuple(said.stages.split(","))
    if not set(stages) <= set(STAGES):
        parser.error(f"stages are {', '.join(STAGES)}")
    return Options(said.only, stages, said.seeds, said.kept, said.results, said.every, said.tree or tree_key())


if __name__ == "__main__":
    # Once, whatever it was started with: niceness adds up.
    os.nice(max(0, _NICENESS - os.nice(0)))
    sys.exit(run(_options()))
