"""Where a group is to go on: which partitions are meant, and which offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from minikafka.client.admin import Admin, OffsetSpec
from minikafka.client.cli.parsing import parse_numbers
from minikafka.client.cli.running import Failed, WrongUse
from minikafka.client.structs import OffsetAndMetadata, TopicPartition


@dataclass(frozen=True, slots=True)
class Aim:
    """Where to; exactly one of them is set."""

    earliest: bool = False
    latest: bool = False
    offset: int | None = None
    time_ms: int | None = None
    shift_by: int | None = None

    def check(self) -> None:
        given = [self.earliest or None, self.latest or None, self.offset, self.time_ms, self.shift_by]
        if sum(each is not None for each in given) != 1:
            raise WrongUse("name one of --to-earliest, --to-latest, --to-offset, --to-time and --shift-by")


async def choose_partitions(
    admin: Admin, topics: Iterable[str], all_topics: bool, committed: Mapping[TopicPartition, OffsetAndMetadata]
) -> list[TopicPartition]:
    """The partitions that are meant: of topics such as `orders` and `orders:0,2`, or all that were committed."""
    named = [*topics]
    if bool(named) == all_topics:
        raise WrongUse("name one or more --topic, or --all-topics")
    if all_topics:
        if not committed:
            raise Failed("the group has committed nothing")
        return sorted(committed)
    wanted = [(name, numbers) for name, _, numbers in (each.partition(":") for each in named)]
    described = await admin.describe_topics([name for name, _ in wanted])
    # A topic may be named more than once.
    places: set[TopicPartition] = set()
    for name, numbers in wanted:
        known = [each.partition for each in described[name].partitions]
        chosen = parse_numbers(numbers, "partitions") if numbers else known
        unknown = [each for each in chosen if each not in known]
        if unknown:
            raise Failed(f"topic {name!r} has no partition {unknown[0]}")
        places.update(TopicPartition(name, each) for each in chosen)
    return sorted(places)


async def find_offsets(
    admin: Admin,
    aim: Aim,
    places: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, int]:
    """The new offset of each partition, never before its first record nor after its end."""
    chosen = [*places]
    starts = await admin.list_offsets(dict.fromkeys(chosen, OffsetSpec.EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(chosen, OffsetSpec.LATEST))
    wanted: dict[TopicPartition, int] = {}
    if aim.time_ms is not None:
        found = await admin.list_offsets(dict.fromkeys(chosen, aim.time_ms))
        # Nothing is as late as that: what comes next will be.
        wanted = {place: at.offset if at.offset >= 0 else ends[place].offset for place, at in found.items()}
    for place in chosen:
        if aim.shift_by is not None:
            if place not in committed:
                raise Failed(f"{place.topic}-{place.partition}: nothing is committed that could be shifted")
            wanted[place] = committed[place].offset + aim.shift_by
        elif aim.offset is not None:
            wanted[place] = aim.offset
        elif aim.earliest or aim.latest:
            wanted[place] = (starts if aim.earliest else ends)[place].offset
    return {place: min(max(wanted[place], starts[place].offset), ends[place].offset) for place in chosen}
