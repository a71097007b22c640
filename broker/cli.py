"""The commands `minikafka broker` and `minikafka up`.

Only what the help needs is imported here; the rest when a command runs, since both are to be ready soon.
"""

from __future__ import annotations

import sys

import click

# So that it is known at once if the extra is not installed.
import kazoo  # noqa: F401

from minikafka.broker.logs import FORMATS, LEVELS, Format

_sets = click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="A setting, over all others.")
_log_level = click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    envvar="MINIKAFKA_LOG_LEVEL",
    help="The least important events to log.",
)
_log_format = click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    envvar="MINIKAFKA_LOG_FORMAT",
    help="Lines for people, or JSON.",
)


@click.command("broker")
@click.option("--config", "path", metavar="FILE", help="A properties file with Kafka's keys.")
@_sets
@_log_level
@_log_format
def broker(path: str | None, sets: tuple[str, ...], log_level: str, log_format: Format) -> None:
    """Run one broker.

    Its settings come from FILE, then from variables as KAFKA_LOG_DIRS for log.dirs, then from --set; the last wins.
    """
    from minikafka.broker.process import Arguments, run

    sys.exit(run(Arguments(path, sets, log_level, log_format)))


@click.command("up")
@click.option("--brokers", type=click.IntRange(1, 100), default=1, show_default=True, help="How many brokers.")
@click.option(
    "--zookeeper-nodes", type=click.IntRange(1, 5), default=1, show_default=True, help="How many nodes of ZooKeeper."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="Of the first broker; the others take the next ones. 0 for free ones.",
)
@click.option("--data", metavar="DIR", help="Where everything is kept.  [default: a folder of your own for each port]")
@click.option("--fresh", is_flag=True, help="Delete what an earlier cluster has left in DIR.")
@click.option("--zookeeper", metavar="HOST:PORT", help="Use a ZooKeeper that is running, and start none.")
@_sets
@_log_level
@_log_format
def up(
    brokers: int,
    zookeeper_nodes: int,
    port: int,
    data: str | None,
    fresh: bool,
    zookeeper: str | None,
    sets: tuple[str, ...],
    log_level: str,
    log_format: Format,
) -> None:
    """Start a cluster on this machine: ZooKeeper and brokers."""
    from minikafka.broker.up.command import Wanted, run

    options = ["--log-level", log_level, "--log-format", log_format]
    sys.exit(run(Wanted(brokers, zookeeper_nodes, port, data, fresh, zookeeper, sets, options)))
