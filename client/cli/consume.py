"""`minikafka consume`: the records of a topic, from wherever it is wanted, to the end or for ever."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import click

from minikafka.client.cli import completion
from minikafka.client.cli.formats import Formatter, make_formatter
from minikafka.client.cli.parsing import as_partitions, as_time_ms
from minikafka.client.cli.running import Session, WrongUse, connected
from minikafka.client.consumer import Consumer, ConsumerConfig, ConsumerRebalanceListener, ConsumerRecord
from minikafka.client.consumer.config import ISOLATION_LEVELS
from minikafka.client.consumer.errors import NotAssigned
from minikafka.client.errors import IllegalState
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import UnknownTopicOrPartitionError

_HEARSAY_S = (0.0, 0.1, 0.3)
"""How long to wait before asking for a topic again: a broker may not have heard yet of one that was just created."""

_WAIT_MS = 200
"""How long to wait for records before looking whether the end has been reached."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin; at most one of them is set. Nothing set is the beginning, or where the group was."""

    from_beginning: bool = False
    from_end: bool = False
    offset: int | None = None
    last: int | None = None
    time_ms: int | None = None

    def check(self, has_group: bool) -> None:
        given = [self.offset, self.last, self.time_ms, self.from_beginning or None, self.from_end or None]
        if sum(each is not None for each in given) > 1:
            raise WrongUse("name one of --from-beginning, --from-end, --offset, --last and --from-time")
        if has_group and given[:3] != [None, None, None]:
            raise WrongUse("a group goes on where it was: `minikafka group reset` takes it elsewhere")

    async def seek(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Go to where reading begins."""
        if self.offset is not None:
            for place in places:
                consumer.seek(place, self.offset)
        elif self.last is not None:
            starts, ends = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
            for place in places:
                consumer.seek(place, max(starts[place], ends[place] - self.last))
        elif self.time_ms is not None:
            await consumer.seek_to_time(self.time_ms, *places)
        elif self.from_end:
            await consumer.seek_to_end(*places)
        else:
            await consumer.seek_to_beginning(*places)


@click.command("consume")
@click.argument("topic", shell_complete=completion.topics)
@click.option("--from-beginning", is_flag=True, help="The default; with a group, where it has committed nothing.")
@click.option("--from-end", is_flag=True, help="Only what comes from now on, with --follow.")
@click.option("-o", "--offset", type=click.IntRange(0), help="From this offset on.")
@click.option("-l", "--last", type=click.IntRange(0), help="The last so many records of each partition.")
@click.option("-t", "--from-time", metavar="TIME", callback=as_time_ms, help="2026-01-31T12:00Z, or 15m for that ago.")
@click.option("-p", "--partition", "partitions", metavar="N,N", callback=as_partitions, help="These partitions only.")
@click.option("-g", "--group", shell_complete=completion.groups, help="Read as a member of a group, and commit.")
@click.option("-n", "--max-messages", type=click.IntRange(1), help="End after so many records.")
@click.option("-f", "--follow", is_flag=True, help="Go on at the end, and wait for more.")
@click.option("-F", "--format", "template", help=r"Such as '%k: %s\n'; see below.")
@click.option("--isolation-level", type=click.Choice(ISOLATION_LEVELS), help="[default: read_uncommitted]")
@connected
async def consume(
    session: Session,
    topic: str,
    from_beginning: bool,
    from_end: bool,
    offset: int | None,
    last: int | None,
    from_time: int | None,
    partitions: list[int] | None,
    group: str | None,
    max_messages: int | None,
    follow: bool,
    template: str | None,
    isolation_level: str | None,
) -> None:
    r"""Print the records of a topic.

    Ends where the topic ended when it was started, unless it is to --follow.

    \b
    In a format:  %t topic  %p partition  %o offset  %k key  %s value  %h headers
                  %T timestamp in ms  %D the same as a date  %K, %S sizes of key and value
                  \n \t \xFF as in Python, %% a per cent sign
    """
    start = Start(from_beginning, from_end, offset, last, from_time)
    start.check(group is not None)
    if group is not None and partitions is not None:
        raise WrongUse("a group shares all partitions among its members: leave out --partition")
    formatter = make_formatter(template, session.out.as_json)
    options = {
        "group_id": group,
        "isolation_level": isolation_level,
        "auto_offset_reset": "latest" if from_end else "earliest",
        "allow_auto_create_topics": "false",
    }
    config = session.config(ConsumerConfig, **{name: value for name, value in options.items() if value is not None})
    async with Consumer(config=config) as consumer:
        reading = Reading(consumer, formatter, max_messages)
        if group is not None:
            await reading.as_member(topic, follow)
        else:
            await reading.alone(topic, partitions, start, follow)


class Reading:
    """Records on their way to stdout, until there is reason to stop."""

    def __init__(self, consumer: Consumer, formatter: Formatter, max_messages: int | None) -> None:
        self._consumer = consumer
        self._format = formatter
        self._left = max_messages
        self._share = Share()

    async def alone(self, topic: str, partitions: list[int] | None, start: Start, follow: bool) -> None:
        """Read partitions that nobody has given out."""
        places = await self._places(topic, partitions)
        self._consumer.assign(places)
        await start.seek(self._consumer, places)
        ends = {} if follow else await self._consumer.end_offsets(places)
        await self._read(places, None if follow else ends)

    async def as_member(self, topic: str, follow: bool) -> None:
        """Read what the group gives us."""
        places = await self._places(topic, None)
        self._consumer.subscribe([topic], listener=self._share)
        await self._read(None, None if follow else await self._consumer.end_offsets(places))

    async def _places(self, topic: str, partitions: list[int] | None) -> list[TopicPartition]:
        for delay_s in _HEARSAY_S:
            await asyncio.sleep(delay_s)
            if topic in await self._consumer.topics():
                break
        else:
            raise UnknownTopicOrPartitionError(f"there is no topic {topic!r}")
        # This asks for the topic, so that its partitions are known.
        await self._consumer.beginning_offsets([TopicPartition(topic, 0)])
        known = self._consumer.partitions_for_topic(topic) or set()
        for each in partitions or ():
            if each not in known:
                raise UnknownTopicOrPartitionError(f"topic {topic!r} has no partition {each}")
        return [TopicPartition(topic, each) for each in partitions or sorted(known)]

    async def _read(self, places: list[TopicPartition] | None, ends: dict[TopicPartition, int] | None) -> None:
        write, flush = sys.stdout.buffer.write, sys.stdout.buffer.flush
        while self._left != 0 and not (ends is not None and await self._is_at_end(places, ends)):
            found = await self._consumer.getmany(timeout_ms=_WAIT_MS, max_records=min(self._left or 1000, 1000))
            for place, records in found.items():
                wanted = self._up_to_end(place, records, None if ends is None else ends.get(place))
                for record in wanted:
                    write(self._format(record))
                if self._left is not None:
                    self._left -= len(wanted)
            if found:
                flush()

    def _up_to_end(self, place: TopicPartition, records: list[ConsumerRecord], end: int | None) -> list[ConsumerRecord]:
        """The records before an end. What comes after it is not taken, or the group would never see it."""
        if end is None or records[-1].offset < end - 1:
            return records
        # The group may have taken the partition away in the meantime.
        with suppress(NotAssigned):
            self._consumer.pause(place)
            self._consumer.seek(place, end)
        return [record for record in records if record.offset < end]

    async def _is_at_end(self, places: Iterable[TopicPartition] | None, ends: dict[TopicPartition, int]) -> bool:
        if places is None:
            # Nothing may be ours if the group has many members; before it has told us, nothing is known.
            if not self._share.is_known:
                return False
            places = self._consumer.assignment()
        try:
            positions = await asyncio.gather(*map(self._consumer.position, places))
        except IllegalState:
            # The group has taken one of them away in the meantime.
            return False
        return all(position >= ends.get(place, 0) for place, position in zip(places, positions, strict=True))


class Share(ConsumerRebalanceListener):
    """Whether the group has said which partitions are ours."""

    is_known = False

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.is_known = True

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.is_known = False
