"""Transactions in the words that tests use for all clients: a producer step by step, and a member of a group beside it.

Errors keep the code that the client reports. Whether a producer can go on after one is the client's own verdict, and
so it is a class of its own: `Abortable` after which a transaction is aborted, `Fatal` after which there is nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import NamedTuple, Protocol

from tests.compat.clients.confluent import Confluent
from tests.compat.clients.model import Client, Reading, Received, Record, Refused, eventually

COMMITTED = "read_committed"
UNCOMMITTED = "read_uncommitted"

# Longer than any test; those of the timeout itself set another.
TIMEOUT_MS = 60_000

# The last record of a partition: who has come to it has seen all that is to be seen.
END = b"the end"
_RECORDS_MAX = 10_000


class Abortable(Refused):
    """This transaction can only be aborted."""


class Fatal(Refused):
    """This producer can do nothing any more."""


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int = 0


class GroupReader(Protocol):
    """A member of a group that reads what is committed, and commits nothing by itself."""

    def read(self, count: int) -> list[Received]:
        """Up to so many records, at least one."""
        ...

    def seek(self, place: Place, offset: int) -> None: ...

    def close(self) -> None: ...


class Transactor(Protocol):
    """A transactional producer."""

    def begin(self) -> None: ...

    def send(self, place: Place, values: Sequence[bytes]) -> list[int]:
        """Returns their offsets, when all of them are written."""
        ...

    def send_offsets(self, reader: GroupReader, offsets: Mapping[Place, int]) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Transacting(Protocol):
    """A client's side of transactions."""

    name: str

    def transactor(self, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> Transactor:
        """A producer that is ready to begin."""
        ...

    def reader(self, group: str, topic: str) -> GroupReader: ...

    def end_offset(self, place: Place, isolation: str) -> int: ...

    def committed_offset(self, group: str, place: Place) -> int | None:
        """Of an assigned consumer that reads what is committed."""
        ...


def finish(confluent: Confluent, *places: Place) -> None:
    """Have partitions end with a record that is in no transaction."""
    for place in places:
        confluent.produce(place.topic, [Record(END)], place.partition)


def read_all(client: Client, place: Place, isolation: str) -> list[bytes]:
    """What a partition holds before its end."""
    how = Reading(partitions=(place.partition,), isolation=isolation)
    found: list[bytes] = []
    with closing(client.read(place.topic, _RECORDS_MAX, how)) as records:
        for record in records:
            if record.value == END:
                return found
            found.append(record.value or b"")
    raise AssertionError(f"{place} has no end")


def wait_end(transacting: Transacting, place: Place, offset: int) -> None:
    """Until what is committed ends there: a transaction has ended when that is written, and its markers come after."""
    eventually(lambda: transacting.end_offset(place, COMMITTED), lambda end: end == offset)


def wait_committed(transacting: Transacting, group: str, place: Place, offset: int) -> None:
    eventually(lambda: transacting.committed_offset(group, place), lambda found: found == offset)
