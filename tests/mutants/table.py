"""All mutants, by number. A number is never used for another rule."""

from __future__ import annotations

from typing import Final

from tests.mutants import consumer, control_plane, coordinators, log, network, producer, replication, storage
from tests.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = tuple(
    sorted(
        (
            *replication.MUTANTS,
            *consumer.MUTANTS,
            *control_plane.MUTANTS,
            *log.MUTANTS,
            *coordinators.MUTANTS,
            *network.MUTANTS,
            *producer.MUTANTS,
            *storage.MUTANTS,
        )
    )
)
