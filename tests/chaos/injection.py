"""Faults of the disk and jumps of the wall clock for one broker, by a library that is preloaded into its processes.

It is compiled when it is needed, and needs neither rights nor a file system of its own: a compiler, that is all. What
it does can be changed while the broker runs. `inject.c` says which calls it takes.
"""

from __future__ import annotations

import enum
import mmap
import subprocess
from pathlib import Path
from struct import Struct

_control = Struct("qi")
_SOURCE = Path(__file__).with_name("inject.c")


class Disk(enum.IntEnum):
    """What the disk does; the numbers are those of inject.c."""

    WELL = 0
    FULL = 1
    FAILS_WRITES = 2
    FAILS_SYNCS = 3
    FAILS_READS = 4


def build_library(folder: Path) -> Path:
    """Compile the library; CalledProcessError if that fails."""
    library = folder / "inject.so"
    command = ["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return library


class Injection:
    """Of one broker."""

    def __init__(self, library: Path, control: Path, below: Path) -> None:
        control.write_bytes(bytes(_control.size))
        self._disk = Disk.WELL
        self._clock_seconds = 0
        with control.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), _control.size)
        self.environment = {
            "LD_PRELOAD": str(library),
            "MINIKAFKA_INJECT": str(control),
            "MINIKAFKA_INJECT_BELOW": str(below.resolve()),
        }

    def set_disk(self, disk: Disk) -> None:
        self._disk = disk
        self._write()

    def set_clock(self, seconds: int) -> None:
        """How far the wall clock is ahead of the real one."""
        self._clock_seconds = seconds
        self._write()

    def reset(self) -> None:
        self._disk, self._clock_seconds = Disk.WELL, 0
        self._write()

    def _write(self) -> None:
        self._mapped[:] = _control.pack(self._clock_seconds, self._disk)
