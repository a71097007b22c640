"""Requests with many entries: each entry is looked at once, and the loop gets on with its other work in between.

In a request that only reads, an entry that is there again costs nothing and is answered once, where Kafka answers it as
often as it was sent: 4 kB that name one group a thousand times would be an answer of 20 MB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")
_A = TypeVar("_A")

AT_ONCE_MAX: Final = 100
"""Entries in one turn of the loop: a millisecond or less, with some microseconds for each."""

Names = list[tuple[str, list[int]]]


def in_slices(
    entries: Collection[_T], look: Callable[[_T], _R], finish: Callable[[list[_R]], _A], at_once: int = AT_ONCE_MAX
) -> _A | Awaitable[_A]:
    """What comes of looking at every entry: at once if they are few, else some in every turn of the loop."""
    if len(entries) <= at_once:
        return finish([look(entry) for entry in entries])
    return _later(entries, look, finish, at_once)


async def _later(
    entries: Collection[_T], look: Callable[[_T], _R], finish: Callable[[list[_R]], _A], at_once: int
) -> _A:
    results: list[_R] = []
    for number, entry in enumerate(entries):
        if number % at_once == 0:
            await asyncio.sleep(0)
        results.append(look(entry))
    return finish(results)


def by_topic(names: Iterable[tuple[str, int]]) -> Names:
    """Partitions, each once, under their topics, each once, in the order in which they come first."""
    topics: dict[str, dict[int, None]] = {}
    for topic, index in names:
        topics.setdefault(topic, {})[index] = None
    return [(topic, list(indexes)) for topic, indexes in topics.items()]
