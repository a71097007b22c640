"""Which partition a record goes to, if `send` does not say.

By default a record with a key goes where murmur2 of the key says, as with Kafka's own producer, so that all records of
a key are in one partition and in order; records without a key go to one partition until a batch is full, then to
another. An option of the producer replaces that: a callable, or one of these names.

    "murmur2", "murmur2_random", "default"    as above
    "sticky"                                  keys do not matter: always one partition until a batch is full
    "random"                                  every record to a partition by chance

A callable is given the key as bytes, all partitions of the topic, and those that have a leader; it returns one of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from minikafka.client.errors import ConfigError

Partitioner: TypeAlias = Callable[["bytes | None", Sequence[int], Sequence[int]], int]

_BY_KEY: Final = ("default", "murmur2", "murmur2_random")
STICKY: Final = "sticky"


def _by_chance(key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
    return random.choice(available or partitions)


def find_partitioner(given: Partitioner | str | None) -> Partitioner | str | None:
    """None for the default, `STICKY`, or a callable."""
    if given is None or given in _BY_KEY:
        return None
    if given == "random":
        return _by_chance
    if given == STICKY or callable(given):
        return given
    names = ", ".join(map(repr, (*_BY_KEY, STICKY, "random")))
    raise ConfigError(f"{given!r} is no partitioner: it must be a callable or one of {names}")
