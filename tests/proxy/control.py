"""How a test starts the proxy's process and gives it plans."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

from tests.proxy.plan import Rule
from tests.proxy.server import HOST
from tests.tree import ROOT

_SETTLE_SECONDS = 20.0
_LOOK_SECONDS = 0.05


class Proxy:
    """The process, in front of some ports. It ends with the block, and with this process."""

    def __init__(self, routes: Mapping[int, int]) -> None:
        """`routes`: from the ports that clients use to those where brokers listen."""
        self._routes = routes
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def __enter__(self) -> Self:
        words = [f"{port}={target}" for port, target in self._routes.items()]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.proxy.server", *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process is not None and self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    async def begin(self, prefix: str, seed: int, rules: Sequence[Rule]) -> None:
        """From now on clients whose client id begins with the prefix are subject to these rules."""
        await self._order("begin", prefix, seed=seed, rules=[rule.to_json() for rule in rules])

    async def stop(self, prefix: str) -> None:
        """No more faults for these clients; returns when nothing of theirs is held back any more."""
        await self._order("stop", prefix)
        for _ in range(int(_SETTLE_SECONDS / _LOOK_SECONDS)):
            if not (await self._order("count", prefix))["held"]:
                return
            await asyncio.sleep(_LOOK_SECONDS)
        raise TimeoutError(f"frames of {prefix} are held for more than {_SETTLE_SECONDS:g} s")

    async def count(self, prefix: str) -> Counter[str]:
        """Faults so far by their kind."""
        return Counter((await self._order("count", prefix))["counts"])

    async def end(self, prefix: str) -> Counter[str]:
        """Forget the plan; returns the faults by their kind."""
        return Counter((await self._order("end", prefix))["counts"])

    async def _order(self, do: str, prefix: str, **fields: Any) -> dict[str, Any]:
        reader, writer = await asyncio.open_connection(HOST, self._port)
        try:
            writer.write(json.dumps({"do": do, "prefix": prefix, **fields}).encode() + b"\n")
            answer: dict[str, Any] = json.loads(await reader.readline())
            return answer
        finally:
            writer.close()
            await writer.wait_closed()
