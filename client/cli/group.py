"""`minikafka group`: list, describe, reset and delete consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from minikafka.client.admin import Admin, GroupDescription, OffsetSpec
from minikafka.client.cli import completion
from minikafka.client.cli.output import Grid, error_data
from minikafka.client.cli.parsing import as_time_ms
from minikafka.client.cli.resetting import Aim, choose_partitions, find_offsets
from minikafka.client.cli.running import Failed, Session, confirm, connected
from minikafka.client.structs import OffsetAndMetadata, TopicPartition

_names = click.argument("names", metavar="GROUP...", nargs=-1, required=True, shell_complete=completion.groups)

_NOBODY = ("Empty", "Dead")
"""States in which nobody reads, so that offsets can be changed."""


@click.group("group")
def group() -> None:
    """List, describe, reset and delete consumer groups."""


@group.command("list")
@click.option("--state", "states", multiple=True, help="Only those in this state, such as Stable or Empty.")
@connected
async def list_groups(session: Session, states: tuple[str, ...]) -> None:
    """List the groups."""
    async with session.admin() as admin:
        found = await admin.list_consumer_groups(states=states)
    grid = Grid(["group", "state", "protocol", "coordinator>"])
    grid.rows += [[each.group_id, each.state, each.protocol_type or "-", each.coordinator] for each in found]
    data = [
        {
            "group": each.group_id,
            "state": each.state,
            "protocol": each.protocol_type,
            "coordinator": each.coordinator,
        }
        for each in found
    ]
    session.out.show(data, grid)


@group.command("describe")
@_names
@connected
async def describe(session: Session, names: tuple[str, ...]) -> None:
    """Show members, what they read, and how far behind they are."""
    async with session.admin() as admin:
        results = await admin.describe_consumer_groups(names, raise_errors=False)
        described = []
        for name, found in results.done.items():
            committed = await admin.list_consumer_group_offsets(name)
            if found.state == "Dead" and not committed:
                session.out.fail(name, "there is no such group")
            else:
                described.append(await _whole(admin, found, committed))
    for name, error in results.errors.items():
        session.out.fail(name, error)
    shown: list[Grid | str] = []
    for each in described:
        about = f"{each['group']}  {each['state']}  members {len(each['members'])}  lag {each['lag']}"
        shown.append(f"{about}  coordinator {each['coordinator']}  assignor {each['assignor'] or '-'}")
        if each["partitions"]:
            shown.append(_lag_grid(each))
    session.out.show(described, *shown)


def _lag_grid(described: dict[str, Any]) -> Grid:
    grid = Grid(["topic", "partition>", "committed>", "end>", "lag>", "client", "host", "member"])
    clients = {each["member"]: each for each in described["members"]}
    for row in described["partitions"]:
        numbers = ["-" if row[key] is None else row[key] for key in ("committed", "end", "lag")]
        reader = clients.get(row["member"], {"client": "-", "host": "-", "member": "-"})
        grid.rows.append([row["topic"], row["partition"], *numbers, reader["client"], reader["host"], reader["member"]])
    return grid


async def _whole(
    admin: Admin, found: GroupDescription, committed: Mapping[TopicPartition, OffsetAndMetadata]
) -> dict[str, Any]:
    """A group with its lag: of what it has committed, and of what its members were given."""
    readers = {place: member.member_id for member in found.members for place in member.assignment}
    places = sorted({*readers, *committed})
    # A topic may have been deleted, and a partition be without a leader; the others are shown all the same.
    ends = (await admin.list_offsets(dict.fromkeys(places, OffsetSpec.LATEST), raise_errors=False)).done
    partitions: list[dict[str, Any]] = []
    for place in places:
        end = ends[place].offset if place in ends else None
        offset = committed[place].offset if place in committed else None
        lag = max(end - offset, 0) if end is not None and offset is not None else None
        row = {"topic": place.topic, "partition": place.partition, "committed": offset, "end": end, "lag": lag}
        partitions.append({**row, "member": readers.get(place)})
    return {
        "group": found.group_id,
        "state": found.state,
        "coordinator": found.coordinator,
        "assignor": found.protocol,
        "lag": sum(row["lag"] or 0 for row in partitions),
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.client_host,
            }
            for member in found.members
        ],
        "partitions": partitions,
    }


@group.command("reset")
@click.argument("name", metavar="GROUP", shell_complete=completion.groups)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:N,N]",
    shell_complete=completion.topics,
    help="A topic, or some of its partitions.",
)
@click.option("--all-topics", is_flag=True, help="All that the group has committed.")
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="To the end: only what comes is read.")
@click.option("--to-offset", type=click.IntRange(0), help="To this offset.")
@click.option("--to-time", metavar="TIME", callback=as_time_ms, help="2026-01-31T12:00Z, or 15m for that ago.")
@click.option("--shift-by", type=int, metavar="N", help="So many on, or back if it is below zero.")
@click.option("--execute", is_flag=True, help="Do it; without this it is only shown.")
@connected
async def reset(
    session: Session,
    name: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_time: int | None,
    shift_by: int | None,
    execute: bool,
) -> None:
    """Let a group go on elsewhere: shows where, and with --execute does it.

    The group must not have members at that moment. Offsets are kept between the first and the last record.
    """
    aim = Aim(to_earliest, to_latest, to_offset, to_time, shift_by)
    aim.check()
    async with session.admin() as admin:
        state = (await admin.describe_consumer_groups([name]))[name].state
        committed = await admin.list_consumer_group_offsets(name)
        places = await choose_partitions(admin, topics, all_topics, committed)
        offsets = await find_offsets(admin, aim, places, committed)
        if execute:
            if state not in _NOBODY:
                raise Failed(f"{name}: the group is {state}: stop its members first")
            await admin.alter_consumer_group_offsets(name, offsets)
    grid = Grid(["topic", "partition>", "committed>", "new>", "change>"])
    rows = []
    for place, offset in offsets.items():
        old = committed[place].offset if place in committed else None
        rows.append({"topic": place.topic, "partition": place.partition, "committed": old, "new": offset})
        change = "-" if old is None else f"{offset - old:+d}"
        grid.rows.append([place.topic, place.partition, "-" if old is None else old, offset, change])
    session.out.show({"group": name, "state": state, "executed": execute, "partitions": rows}, grid)
    if not execute:
        session.out.note("nothing was changed: add --execute to do it")


@group.command("delete")
@_names
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask.")
@connected
async def delete(session: Session, names: tuple[str, ...], is_sure: bool) -> None:
    """Delete groups with what they have committed."""
    confirm(session.out, f"Delete {', '.join(names)} with their offsets?", is_sure)
    async with session.admin() as admin:
        results = await admin.delete_consumer_groups(names, raise_errors=False)
    data: list[dict[str, Any]] = [{"group": name, "deleted": name in results.done} for name in results]
    for each in data:
        error = results.errors.get(each["group"])
        if error is not None:
            each["error"] = error_data(error)
            session.out.fail(each["group"], error)
    session.out.show(data, *(f"{name}: deleted" for name in results.done))
