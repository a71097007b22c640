"""One connection through the proxy.

Frames of one direction pass in their order, as in a socket: a frame that is held holds up those behind it. Reading
never waits for passing on, so that what a client has sent is known even if it has reset the connection since.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from tests.proxy.plan import Action, Fault, Plan

_LENGTH_BYTES = 4
_DRAIN_SECONDS = 5.0
"""How long a broker is listened to after its client has gone."""

FindPlan = Callable[[str], Plan | None]
"""From a client id to the plan of the client."""


class _Ends(Exception):
    """The connection ends by a fault."""


class _Request(NamedTuple):
    api: int
    plan: Plan | None


class Relay:
    """See the module's description."""

    def __init__(
        self, broker: int, find_plan: FindPlan, client: asyncio.StreamWriter, onward: asyncio.StreamWriter
    ) -> None:
        self._broker = broker
        self._find_plan = find_plan
        self._client = client
        self._onward = onward
        self._open: dict[int, _Request] = {}

    async def run(self, from_client: asyncio.StreamReader, from_broker: asyncio.StreamReader) -> None:
        requests: asyncio.Queue[bytes | None] = asyncio.Queue()
        answers: asyncio.Queue[bytes | None] = asyncio.Queue()
        reading = [
            asyncio.create_task(_read_frames(from_client, requests)),
            asyncio.create_task(_read_frames(from_broker, answers)),
        ]
        up = asyncio.create_task(self._pass_requests(requests))
        down = asyncio.create_task(self._pass_answers(answers))
        try:
            await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
            if up.done() and up.exception() is None:
                # The client has gone, and the broker has everything that it sent: it must be able to do it.
                with suppress(OSError):
                    self._onward.write_eof()
                await asyncio.wait([down], timeout=_DRAIN_SECONDS)
        finally:
            for task in (*reading, up, down):
                task.cancel()
            await asyncio.gather(*reading, up, down, return_exceptions=True)
            self._client.close()
            self._onward.close()

    async def _pass_requests(self, frames: asyncio.Queue[bytes | None]) -> None:
        while (frame := await frames.get()) is not None:
            api, correlation_id = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[8:12], "big")
            plan = self._find_plan(_client_id(frame))
            self._open[correlation_id] = _Request(api, plan)
            action = None if plan is None else plan.decide(self._broker, api, len(frame), is_request=True)
            if plan is None or action is None:
                self._onward.write(frame)
            elif action.fault is Fault.DROP_REQUEST:
                await _swallow(frames)
            elif action.fault is Fault.HOLD_REQUEST:
                await _hold(plan, action)
                self._onward.write(frame)
            elif action.fault is Fault.CUT_REQUEST:
                self._onward.write(frame[: action.position])
                raise _Ends
            elif action.fault is Fault.RESET_REQUEST:
                _reset(self._client)
                raise _Ends

    async def _pass_answers(self, frames: asyncio.Queue[bytes | None]) -> None:
        while (frame := await frames.get()) is not None:
            request = self._open.pop(int.from_bytes(frame[4:8], "big"), None)
            plan, action = None, None
            if request is not None and request.plan is not None:
                plan = request.plan
                action = plan.decide(self._broker, request.api, len(frame), is_request=False)
            if plan is None or action is None:
                self._client.write(frame)
            elif action.fault is Fault.DROP_ANSWER:
                await _swallow(frames)
            elif action.fault is Fault.HOLD_ANSWER:
                await _hold(plan, action)
                self._client.write(frame)
            elif action.fault is Fault.CUT_ANSWER:
                self._client.write(frame[: action.position])
                raise _Ends
            elif action.fault is Fault.RESET_ANSWER:
                _reset(self._client)
                raise _Ends


def _reset(writer: asyncio.StreamWriter) -> None:
    """Without lingering the other side is reset instead of reading the end of a stream."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _hold(plan: Plan, action: Action) -> None:
    plan.held += 1
    try:
        await asyncio.sleep(action.seconds)
    finally:
        plan.held -= 1


async def _swallow(frames: asyncio.Queue[bytes | None]) -> None:
    """Until the sender ends the connection: in a stream nothing arrives behind what is lost."""
    while await frames.get() is not None:
        pass
    frames.put_nowait(None)


async def _read_frames(reader: asyncio.StreamReader, frames: asyncio.Queue[bytes | None]) -> None:
    """Whole frames with their lengths, then None."""
    try:
        while True:
            length = await reader.readexactly(_LENGTH_BYTES)
            frames.put_nowait(length + await reader.readexactly(int.from_bytes(length, "big")))
    except (asyncio.IncompleteReadError, OSError):
        frames.put_nowait(None)


def _client_id(frame: bytes) -> str:
    """Of a request of any version: it follows the correlation id."""
    length = int.from_bytes(frame[12:14], "big", signed=True)
    return frame[14 : 14 + max(length, 0)].decode(errors="replace")
