"""The copier as a process that is killed, stopped, and always there again."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

from tests.chaos.coordinators.copier import GROUP
from tests.chaos.coordinators.transaction import stable_offset
from tests.chaos.coordinators.transactor import INSIST_SECONDS
from tests.chaos.coordinators.watching import READ_UNCOMMITTED, end_of
from tests.chaos.coordinators.wire import Place, Wire, insist
from tests.chaos.waiting import wait_until

_LOOK_SECONDS = 0.1
_STOP_SECONDS = 30.0


class Copying(threading.Thread):
    """Starts a copier, and another one whenever it has ended."""

    def __init__(self, bootstrap: str, source: str, target: str, errors: Path) -> None:
        super().__init__(name="copying", daemon=True)
        self._servers = bootstrap
        self._source = source
        self._command = [sys.executable, "-m", "tests.chaos.coordinators.copier", bootstrap, source, target]
        self._errors = errors
        self._lock = threading.Lock()
        self._told = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen: list[subprocess.Popen[bytes]] = []
        self.starts = 0

    def run(self) -> None:
        while not self._told.wait(_LOOK_SECONDS):
            with self._lock:
                if self._process is None or self._process.poll() is not None:
                    self._replace()

    def _replace(self) -> None:
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=errors)
        self.starts += 1

    def kill(self) -> None:
        with self._lock:
            if self._process is not None:
                self._process.send_signal(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop it and have another one take its place; it stays a zombie until it is woken."""
        with self._lock:
            if self._process is not None:
                self._process.send_signal(signal.SIGSTOP)
                self._frozen.append(self._process)
            self._replace()

    def wake(self) -> None:
        for process in self._frozen:
            process.send_signal(signal.SIGCONT)

    def wait_until_copied(self, places: list[Place], seconds: float) -> None:
        """Until the group has committed everything that the source holds."""
        with Wire(self._servers, "waiting for the copier") as wire:
            ends = {place: insist(partial(end_of, wire, place, READ_UNCOMMITTED), INSIST_SECONDS) for place in places}

            def is_copied() -> bool:
                offsets = {place: insist(partial(stable_offset, wire, GROUP, place), INSIST_SECONDS) for place in ends}
                return offsets == ends

            wait_until(is_copied, seconds, "everything is copied")

    def stop(self) -> None:
        self._told.set()
        if self.is_alive():
            self.join()
        for process in [*self._frozen, *([self._process] if self._process is not None else [])]:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
