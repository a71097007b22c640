"""`minikafka topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import uuid
from typing import Any

import click

from minikafka.client.admin import (
    Admin,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    PartitionDescription,
    TopicDescription,
)
from minikafka.client.cli import completion
from minikafka.client.cli.output import Grid, error_data, joined
from minikafka.client.cli.parsing import parse_pairs
from minikafka.client.cli.running import Session, WrongUse, confirm, connected
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import KafkaError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

_names = click.argument("names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=completion.topics)
_configs = click.option(
    "-c", "--config-entry", "configs", multiple=True, metavar="KEY=VALUE", help="A config of the topic."
)


@click.group("topic")
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


@topic.command("create")
@_names
@click.option("-p", "--partitions", type=click.IntRange(1), help="How many.  [default: as the broker is set]")
@click.option("-r", "--replication-factor", type=click.IntRange(1), help="How many brokers have each partition.")
@_configs
@click.option("--if-not-exists", is_flag=True, help="One that exists is as good as one that was created.")
@click.option("--dry-run", is_flag=True, help="Only see whether it could be created.")
@connected
async def create(
    session: Session,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics."""
    wanted = [NewTopic(name, partitions or -1, replication_factor or -1, {}, parse_pairs(configs)) for name in names]
    async with session.admin() as admin:
        results = await admin.create_topics(wanted, validate_only=dry_run, raise_errors=False)
    data: list[dict[str, Any]] = []
    lines = []
    for name in results:
        error = results.errors.get(name)
        if error is None:
            made, done = results[name], "could be created" if dry_run else "created"
            data.append({"topic": name, "partitions": made.num_partitions, "replicas": made.replication_factor})
            lines.append(f"{name}: {done}, partitions {made.num_partitions}, replicas {made.replication_factor}")
        elif if_not_exists and isinstance(error, TopicAlreadyExistsError):
            data.append({"topic": name, "existed": True})
            lines.append(f"{name}: exists already")
        else:
            data.append({"topic": name, "error": error_data(error)})
            session.out.fail(name, error)
    session.out.show(data, *lines)


@topic.command("list")
@click.option("--internal", is_flag=True, help="Those too in which Kafka keeps its own state.")
@connected
async def list_topics(session: Session, internal: bool) -> None:
    """List the topics."""
    async with session.admin() as admin:
        results = await admin.describe_topics(raise_errors=False)
    for name, error in results.errors.items():
        session.out.fail(name, error)
    found = [each for each in results.done.values() if internal or not each.is_internal]
    grid = Grid(["topic", "partitions>", "replicas>", "under-replicated>", "offline>"])
    data = []
    for each in found:
        behind = sum(partition.is_under_replicated for partition in each.partitions)
        offline = sum(partition.leader is None for partition in each.partitions)
        grid.rows.append([each.name, len(each.partitions), each.replication_factor, behind, offline])
        data.append(
            {
                "topic": each.name,
                "internal": each.is_internal,
                "partitions": len(each.partitions),
                "replicas": each.replication_factor,
                "under_replicated": behind,
                "offline": offline,
            }
        )
    session.out.show(data, grid)


@topic.command("describe")
@_names
@connected
async def describe(session: Session, names: tuple[str, ...]) -> None:
    """Show partitions, replicas, offsets and the configs that were set."""
    async with session.admin() as admin:
        results = await admin.describe_topics(names, raise_errors=False)
        described = [await _whole(admin, each) for each in results.done.values()]
    for name, error in results.errors.items():
        session.out.fail(name, error)
    lines: list[Grid | str] = []
    for each in described:
        configs = " ".join(f"{key}={value}" for key, value in each["configs"].items())
        lines.append(f"{each['topic']}  id {each['id']}" + (f"  {configs}" if configs else ""))
        grid = Grid(["partition>", "leader>", "replicas", "in sync", "start>", "end>", "state"])
        for row in each["partitions"]:
            shown = ["-" if row[key] is None else row[key] for key in ("partition", "leader")]
            ends = ["-" if row[key] is None else row[key] for key in ("start_offset", "end_offset")]
            grid.rows.append([*shown, joined(row["replicas"]), joined(row["isr"]), *ends, row["state"]])
        lines.append(grid)
    session.out.show(described, *lines)


async def _whole(admin: Admin, found: TopicDescription) -> dict[str, Any]:
    """A topic with what only leaders and the controller can tell."""
    resource = ConfigResource.topic(found.name)
    configs = (await admin.describe_configs([resource]))[resource]
    # Nobody can tell of those without a leader, and waiting for one is not what a description is for.
    led = [TopicPartition(found.name, each.partition) for each in found.partitions if each.leader is not None]
    starts = await admin.list_offsets(dict.fromkeys(led, OffsetSpec.EARLIEST), raise_errors=False)
    ends = await admin.list_offsets(dict.fromkeys(led, OffsetSpec.LATEST), raise_errors=False)
    partitions = []
    for each in found.partitions:
        place = TopicPartition(found.name, each.partition)
        start, end = starts.done.get(place), ends.done.get(place)
        partitions.append(
            {
                "partition": each.partition,
                "leader": each.leader,
                "replicas": [*each.replicas],
                "isr": [*each.isr],
                "start_offset": None if start is None else start.offset,
                "end_offset": None if end is None else end.offset,
                "state": _state(each),
            }
        )
    own = {key: entry.value for key, entry in configs.items() if entry.source == ConfigSource.TOPIC}
    topic_id = str(uuid.UUID(bytes=found.topic_id))
    return {
        "topic": found.name,
        "id": topic_id,
        "internal": found.is_internal,
        "configs": own,
        "partitions": partitions,
    }


def _state(partition: PartitionDescription) -> str:
    if partition.leader is None:
        return "offline"
    return "under-replicated" if partition.is_under_replicated else "ok"


@topic.command("alter")
@click.argument("name", metavar="TOPIC", shell_complete=completion.topics)
@click.option("-p", "--partitions", type=click.IntRange(1), help="More than there are: keys then go elsewhere.")
@_configs
@click.option("-d", "--delete-config", "deleted", multiple=True, metavar="KEY", help="Back to the default.")
@click.option("--dry-run", is_flag=True, help="Only see whether it could be done.")
@connected
async def alter(
    session: Session,
    name: str,
    partitions: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Add partitions to a topic, or change its configs."""
    changes: dict[str, str | None] = {**parse_pairs(configs), **dict.fromkeys(deleted)}
    if partitions is None and not changes:
        raise WrongUse("nothing to do: name --partitions, --config-entry or --delete-config")
    async with session.admin() as admin:
        # The configs first: whatever is wrong with them is found before partitions are added, for good.
        if changes:
            await admin.incremental_alter_configs({ConfigResource.topic(name): changes}, validate_only=dry_run)
        if partitions is not None:
            await admin.create_partitions({name: partitions}, validate_only=dry_run)
    done = "could be altered" if dry_run else "altered"
    session.out.show({"topic": name, "partitions": partitions, "configs": changes}, f"{name}: {done}")


@topic.command("delete")
@_names
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask.")
@click.option("--if-exists", is_flag=True, help="One that does not exist is as good as one that was deleted.")
@connected
async def delete(session: Session, names: tuple[str, ...], is_sure: bool, if_exists: bool) -> None:
    """Delete topics with all their records."""
    confirm(session.out, f"Delete {', '.join(names)} with all records?", is_sure)
    async with session.admin() as admin:
        results = await admin.delete_topics(names, raise_errors=False)
    errors: dict[str, KafkaError] = {
        name: error
        for name, error in results.errors.items()
        if not (if_exists and isinstance(error, UnknownTopicOrPartitionError))
    }
    data: list[dict[str, Any]] = [{"topic": name, "deleted": name in results.done} for name in names]
    for each in data:
        if each["topic"] in errors:
            each["error"] = error_data(errors[each["topic"]])
            session.out.fail(each["topic"], errors[each["topic"]])
    session.out.show(data, *(f"{name}: deleted" for name in results.done))
