"""Names of topics and groups for the shell's completion, asked of the cluster that the environment names.

The shell waits for it, so it gives up soon, and says nothing if there is no cluster.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Final

import click

from minikafka.client.admin import Admin
from minikafka.client.cli.running import BOOTSTRAP_VARIABLE
from minikafka.protocol.errors import KafkaError

_PATIENCE_S: Final = 2.0


def _names(ctx: click.Context, incomplete: str, ask: Callable[[Admin], Awaitable[list[str]]]) -> list[str]:
    servers = ctx.params.get("bootstrap_server") or os.environ.get(BOOTSTRAP_VARIABLE) or "localhost:9092"

    async def look() -> list[str]:
        async with asyncio.timeout(_PATIENCE_S), Admin(bootstrap_servers=servers) as admin:
            return await ask(admin)

    try:
        return [name for name in asyncio.run(look()) if name.startswith(incomplete)]
    except (KafkaError, TimeoutError, OSError):
        return []


def topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, lambda admin: admin.list_topics())


def groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    async def ask(admin: Admin) -> list[str]:
        return [group.group_id for group in await admin.list_consumer_groups()]

    return _names(ctx, incomplete, ask)
