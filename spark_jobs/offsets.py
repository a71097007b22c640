"""Offsets as text: what a checkpoint holds and what options say.

Spark compares the offsets of a source as text and stores them as they come, so the same positions must always give
the same text: topics and partitions in order, partitions as strings. This is the form of Spark's own Kafka source:

    {"orders": {"0": 50, "1": 37}}

The first offset of a query holds more, under a key that no topic can have:

    {"@start": {"orders": {"0": 40, "1": 30}}, "orders": {"0": 50, "1": 37}}

Spark does not store where a query began. When a driver dies in its first batch, it would ask for the beginning again,
and with startingOffsets=latest that is somewhere else by then: the records in between would be lost. So the end of the
first batch says where the batch began.

Every offset says which topics it counts in, by their ids, where brokers have them (KIP-516): a topic that was deleted
and created again has the name, and offsets that mean nothing to it.

    {"@ids": {"orders": "lVsUCDhRTTiYLBwRdMNRxQ"}, "orders": {"0": 50, "1": 37}}

Offsets of checkpoints that were written without ids hold for whatever topic has the name.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeAlias

from minikafka.client.structs import TopicPartition
from minikafka.spark_jobs.errors import BadCheckpoint, BadOption

Positions: TypeAlias = Mapping[TopicPartition, int]
"""The next offset to read of each partition."""

TopicIds: TypeAlias = Mapping[str, bytes]
"""The ids of topics by their names. A topic of which the id is not known is missing."""

Json: TypeAlias = dict[str, "dict[str, int] | dict[str, str] | dict[str, dict[str, int]]"]

START_KEY: Final = "@start"
IDS_KEY: Final = "@ids"
_ID_BYTES: Final = 16

INT64_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """How far a query has come, and for its first batch where that began."""

    positions: Positions
    start: Positions | None = None
    topic_ids: TopicIds = field(default_factory=dict)

    def to_json(self) -> Json:
        made: Json = {}
        if self.topic_ids:
            made[IDS_KEY] = {topic: _id_to_text(topic_id) for topic, topic_id in sorted(self.topic_ids.items())}
        if self.start is not None:
            made[START_KEY] = positions_to_json(self.start)
        made.update(positions_to_json(self.positions))
        return made

    @classmethod
    def from_json(cls, found: object) -> StreamOffset:
        """What `to_json` made; BadCheckpoint for anything else."""

        def fail(why: str) -> NoReturn:
            raise BadCheckpoint(f"the offsets in the checkpoint cannot be read: {why}")

        if not isinstance(found, dict):
            fail(f"{found!r} is no object")
        topics = {name: value for name, value in found.items() if name not in (START_KEY, IDS_KEY)}
        start = found.get(START_KEY)
        try:
            return cls(
                read_positions(topics),
                None if start is None else read_positions(start),
                _read_ids(found.get(IDS_KEY, {})),
            )
        except ValueError as error:
            fail(str(error))


def _id_to_text(topic_id: bytes) -> str:
    """As Kafka writes ids: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _read_ids(ids: object) -> dict[str, bytes]:
    if not isinstance(ids, dict):
        raise ValueError(f"{ids!r} is no object of topic ids")
    return {topic: _id_from_text(topic, text) for topic, text in ids.items()}


def _id_from_text(topic: str, text: object) -> bytes:
    try:
        topic_id = base64.urlsafe_b64decode(f"{text}==")
    except (binascii.Error, ValueError):
        topic_id = b""
    if len(topic_id) != _ID_BYTES:
        raise ValueError(f"{text!r} is no id of topic {topic!r}")
    return topic_id


def positions_to_json(positions: Positions) -> dict[str, dict[str, int]]:
    made: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        made.setdefault(topic, {})[str(partition)] = offset
    return made


def read_positions(found: object, *, low: int = 0) -> dict[TopicPartition, int]:
    """Numbers by topic and partition; ValueError for anything else."""
    if not isinstance(found, dict):
        raise ValueError(f"{found!r} is no object of topics")
    made: dict[TopicPartition, int] = {}
    for topic, partitions in found.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"{topic!r} has {partitions!r} instead of an object of partitions")
        for text, offset in partitions.items():
            if type(offset) is not int or not low <= offset <= INT64_MAX:
                raise ValueError(f"partition {text} of {topic!r} has {offset!r} instead of an offset")
            tp = TopicPartition(topic, _partition(topic, text))
            if tp in made:
                raise ValueError(f"partition {tp.partition} of {topic!r} is there twice")
            made[tp] = offset
    return made


def _partition(topic: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"{text!r} is no partition of {topic!r}")
    return int(text)


def parse_positions(name: str, text: str, *, low: int) -> dict[TopicPartition, int]:
    """An option such as `{"orders": {"0": 23, "1": -2}}`."""
    try:
        found = read_positions(_load(name, text), low=low)
    except ValueError as error:
        raise BadOption(f'{name}: {error}; it should look like {{"topic": {{"0": 23, "1": 42}}}}') from None
    if not found:
        raise BadOption(f"{name} names no partition")
    return found


def parse_assignment(name: str, text: str) -> tuple[TopicPartition, ...]:
    """An option such as `{"orders": [0, 2]}`."""
    found = _load(name, text)
    made: set[TopicPartition] = set()
    for topic, partitions in found.items() if isinstance(found, dict) else [("", None)]:
        if not isinstance(partitions, list) or any(type(each) is not int or each < 0 for each in partitions):
            raise BadOption(f'{name} should look like {{"topic": [0, 2]}}, not {text!r}')
        made.update(TopicPartition(topic, each) for each in partitions)
    if not made:
        raise BadOption(f"{name} names no partition")
    return tuple(sorted(made))


def _load(name: str, text: str) -> object:
    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        names = [key for key, _ in found]
        if len({*names}) < len(names):
            raise BadOption(f"{name} names something twice: {text!r}")
        return dict(found)

    try:
        loaded: object = json.loads(text, object_pairs_hook=pairs)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadOption(f"{name} is not JSON: {error}") from None
    return loaded
