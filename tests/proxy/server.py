"""The proxy's process:  python -m tests.proxy.server LISTEN=TARGET ...

It listens on each port LISTEN and passes on to TARGET, both on this machine. Its first line of output is the port of
the control channel, where a line of JSON is answered by another:

    {"do": "begin", "prefix": "s7.", "seed": 7, "rules": [...]}     a plan, see tests.proxy.plan
    {"do": "stop", "prefix": "s7."}                                 no more faults
    {"do": "count", "prefix": "s7."}                                faults by kind, and how many frames are held
    {"do": "end", "prefix": "s7."}                                  forget the plan

It ends when its standard input is closed, and so with whoever has started it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

from tests.proxy.plan import Plan, Rule
from tests.proxy.relay import Relay

HOST = "127.0.0.1"


class Server:
    """See the module's description."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, broker: int, port: int, target: int) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._keep(self._relay(broker, target, reader, writer))

        await asyncio.start_server(accept, HOST, port)

    async def listen_for_control(self) -> int:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._keep(self._control(reader, writer))

        server = await asyncio.start_server(accept, HOST, 0, limit=1 << 20)
        return int(server.sockets[0].getsockname()[1])

    def _keep(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(
        self, broker: int, target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            answers, onward = await asyncio.open_connection(HOST, target)
        except OSError:
            writer.transport.abort()
            return
        await Relay(broker, self._find_plan, writer, onward).run(reader, answers)

    def _find_plan(self, client_id: str) -> Plan | None:
        return next((plan for prefix, plan in self._plans.items() if client_id.startswith(prefix)), None)

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while line := await reader.readline():
                writer.write(json.dumps(self._obey(json.loads(line))).encode() + b"\n")
        writer.close()

    def _obey(self, order: dict[str, Any]) -> dict[str, Any]:
        prefix = order["prefix"]
        if order["do"] == "begin":
            rules = [Rule.from_json(fields) for fields in order["rules"]]
            self._plans[prefix] = Plan(prefix, order["seed"], rules)
            return {}
        plan = self._plans[prefix]
        if order["do"] == "stop":
            plan.stop()
        elif order["do"] == "end":
            del self._plans[prefix]
        return {"counts": plan.counts, "held": plan.held}


async def _serve(routes: list[tuple[int, int]]) -> None:
    loop = asyncio.get_running_loop()

    # What a client resets is no news here.
    def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), OSError):
            print(context, file=sys.stderr)

    loop.set_exception_handler(report)
    server = Server()
    for index, (port, target) in enumerate(routes):
        await server.listen(index, port, target)
    print(await server.listen_for_control(), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(
        _serve([(int(port), int(target)) for port, _, target in (word.partition("=") for word in sys.argv[1:])])
    )
