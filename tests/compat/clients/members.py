"""Members of a group, run as processes: what they own and what they have read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.compat.clients.model import eventually

LEAVE_S = 15
SETTLE_S = 40.0


class MemberProcess:
    """One member."""

    def __init__(self, client: str, bootstrap: str, group: str, topic: str, errors: Path, *options: str) -> None:
        command = [sys.executable, "-m", "tests.compat.clients.member", client, bootstrap, group, topic, *options]
        self.owned: frozenset[int] = frozenset()
        self.assignments: list[frozenset[int]] = []
        self.moments: list[tuple[float, frozenset[int]]] = []
        self.read: list[tuple[int, int, str]] = []
        self._errors = errors.open("ab")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors)
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "assigned" in told:
                self.owned = frozenset(told["assigned"])
                self.assignments.append(self.owned)
                self.moments.append((told["time"], self.owned))
            else:
                self.read.append(tuple(told["read"]))

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def pause(self) -> None:
        """Stop it. What it has is not its own any more: others may get it without asking."""
        os.kill(self._process.pid, signal.SIGSTOP)
        self.moments.append((time.monotonic(), frozenset()))

    def resume(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def leave(self) -> None:
        """Have it end as a good member does."""
        os.kill(self._process.pid, signal.SIGTERM)
        assert self._process.wait(LEAVE_S) == 0
        self._gone()

    def kill(self) -> None:
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait(LEAVE_S)
        if not self._errors.closed:
            self._gone()

    def _gone(self) -> None:
        self._reader.join(LEAVE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()
        self.owned = frozenset()
        self.moments.append((time.monotonic(), self.owned))


class GroupOfProcesses:
    """All members that a test has started, of one group."""

    def __init__(self, client: str, bootstrap: str, group: str, topic: str, folder: Path) -> None:
        self.group = group
        self._start = (client, bootstrap, group, topic, folder / "errors.txt")
        self.all: list[MemberProcess] = []

    def add(self, *options: str) -> MemberProcess:
        member = MemberProcess(*self._start, *options)
        self.all.append(member)
        return member

    def wait_owned(self, partitions: int, members: Iterable[MemberProcess]) -> None:
        """Until each partition belongs to exactly one of these, and each of them has some."""
        some = list(members)

        def shares() -> list[frozenset[int]]:
            return [each.owned for each in some]

        def is_settled(owned: list[frozenset[int]]) -> bool:
            return all(owned) and sorted(index for each in owned for index in each) == list(range(partitions))

        eventually(shares, is_settled, SETTLE_S)

    def double_owners(self) -> list[tuple[float, int]]:
        return double_owners([each.moments for each in self.all])

    def read(self) -> list[str]:
        """All values that anybody has read."""
        return [value for each in self.all for _, _, value in each.read]

    def close(self) -> None:
        for member in self.all:
            member.kill()


def double_owners(histories: Sequence[Sequence[tuple[float, frozenset[int]]]]) -> list[tuple[float, int]]:
    """When a partition belonged to two members at once, and which it was; of each member, since when it had what."""
    events = sorted((moment, number, owned) for number, each in enumerate(histories) for moment, owned in each)
    owned_now: dict[int, frozenset[int]] = {}
    found = []
    for moment, number, owned in events:
        others = {index for other, theirs in owned_now.items() if other != number for index in theirs}
        found += [(moment, index) for index in sorted(owned & others)]
        owned_now[number] = owned
    return found
