"""A rolling upgrade from an earlier version, and back: brokers of both lead and follow each other meanwhile."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.chaos.faults import Place, restart_one
from tests.chaos.waiting import pause
from tests.conftest import EARLIER_VERSION
from tests.tree import ROOT

_VARIABLE = "PYTHONPATH"
_MIXED_SECONDS = 1.0


def unpack_earlier(folder: Path) -> Path:
    """The earlier version's files; they are there once per cluster."""
    target = folder / EARLIER_VERSION
    if not target.exists():
        target.mkdir()
        archive = subprocess.run(["git", "archive", EARLIER_VERSION], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", str(target)], input=archive.stdout, check=True)
    return target


def roll(place: Place) -> None:
    """All brokers one by one, to the earlier version if they are of this one, else to this one."""
    source = unpack_earlier(place.cluster.folder) / "src"
    is_back = _VARIABLE not in place.cluster.brokers[0].environment
    for broker in place.cluster.brokers:
        if is_back:
            broker.environment[_VARIABLE] = str(source)
        else:
            del broker.environment[_VARIABLE]
        restart_one(place, broker, f"{'down' if is_back else 'up'}grade of {broker.name}")
        pause(_MIXED_SECONDS)
