"""Chance, as the broker sees it: a seam, so that a simulator can repeat a run by its seed.

Everything that is drawn or generated (placement of replicas, ids of topics, of members, of the cluster and of fetch
sessions) comes from here. The generator of the operating system is the real one: ids must not collide between brokers
that were started from the same image.
"""

from __future__ import annotations

import random
from typing import TypeAlias
from uuid import UUID

Rng: TypeAlias = random.Random


def system_rng() -> Rng:
    return random.SystemRandom()


def new_uuid(rng: Rng) -> UUID:
    """A random UUID, of version 4."""
    return UUID(bytes=rng.randbytes(16), version=4)
