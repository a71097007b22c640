"""`minikafka reassign`: move topics to other brokers, or give them more or fewer replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from minikafka.client.admin import Admin
from minikafka.client.cli import completion
from minikafka.client.cli.moving import Plan, make_plan
from minikafka.client.cli.output import Grid, Output, joined
from minikafka.client.cli.parsing import as_brokers, as_bytes, show_bytes
from minikafka.client.cli.running import Failed, Session, WrongUse, connected
from minikafka.client.cli.throttling import clear_throttle, set_throttle
from minikafka.client.structs import TopicPartition

_LOOK_S: Final = 0.5


@click.command("reassign")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=completion.topics)
@click.option("--brokers", metavar="ID,ID", callback=as_brokers, help="The brokers to spread them over.")
@click.option("-r", "--replication-factor", type=click.IntRange(1), help="How many brokers have each partition.")
@click.option("--throttle", metavar="BYTES/S", callback=as_bytes, help="How fast a broker may copy, such as 50MB.")
@click.option("--resume", is_flag=True, help="Wait for moves that are under way, and take their throttle away.")
@click.option("--cancel", is_flag=True, help="Give up moves that are under way.")
@click.option("--no-wait", is_flag=True, help="Start it, and do not wait for its end; a throttle then stays.")
@click.option("--dry-run", is_flag=True, help="Only show what would be moved.")
@connected
async def reassign(
    session: Session,
    names: tuple[str, ...],
    brokers: list[int] | None,
    replication_factor: int | None,
    throttle: int | None,
    resume: bool,
    cancel: bool,
    no_wait: bool,
    dry_run: bool,
) -> None:
    """Move topics to other brokers.

    Spreads them evenly over --brokers (or all), with --replication-factor replicas (or as many as now), and moves no
    more than that takes. Waits until everything is copied; ending it sooner does not end the moves.
    """
    ways = [bool(brokers or replication_factor), resume, cancel]
    if sum(ways) != 1:
        raise WrongUse("name --brokers or --replication-factor (or both), or --resume, or --cancel")
    async with session.admin() as admin:
        if cancel:
            await _cancel(admin, session.out, names)
            return
        current = await _current(admin, names)
        if not resume:
            plan = await _plan(admin, current, brokers, replication_factor)
            moved = {place: replicas for place, replicas in plan.items() if replicas != (*current[place],)}
            _show(session.out, current, moved)
            if dry_run or not moved:
                return
            if throttle is not None:
                nodes = {broker for place in moved for broker in (*current[place], *moved[place])}
                await set_throttle(admin, nodes, current, moved, throttle)
            await admin.alter_partition_reassignments(moved)
        if not no_wait:
            await _wait(admin, session.out, [*current])
            await clear_throttle(admin, [each.node_id for each in (await admin.describe_cluster()).brokers], names)
            session.out.note("done")


async def _current(admin: Admin, names: tuple[str, ...]) -> dict[TopicPartition, tuple[int, ...]]:
    topics = await admin.describe_topics(names)
    return {
        TopicPartition(topic.name, each.partition): each.replicas
        for topic in topics.values()
        for each in topic.partitions
    }


async def _plan(
    admin: Admin, current: Mapping[TopicPartition, Sequence[int]], brokers: list[int] | None, factor: int | None
) -> Plan:
    racks = {each.node_id: each.rack for each in (await admin.describe_cluster()).brokers}
    unknown = [each for each in brokers or () if each not in racks]
    if unknown:
        raise Failed(f"there is no broker {unknown[0]} at the moment")
    try:
        return make_plan(current, {each: racks[each] for each in brokers or racks}, factor)
    except ValueError as error:
        raise Failed(str(error)) from None


def _show(
    out: Output, current: Mapping[TopicPartition, Sequence[int]], moved: Mapping[TopicPartition, Sequence[int]]
) -> None:
    grid = Grid(["topic", "partition>", "replicas now", "replicas then"])
    data: list[dict[str, Any]] = []
    for place, replicas in moved.items():
        grid.rows.append([place.topic, place.partition, joined(current[place]), joined(replicas)])
        data.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "replicas": [*current[place]],
                "new_replicas": [*replicas],
            }
        )
    out.show(data, grid if moved else "nothing has to be moved")


async def _cancel(admin: Admin, out: Output, names: tuple[str, ...]) -> None:
    ongoing = [place for place in await admin.list_partition_reassignments() if place.topic in names]
    if ongoing:
        await admin.alter_partition_reassignments(dict.fromkeys(ongoing))
    brokers = [each.node_id for each in (await admin.describe_cluster()).brokers]
    await clear_throttle(admin, brokers, names)
    data = [{"topic": place.topic, "partition": place.partition} for place in ongoing]
    lines = [f"{place.topic}-{place.partition}: given up" for place in ongoing]
    out.show(data, *(lines or ["nothing was under way"]))


async def _wait(admin: Admin, out: Output, places: list[TopicPartition]) -> None:
    """Wait until nothing of this is under way, showing how much has been copied."""
    with out.progress("moving", 1.0) as waiting:
        while True:
            ongoing = await admin.list_partition_reassignments(places)
            if not ongoing:
                return
            adding = {place: each.adding_replicas for place, each in ongoing.items()}
            copied, total = await _copied(admin, adding)
            waiting.update(
                copied / total if total else 0,
                f"{len(ongoing)} partitions, {show_bytes(copied)} of {show_bytes(total)}",
            )
            await asyncio.sleep(_LOOK_S)


async def _copied(admin: Admin, adding: Mapping[TopicPartition, Sequence[int]]) -> tuple[int, int]:
    """How many bytes the new replicas have, and how many they will have, by the largest there are."""
    log_dirs = await admin.describe_log_dirs(partitions=adding, raise_errors=False)
    sizes: dict[TopicPartition, dict[int, int]] = {place: {} for place in adding}
    for broker, found in log_dirs.done.items():
        for log_dir in found:
            for place, replica in log_dir.replicas.items():
                if place in sizes and not replica.is_future:
                    sizes[place][broker] = replica.size_bytes
    copied = sum(sizes[place].get(broker, 0) for place, brokers in adding.items() for broker in brokers)
    total = sum(max(sizes[place].values(), default=0) * len(brokers) for place, brokers in adding.items())
    return copied, total
