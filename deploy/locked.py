"""The part of requirements.lock that some packages need, with its versions and hashes, for pip to install.

    python deploy/locked.py 'minikafka[broker]'     what the project itself needs, with an extra
    python deploy/locked.py hatchling               a package and what it needs in turn

pip takes all of a lock file or nothing. What needs what stands in its comments: `# via hatchling`.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PINNED = re.compile(r"^([a-z0-9][a-z0-9-]*)==")


class Pinned(NamedTuple):
    """One package of the lock file."""

    name: str
    text: str
    wanted_by: frozenset[str]


def parse(lock: str) -> Iterator[Pinned]:
    """All packages. Each begins with its name at the margin; options and comments are indented."""
    for text in re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE):
        if found := _PINNED.match(text):
            notes = [line.strip(" #") for line in text.splitlines() if line.startswith("    #")]
            wanted_by = frozenset(note.removeprefix("via").strip() for note in notes)
            yield Pinned(found[1], "".join(line for line in text.splitlines(True) if "    #" not in line), wanted_by)


def needed(lock: str, names: Iterable[str]) -> list[Pinned]:
    """These packages, what they need, and what that needs; LookupError if one is not in the lock."""
    # One name may be there twice, for older and for newer versions of Python.
    pinned = list(parse(lock))
    found = set(names)
    if missing := found - {each.name for each in pinned}:
        raise LookupError(f"not in requirements.lock: {', '.join(sorted(missing))}")
    while more := {each.name for each in pinned if each.wanted_by & found} - found:
        found |= more
    return [each for each in pinned if each.name in found]


def direct(project: str, wanted: Iterable[str]) -> Iterator[str]:
    """The packages that are meant, where the project's name with an extra stands for what it needs."""
    table = tomllib.loads(project)["project"]
    for each in wanted:
        name, _, extra = each.rstrip("]").partition("[")
        requirements = [each]
        if name == table["name"]:
            requirements = [*table["dependencies"], *(table["optional-dependencies"][extra] if extra else ())]
        for requirement in requirements:
            found = _NAME.match(requirement)
            assert found is not None
            yield re.sub("[._-]+", "-", found[0]).lower()


def main(wanted: list[str]) -> None:
    for each in needed(Path("requirements.lock").read_text(), direct(Path("pyproject.toml").read_text(), wanted)):
        print(each.text, end="")


if __name__ == "__main__":
    main(sys.argv[1:])
