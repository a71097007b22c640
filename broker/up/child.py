"""One broker process: its output with its name in front, whether it is ready, and its end."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from minikafka.broker.lifeline import BROKERS_VARIABLE, VARIABLE
from minikafka.broker.up.plan import BrokerPlan, UpError

_LINE_BYTES_MAX: Final = 64 * 1024
_STOP_SECONDS: Final = 60.0


def broker_command(properties: Path, options: Sequence[str]) -> list[str]:
    """What starts a broker; not with modules of the folder that the user happens to be in."""
    return [sys.executable, "-P", "-m", "minikafka", "broker", "--config", str(properties), *options]


class Child:
    """See the module's description."""

    def __init__(self, plan: BrokerPlan, brokers: int, command: Sequence[str], say: Callable[[str], None]) -> None:
        self.plan = plan
        self.name = f"broker-{plan.id}"
        self._brokers = brokers
        self._command = command
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._lifeline: socket.socket | None = None
        self._output: asyncio.Task[None] | None = None
        self._is_told_to_stop = False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self, environ: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                env={**environ, VARIABLE: str(theirs.fileno()), BROKERS_VARIABLE: str(self._brokers)},
                # Ctrl-C at the terminal is for us: brokers are stopped before ZooKeeper.
                start_new_session=True,
            )
        ours.setblocking(False)
        self._lifeline = ours
        self._output = asyncio.ensure_future(self._copy_output())

    async def ready(self) -> None:
        """Wait until it serves; UpError if it never will."""
        assert self._lifeline is not None
        told = b""
        loop = asyncio.get_running_loop()
        while not told.endswith(b"\n"):
            part = await loop.sock_recv(self._lifeline, _LINE_BYTES_MAX)
            if not part:
                raise UpError(f"{self.name}: {describe_end(await self.ended())} before it was ready")
            told += part
        news = json.loads(told)
        if "failed" in news:
            await self.ended()
            raise UpError(f"{self.name}: {news['failed']}", news["code"])

    async def ended(self) -> int:
        """Wait for its end, until all that it has said is printed; returns its exit code, negative for a signal."""
        assert self._process is not None and self._output is not None
        code = await self._process.wait()
        await asyncio.wait([self._output])
        return code

    @property
    def is_told_to_stop(self) -> bool:
        return self._is_told_to_stop

    async def stop(self) -> None:
        """Ask it to end, and make it if it does not."""
        if self._process is None:
            return
        self._is_told_to_stop = True
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.ended(), _STOP_SECONDS)
        except TimeoutError:
            self._say(f"{self.name} does not stop, killing it")
            self.kill()
            await self.ended()
        finally:
            if self._lifeline is not None:
                self._lifeline.close()

    def kill(self) -> None:
        self._is_told_to_stop = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # Does nothing if the process has been waited for, so its number cannot be another's by now.
        if self._process is not None and self._process.returncode is None:
            try:
                self._process.send_signal(number)
            except ProcessLookupError:
                return

    async def _copy_output(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        rest = b""
        while part := await self._process.stdout.read(_LINE_BYTES_MAX):
            *lines, rest = (rest + part).split(b"\n")
            if len(rest) > _LINE_BYTES_MAX:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._say(f"{self.name} | {line.decode(errors='replace')}")
        if rest:
            self._say(f"{self.name} | {rest.decode(errors='replace')}")


def describe_end(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Without variables that are settings of a broker: those of one would be those of all."""
    return {name: value for name, value in environ.items() if not name.startswith("KAFKA_")} | {
        # Lines as they are said, not when there are many of them.
        "PYTHONUNBUFFERED": "1"
    }
