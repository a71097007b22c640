"""Members of groups in threads, step by step, who write down what they own and what they commit.

Whoever owns a place asks for its offset and commits greater ones, several times a second, for as long as it is let:
what is committed has no other meaning. In a new generation it first commits in the old one once more, as a request
would that was held up on its way; nobody may accept that.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence

from minikafka.protocol.errors import (
    FencedInstanceIdError,
    KafkaError,
    MemberIdRequiredError,
    UnknownMemberIdError,
)
from tests.chaos.coordinators.gate import Die, Gate
from tests.chaos.coordinators.membership import Membership
from tests.chaos.coordinators.transaction import stable_offset
from tests.chaos.coordinators.wire import Place, Unanswered, Wire, insist
from tests.chaos.history import Kind, Recorder, Seen
from tests.chaos.waiting import pause

STEPS = ("join", "sync", "ask", "commit", "heartbeat")
"""A fault comes before one of them."""

SESSION_SECONDS = 3.0
ASK_SECONDS = 60.0
_TURN_SECONDS = 0.1
_AGAIN_SECONDS = 0.1


def place_name(group: str, place: Place) -> str:
    return f"{group}/{place}"


class Member(threading.Thread):
    """See the module's description."""

    def __init__(
        self, recorder: Recorder, servers: str, group: str, places: Sequence[Place], name: str, *, is_static: bool
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.group = group
        self.gate = Gate()
        self.generation = -1
        self.committed_at: dict[Place, float] = {}
        """When something was accepted of it for the last time."""
        self._recorder = recorder
        self._servers = servers
        self._places = places
        self.is_static = is_static
        self._instance = name if is_static else None
        self._life = 0
        self._before: tuple[int, dict[Place, int]] = (-1, {})
        """The generation it was part of last, and what it has committed there."""
        self._told = threading.Event()
        self.failure: BaseException | None = None

    def stop(self) -> None:
        self._told.set()
        self.join()
        if self.failure is not None:
            raise self.failure

    @property
    def _process(self) -> str:
        """A static member that is restarted is the same one to everybody."""
        return self.name if self.is_static else f"{self.name}/{self._life}"

    def run(self) -> None:
        try:
            while not self._told.is_set():
                self._life += 1
                self._live()
        except BaseException as failure:
            self.failure = failure

    def _live(self) -> None:
        """From one process to the next."""
        with Wire(self._servers, self.name) as wire:
            membership = Membership(wire, self.group, self._places, SESSION_SECONDS, self._instance)
            while not self._told.is_set():
                try:
                    self._take_part(membership)
                except Die as order:
                    pause(order.seconds)
                    return
                except FencedInstanceIdError:
                    # Another one has its name.
                    return
                except (KafkaError, Unanswered) as error:
                    if isinstance(error, UnknownMemberIdError):
                        membership.forget()
                    if not isinstance(error, MemberIdRequiredError):
                        pause(_AGAIN_SECONDS)

    def _take_part(self, membership: Membership) -> None:
        """In one generation."""
        self.gate.come("join")
        membership.join()
        self.gate.come("sync")
        owned = membership.sync()
        self.generation = membership.generation
        records = tuple(Seen(str(place), -1, -1) for place in owned)
        self._recorder.write(
            self._process, "ok", "owned", partition=self.group, value=membership.generation, records=records
        )
        with contextlib.suppress(KafkaError, Unanswered):
            self._commit(membership, *self._before)
        self.gate.come("ask")
        offsets = {place: self._ask(membership.wire, place) for place in owned}
        while not self._told.is_set():
            self.gate.come("commit")
            offsets = {place: offset + 1 for place, offset in offsets.items()}
            self._before = membership.generation, offsets
            self._commit(membership, membership.generation, offsets)
            self.gate.come("heartbeat")
            membership.heartbeat()
            pause(_TURN_SECONDS)

    def _ask(self, wire: Wire, place: Place) -> int:
        name = place_name(self.group, place)
        self._recorder.write(self._process, "invoke", "offset", partition=name)
        offset = insist(lambda: stable_offset(wire, self.group, place), ASK_SECONDS)
        self._recorder.write(self._process, "ok", "offset", partition=name, offset=offset)
        return offset

    def _commit(self, membership: Membership, generation: int, offsets: dict[Place, int]) -> None:
        def write(kind: Kind, place: Place) -> None:
            name = place_name(self.group, place)
            fields = {"partition": name, "offset": offsets[place], "value": generation}
            self._recorder.write(self._process, kind, "commit", **fields)

        for place in offsets:
            write("invoke", place)
        try:
            told = membership.commit(generation, offsets) if offsets else {}
        except (KafkaError, Unanswered):
            for place in offsets:
                write("info", place)
            raise
        for place, error in told.items():
            # What may help when it is tried again may have been done all the same.
            write("ok" if error is None else "info" if error.retriable else "fail", place)
            if error is None:
                self.committed_at[place] = time.monotonic()
        for refusal in told.values():
            if refusal is not None:
                raise refusal
