"""Members of a group that are real clients, as processes: killed, stopped, and replaced."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.checker import Anomaly
from tests.chaos.coordinators.wire import Place
from tests.chaos.waiting import NotInTime, wait_until
from tests.compat.clients.member import COOPERATIVE, SESSION_MS
from tests.compat.clients.members import GroupOfProcesses, MemberProcess

CLIENT = "confluent"


class RealMembers:
    """Some cooperative ones, one of which is a static member."""

    def __init__(self, servers: str, group: str, places: Sequence[Place], count: int, folder: Path) -> None:
        self.group = group
        self._partitions = len(places)
        self._processes = GroupOfProcesses(CLIENT, servers, group, places[0].topic, folder)
        self._live: list[MemberProcess] = []
        self._count = count
        self.gave_up = 0

    def start(self) -> None:
        for number in range(self._count):
            self._live.append(self._add(is_static=number == 0))

    def _add(self, *, is_static: bool) -> MemberProcess:
        instance = ["--instance", "the static one"] if is_static else []
        return self._processes.add("--stubborn", "--assignor", COOPERATIVE, *instance)

    def kill_one(self, rng: random.Random) -> None:
        """And start another one in its place."""
        index = rng.randrange(self._count)
        self._live[index].kill()
        self._live[index] = self._add(is_static=index == 0)

    def stop_one(self, rng: random.Random) -> None:
        """Until the others have what it had."""
        one = rng.choice(self._live)
        others = [each for each in self._live if each is not one]
        one.pause()
        try:
            self._wait_until_owned(others, 3 * SESSION_MS / 1000)
        finally:
            one.resume()

    def wait_until_owned(self, seconds: float) -> None:
        self._wait_until_owned(self._live, seconds)

    def _wait_until_owned(self, members: list[MemberProcess], seconds: float) -> None:
        """Until each partition is one's and each of them has some."""

        def is_owned() -> bool:
            self._replace_ended()
            owned = [each.owned for each in members]
            return all(owned) and sorted(index for each in owned for index in each) == list(range(self._partitions))

        try:
            wait_until(is_owned, seconds, "clients own everything")
        except NotInTime as error:
            raise NotInTime(f"{error}: {[sorted(each.owned) for each in members]}") from None

    def _replace_ended(self) -> None:
        """Some give up by themselves: a static one is told that it has a successor, which is itself, when an old and a
        new coordinator answer its requests."""
        for index, each in enumerate(self._live):
            if each.has_ended:
                each.kill()
                self._live[index] = self._add(is_static=index == 0)
                self.gave_up += 1

    def double_owners(self) -> list[Anomaly]:
        return [
            Anomaly("double-owner", self.group, f"partition {index} at {moment:.3f}")
            for moment, index in self._processes.double_owners()
        ]

    def read(self) -> int:
        """How many records all of them have read."""
        return len(self._processes.read())

    def close(self) -> None:
        self._processes.close()
