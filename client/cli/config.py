"""`minikafka config`: get and set the configs of topics and brokers."""

from __future__ import annotations

import click

from minikafka.client.admin import ConfigEntry, ConfigResource, ConfigResourceType
from minikafka.client.cli.output import Grid
from minikafka.client.cli.parsing import parse_pairs
from minikafka.client.cli.running import Failed, Session, WrongUse, connected

_KINDS = {
    "topic": ConfigResourceType.TOPIC,
    "broker": ConfigResourceType.BROKER,
    "logger": ConfigResourceType.BROKER_LOGGER,
}
_ALL_BROKERS = "all"

_kind = click.argument("kind", type=click.Choice([*_KINDS]))
_name = click.argument("name")


def _resource(kind: str, name: str) -> ConfigResource:
    if kind == "broker" and name == _ALL_BROKERS:
        return ConfigResource.broker()
    return ConfigResource(_KINDS[kind], name)


@click.group("config")
def config() -> None:
    """Get and set configs of topics and brokers.

    NAME is that of a topic, the id of a broker, or `all` for what holds for all brokers. Loggers have a broker's id.
    """


@config.command("get")
@_kind
@_name
@click.argument("keys", nargs=-1)
@click.option("-a", "--all", "with_defaults", is_flag=True, help="Those too that have their defaults.")
@connected
async def get(session: Session, kind: str, name: str, keys: tuple[str, ...], with_defaults: bool) -> None:
    """Show what is set, or the KEYS that are named."""
    resource = _resource(kind, name)
    async with session.admin() as admin:
        found = (await admin.describe_configs([resource], names=keys or None))[resource]
    missing = [key for key in keys if key not in found]
    if missing:
        raise Failed(f"{resource} has no config {missing[0]!r}")
    shown = [entry for _, entry in sorted(found.items()) if keys or with_defaults or not entry.is_default]
    grid = Grid(["key", "value", "source"])
    grid.rows += [[entry.name, _value(entry), entry.source.name.lower().replace("_", " ")] for entry in shown]
    data = [
        {
            "key": entry.name,
            "value": entry.value,
            "source": entry.source.name,
            "read_only": entry.is_read_only,
            "sensitive": entry.is_sensitive,
        }
        for entry in shown
    ]
    session.out.show(data, grid)


def _value(entry: ConfigEntry) -> str:
    if entry.is_sensitive:
        return "(not shown)"
    return "-" if entry.value is None else entry.value


@config.command("set")
@_kind
@_name
@click.argument("pairs", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("-d", "--delete", "deleted", multiple=True, metavar="KEY", help="Back to what holds without it.")
@click.option("--dry-run", is_flag=True, help="Only see whether it could be set.")
@connected
async def set_configs(
    session: Session, kind: str, name: str, pairs: tuple[str, ...], deleted: tuple[str, ...], dry_run: bool
) -> None:
    """Set configs and leave the others as they are."""
    changes: dict[str, str | None] = {**parse_pairs(pairs), **dict.fromkeys(deleted)}
    if not changes:
        raise WrongUse("nothing to do: name KEY=VALUE or --delete")
    resource = _resource(kind, name)
    async with session.admin() as admin:
        await admin.incremental_alter_configs({resource: changes}, validate_only=dry_run)
    done = "could be set" if dry_run else "set"
    session.out.show({"resource": str(resource), "changes": changes}, f"{resource}: {done}")
