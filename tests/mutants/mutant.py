"""One mutant: a rule of the product, and the edit that removes it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Mismatch(Exception):
    """The text of a mutant is not in its source exactly once: the code has moved, and the table has to follow."""


class Mutant(NamedTuple):
    """A row of the table. `old` has to be in `file` exactly once, and `new` replaces it."""

    number: int
    name: str
    file: str
    old: str
    new: str
    rule: str
    """The rule that is removed, in one sentence."""
    units: str
    """Tests of the area as pytest takes them, chosen narrowly: one mutant takes seconds."""
    simulated: bool = True
    """Whether random seeds of the campaign get to the rule at all; `unseen` says why not."""
    redundant: str = ""
    """Of a second fence behind another rule, the reason why nothing notices that it is gone."""
    unseen: str = ""
    """Of a rule that random seeds do not reach within 300, the reason."""

    @property
    def title(self) -> str:
        return f"{self.number:02}-{self.name}"

    def mutated(self, source: str) -> str:
        found = source.count(self.old)
        if found != 1:
            raise Mismatch(f"{self.title}: its text is in {self.file} {found} times, not once")
        return source.replace(self.old, self.new)

    def apply(self, root: Path) -> None:
        path = root / self.file
        path.write_text(self.mutated(path.read_text()))
