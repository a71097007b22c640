"""What came of a call about several things at once: a value or an error for each of them.

A call that is made for many topics, groups or partitions may succeed for some and fail for others. `Results` has all
of it, by what was asked, in the order of asking:

    results = await admin.create_topics([NewTopic("a"), NewTopic("b")], raise_errors=False)
    results["a"]          # the value, or the error of this topic is raised
    results.done          # what has succeeded
    results.errors        # what has not, each with the error of its code

Unless told otherwise, calls raise if anything has failed, so that no failure goes by unnoticed. By then everything was
tried. The error is that of the first thing which failed; its text names all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from minikafka.protocol.errors import KafkaError

K = TypeVar("K")
V = TypeVar("V")


class Results(Mapping[K, V], Generic[K, V]):
    """See the module's description."""

    def __init__(self, outcomes: Mapping[K, V | KafkaError]) -> None:
        self._outcomes = dict(outcomes)

    def __getitem__(self, item: K) -> V:
        outcome = self._outcomes[item]
        if isinstance(outcome, KafkaError):
            raise copy_of(outcome)
        return outcome

    def __iter__(self) -> Iterator[K]:
        return iter(self._outcomes)

    def __len__(self) -> int:
        return len(self._outcomes)

    def __contains__(self, item: object) -> bool:
        # Mapping would look the item up, and a failed one would raise.
        return item in self._outcomes

    def __repr__(self) -> str:
        return f"Results({self._outcomes!r})"

    @property
    def done(self) -> dict[K, V]:
        """What has succeeded."""
        return {item: outcome for item, outcome in self._outcomes.items() if not isinstance(outcome, KafkaError)}

    @property
    def errors(self) -> dict[K, KafkaError]:
        """What has failed."""
        return {item: outcome for item, outcome in self._outcomes.items() if isinstance(outcome, KafkaError)}

    def checked(self, raise_errors: bool) -> Results[K, V]:
        """These results, unless there are errors that are to be raised."""
        errors = self.errors
        if raise_errors and errors:
            first = next(iter(errors.values()))
            texts = [f"{label(item)}: {error.message}" for item, error in errors.items()]
            raise copy_of(first, "; ".join(texts))
        return self


def copy_of(error: KafkaError, message: str | None = None) -> KafkaError:
    """The same error anew: each raise adds to a traceback, so one that is kept must not be raised itself."""
    copied = type(error)(message if message is not None else error.message)
    copied.wire_code = error.wire_code
    return copied


def label(item: object) -> str:
    """How an error's text calls what it is about."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], int):
        return f"{item[0]}-{item[1]}"
    return f"broker {item}" if isinstance(item, int) else str(item)
