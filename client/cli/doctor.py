"""`minikafka doctor`: what is wrong with a cluster, as seen from here."""

from __future__ import annotations

import dataclasses

import click
from rich.text import Text

from minikafka.client.admin import Admin, AdminConfig
from minikafka.client.cli.examining import examine, look_at
from minikafka.client.cli.judging import OK, PROBLEM, WARNING, Facts, Finding, View, judge
from minikafka.client.cli.output import Grid, Output
from minikafka.client.cli.running import Session, connected
from minikafka.client.config import Address
from minikafka.client.errors import AuthenticationFailed, ConfigError, WrongListener
from minikafka.protocol.errors import KafkaError

_STYLES = {OK: "green", WARNING: "yellow", PROBLEM: "bold red"}

# Nobody wants to wait half a minute for each broker that does not answer.
_PATIENCE = {"socket.connection.setup.timeout.ms": "5000", "default.api.timeout.ms": "10000"}


@click.command("doctor")
@click.argument("server", metavar="[HOST:PORT]", required=False)
@click.option("--read-only", is_flag=True, help="Make no topic; clocks are then not compared.")
@connected
async def doctor(session: Session, server: str | None, read_only: bool) -> None:
    """Tell what is wrong with a cluster.

    Looks from here, as a client does: are all brokers where they are said to be, is there a controller, do partitions
    have leaders and replicas, are there brokers enough for the internal topics, do disks and clocks do. To see the
    clocks it makes a topic for a moment. Ends with 1 if there is a problem.
    """
    if server is not None:
        session.settings["bootstrap.servers"] = server
    session.settings = {**_PATIENCE, **session.settings}
    config = session.config(AdminConfig)
    findings: list[Finding] = []
    for address in config.addresses:
        try:
            view = await look_at(address, config)
        except ConfigError:
            raise
        except KafkaError as error:
            findings.append(_unreachable(address, error))
            continue
        findings.append(_answered(address, view))
        alone = dataclasses.replace(config, bootstrap_servers=str(address))
        async with Admin(config=alone) as admin:
            facts: Facts = await examine(session, admin, view, writes=not read_only)
        findings += judge(facts)
        break
    _show(session.out, findings)


def _answered(address: Address, view: View) -> Finding:
    return Finding(OK, "connection", f"a broker of cluster {view.cluster_id} answers at {address}")


def _unreachable(address: Address, error: KafkaError) -> Finding:
    hint = "is a broker running there, and does nothing stand between?"
    if isinstance(error, AuthenticationFailed):
        hint = "set sasl.mechanism, sasl.username and sasl.password as the broker knows them"
    elif isinstance(error, WrongListener):
        hint = "is it the right port? security.protocol must be that of the listener"
    return Finding(PROBLEM, "connection", f"nobody to talk to: {error.message or address}", hint)


def _show(out: Output, findings: list[Finding]) -> None:
    grid = Grid(["", "", ""])
    for each in findings:
        grid.rows.append([Text(each.level, style=_STYLES[each.level]), each.subject, each.text])
        if each.hint is not None:
            grid.rows.append(["", "", Text(f"→ {each.hint}", style="italic")])
    problems = [each for each in findings if each.level == PROBLEM]
    out.has_failed = bool(problems)
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    data = {"healthy": not problems, "findings": [dataclasses.asdict(each) for each in findings]}
    out.show(data, grid, count if problems else "all is well")
