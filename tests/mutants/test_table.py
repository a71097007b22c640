"""The table of mutants matches the sources: code that moves takes its mutants along."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.mutant import Mutant
from tests.mutants.table import MUTANTS
from tests.tree import ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.title)
def test_mutant_matches_its_source(mutant: Mutant) -> None:
    mutated = mutant.mutated((ROOT / mutant.file).read_text())
    compile(mutated, mutant.file, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.title)
def test_mutant_names_existing_tests(mutant: Mutant) -> None:
    assert mutant.units
    assert [path for path in mutant.units.split() if not Path(ROOT / path.partition("::")[0]).exists()] == []


def test_table_is_complete() -> None:
    assert len(MUTANTS) >= 60
    assert len({each.number for each in MUTANTS}) == len({each.name for each in MUTANTS}) == len(MUTANTS)
    assert all(each.rule.endswith(".") for each in MUTANTS)
