"""Histories told in a few words, for the tests of those who judge them."""

from __future__ import annotations

from tests.chaos.history import UNKNOWN_OFFSET, Event, Seen

PARTITION = "load-0"


class Tale:
    """A history in the making; every event comes a second after the one before."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = 0.0

    def send(self, value: int, process: str = "p1", partition: str = PARTITION) -> None:
        self._add(Event(self._tick(), process, "invoke", "send", partition, value))

    def ack(self, value: int, offset: int = UNKNOWN_OFFSET, process: str = "p1", partition: str = PARTITION) -> None:
        self._add(Event(self._tick(), process, "ok", "send", partition, value, offset))

    def fail(self, value: int, process: str = "p1", partition: str = PARTITION) -> None:
        self._add(Event(self._tick(), process, "fail", "send", partition, value))

    def lose_sight(self, value: int, process: str = "p1", partition: str = PARTITION) -> None:
        self._add(Event(self._tick(), process, "info", "send", partition, value))

    def write(self, value: int, offset: int, process: str = "p1", partition: str = PARTITION) -> None:
        """Send it and be told that it is there."""
        self.send(value, process, partition)
        self.ack(value, offset, process, partition)

    def assign(self, offset: int = 0, process: str = "r1", partition: str = PARTITION) -> None:
        self._add(Event(self._tick(), process, "ok", "assign", partition, offset=offset))

    def read(self, *placed: tuple[int, int], process: str = "r1", partition: str = PARTITION) -> None:
        """Be given values, each as (offset, value)."""
        records = tuple(Seen(partition, offset, value) for offset, value in placed)
        self._add(Event(self._tick(), process, "ok", "poll", records=records))

    def note(self, f: str, note: str = "", process: str = "nemesis") -> None:
        self._add(Event(self._tick(), process, "info", f, note=note))

    def refuse_read(self, note: str, process: str = "r1", partition: str = PARTITION) -> None:
        self._add(Event(self._tick(), process, "fail", "poll", partition, note=note))

    def read_all_in_the_end(self, *placed: tuple[int, int], partition: str = PARTITION) -> None:
        self.assign(process="last", partition=partition)
        self.read(*placed, process="last", partition=partition)
        self.note("final", process="last")

    def _add(self, event: Event) -> None:
        self.events.append(event)

    def _tick(self) -> float:
        self.now += 1.0
        return self.now
