"""Waiting for what a cluster does in its own time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from minikafka.client.admin import Admin
from minikafka.client.admin.topics import PartitionDescription
from minikafka.client.structs import TopicPartition

T = TypeVar("T")

WAIT_S = 30.0


async def until(look: Callable[[], Awaitable[T]], is_right: Callable[[T], bool]) -> T:
    """Look again and again until it is right."""
    async with asyncio.timeout(WAIT_S):
        while True:
            found = await look()
            if is_right(found):
                return found
            await asyncio.sleep(0.05)


async def until_partition(
    admin: Admin, place: TopicPartition, is_right: Callable[[PartitionDescription], bool]
) -> PartitionDescription:
    async def look() -> PartitionDescription:
        return (await admin.describe_topics([place.topic]))[place.topic].partitions[place.partition]

    return await until(look, is_right)
