"""`make mutants`: removes one rule after the other in a copy of the tree, and prints which test notices it.

    python -m tests.mutants.run [--only NAME] [--stages unit,schedules,seeds] [--seeds FIRST:END] [--results FILE]

A stage ends with its first failing test. That test is run again without the mutant: one that fails there, too, is no
kill, and the run fails. What is done is kept in a file by mutant, stage and tree, so a run that was interrupted goes on
where it stopped. Exit code 1: a mutant does not match its source, survives all stages without being redundant, or
could not be judged.
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

STAGES: Final = ("unit", "schedules", "seeds")
STAGE_SECONDS_MAX: Final = 1800
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.MULTILINE)
_SCHEDULES: Final = ("tests/schedules", "--ignore=tests/schedules/test_by_lot.py", "-k", "not test_rule_is_needed")


class Broken(Exception):
    """A stage said nothing about the mutant."""


class Options(NamedTuple):
    only: str | None
    stages: tuple[str, ...]
    seeds: str
    kept: Path
    results: Path | None


class Tree:
    """A copy of the project, in which one rule at a time is missing."""

    def __init__(self, root: Path, seeds: str) -> None:
        self.root = root
        path = os.pathsep.join((str(root / "src"), str(root)))
        self._environment = {**os.environ, "PYTHONPATH": path, "MINIKAFKA_SEEDS": seeds}
        for name in files():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)

    def killer(self, mutant: Mutant, stage: str) -> str:
        """The first test that notices that the rule is missing; SURVIVED if none does."""
        path = self.root / mutant.file
        original = path.read_text()
        try:
            mutant.apply(self.root)
            self._forget_compiled(path)
            test = self._first_failure(_tests_of(mutant, stage))
        finally:
            path.write_text(original)
            self._forget_compiled(path)
        if test is not None and self._first_failure([test]) is not None:
            raise Broken(f"{test} fails without the mutant, too")
        return SURVIVED if test is None else test

    @staticmethod
    def _forget_compiled(path: Path) -> None:
        """Python compares time stamps in whole seconds, which is too coarse for a quick edit and its reversal."""
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()

    def _first_failure(self, tests: Sequence[str]) -> str | None:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
        done = subprocess.run(
            ["nice", "-n", "10", *command],
            cwd=self.root,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=STAGE_SECONDS_MAX,
        )
        if done.returncode == 0:
            return None
        found = _FAILED.search(done.stdout)
        if done.returncode != 1 or found is None:
            raise Broken(f"pytest ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
        return found.group(1)


def _tests_of(mutant: Mutant, stage: str) -> Sequence[str]:
    if stage == "unit":
        return mutant.units.split()
    return _SCHEDULES if stage == "schedules" else ("tests/schedules/test_by_lot.py", "-k", "acknowledged")


def run(options: Options) -> int:
    chosen = [each for each in MUTANTS if options.only is None or options.only in each.title]
    for mutant in chosen:
        # Before anything takes long: the table has to match.
        mutant.mutated((ROOT / mutant.file).read_text())
    results, tree, problems = _load(options.kept), tree_key(), 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Tree(Path(folder), options.seeds)
        for mutant in chosen:
            problems += _judge(mutant, copy, options, results, tree)
    if options.results is not None:
        options.results.write_text(table(MUTANTS, STAGES, results))
    print(f"{len(chosen)} mutants, {problems} of them not killed or not judged", flush=True)
    return 1 if problems else 0


def _judge(mutant: Mutant, copy: Tree, options: Options, results: Results, tree: str) -> bool:
    """Whether nothing has killed a mutant that something has to kill."""
    killed = False
    for stage in options.stages:
        if stage != "unit" and not mutant.simulated:
            continue
        key = Key(mutant.title, stage if stage != "seeds" else f"seeds {options.seeds}", tree)
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
    said = parser.parse_args()
    stages = tuple(said.stages.split(","))
    if not set(stages) <= set(STAGES):
        parser.error(f"stages are {', '.join(STAGES)}")
    return Options(said.only, stages, said.seeds, said.kept, said.results)


if __name__ == "__main__":
    sys.exit(run(_options()))
