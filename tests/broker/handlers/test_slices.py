"""Requests with many entries: some of them in every turn of the loop, all of them in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from minikafka.broker.handlers.slices import AT_ONCE_MAX, by_topic, in_slices


@pytest.mark.parametrize("count", [AT_ONCE_MAX + 1, 5 * AT_ONCE_MAX, 20 * AT_ONCE_MAX + 1])
async def test_many_entries_are_looked_at_in_many_turns_of_the_loop(count: int) -> None:
    looks: list[int] = []
    sliced = in_slices(range(count), looks.append, len)
    assert isinstance(sliced, Awaitable)
    task, largest, before = asyncio.ensure_future(sliced), 0, 0
    while not task.done():
        await asyncio.sleep(0)
        largest, before = max(largest, len(looks) - before), len(looks)
    assert await task == count
    assert looks == list(range(count))
    assert largest <= AT_ONCE_MAX


def test_few_entries_are_answered_at_once() -> None:
    assert in_slices(range(AT_ONCE_MAX), lambda entry: -entry, sum) == -sum(range(AT_ONCE_MAX))


def test_by_topic_names_everything_once_in_the_order_it_came() -> None:
    names = [("b", 1), ("a", 0), ("b", 0), ("b", 1), ("a", 0)]
    assert by_topic(names * 100) == [("b", [1, 0]), ("a", [0])]
