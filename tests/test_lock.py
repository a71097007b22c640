"""requirements.lock: everything pinned and hashed, nothing of pyproject.toml forgotten, no index named."""

import re

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tree import ROOT, pyproject

# A requirement goes on over lines that end with a backslash; those that start with `#` tell where it comes from.
TEXT = "\n".join(
    line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.strip().startswith("#")
)
ENTRIES = [entry for entry in TEXT.replace("\\\n", "").splitlines() if entry.strip()]


def requirement(entry: str) -> Requirement:
    return Requirement(entry.partition(" --hash")[0].strip())


def wanted(*extras: str) -> list[Requirement]:
    """What pyproject.toml asks for, with the extras that extras refer to."""
    project = pyproject()["project"]
    found = [Requirement(line) for line in project["dependencies"]]
    for extra in extras:
        for each in map(Requirement, project["optional-dependencies"][extra]):
            found += wanted(*each.extras) if each.name == "minikafka" else [each]
    return found


def test_every_entry_is_pinned_and_hashed() -> None:
    for entry in ENTRIES:
        (version,) = requirement(entry).specifier
        assert version.operator == "==", entry
        assert re.findall(r"--hash=(\w+):[0-9a-f]{64}(?= |$)", entry), entry


def test_nothing_but_entries() -> None:
    assert all(re.match(r"[a-z0-9]", entry) for entry in ENTRIES), "an option, or an address, is in the lock file"


def test_holds_what_pyproject_asks_for() -> None:
    locked: dict[str, list[str]] = {}
    for each in map(requirement, ENTRIES):
        (version,) = each.specifier
        locked.setdefault(canonicalize_name(each.name), []).append(version.version)
    for each in wanted("all", "dev"):
        versions = locked.get(canonicalize_name(each.name), [])
        assert versions and all(map(each.specifier.contains, versions)), f"{each} is not locked: make lock"


def test_what_builds_packages_is_locked() -> None:
    """The set-up installs without build isolation, so that no build fetches what it likes."""
    names = {requirement(entry).name for entry in ENTRIES}
    assert {"editables", "hatchling", "setuptools"} <= names
    assert [Requirement(line).name for line in pyproject()["build-system"]["requires"]] == ["hatchling"]
