"""All mutants, by number. A number is never used for another rule."""

from __future__ import annotations

from typing import Final

from tests.mutants import control_plane, coordinators, log, network, producer, replication
from tests.mutants.mutant import Mutant

_AREAS: Final = (
    replication,
    control_plane,
    log,
    coordinators,
    network,
    producer,
)

MUTANTS: Final[tuple[Mutant, ...]] = tuple(sorted(mutant for area in _AREAS for mutant in area.MUTANTS))
