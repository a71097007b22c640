"""How a command of the client runs: its connection options, its end, and what it says when something is wrong.

    @click.command()
    @click.argument("topic")
    @connected
    async def describe(session: Session, topic: str) -> None: ...

Exit codes: 0 it is done; 1 it could not be done, or not all of it; 2 it was asked for in a wrong way. Ctrl-C ends any
command quietly, with 130 as shells have it, and so does a reader of its output that has enough, with 141.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import click
from click.core import ParameterSource

from minikafka.client.admin import Admin, AdminConfig
from minikafka.client.cli.output import Output, explain
from minikafka.client.cli.parsing import parse_pairs
from minikafka.client.config import ClientConfig
from minikafka.client.errors import ConfigError
from minikafka.client.options import kafka_names
from minikafka.protocol.errors import KafkaError

INTERRUPTED: Final = 130
UNREAD: Final = 141
BOOTSTRAP_VARIABLE: Final = "MINIKAFKA_BOOTSTRAP"

_C = TypeVar("_C", bound=ClientConfig)

# A person waits for the answer, so it is not tried for a whole minute.
_DEFAULTS: Final = {"client.id": "minikafka-cli", "default.api.timeout.ms": "20000"}


class WrongUse(click.ClickException):
    """The command line makes no sense; one line says why."""

    exit_code = 2


class Failed(click.ClickException):
    """It could not be done."""

    exit_code = 1


class Session:
    """What a command is given: how to reach the cluster, and where to print."""

    def __init__(self, settings: Mapping[str, str], out: Output) -> None:
        self.settings = dict(settings)
        self.out = out

    def config(self, kind: type[_C], **more: object) -> _C:
        """The options of one kind of client. The settings may have those of others too, which are left out here."""
        ours, others = _names(kind), _names_of_all()
        settings = {**_DEFAULTS, **self.settings}
        given = {name: value for name, value in settings.items() if name in ours or name not in others}
        return kind.from_config(given | {name.replace("_", "."): value for name, value in more.items()})

    def admin(self) -> Admin:
        return Admin(config=self.config(AdminConfig))


def _names(kind: type[ClientConfig]) -> set[str]:
    return {name for field in dataclasses.fields(kind) for name in kafka_names(field)}


def _names_of_all() -> set[str]:
    from minikafka.client.consumer.config import ConsumerConfig
    from minikafka.client.producer.config import ProducerConfig

    return _names(AdminConfig) | _names(ProducerConfig) | _names(ConsumerConfig)


def read_properties(path: Path) -> dict[str, str]:
    """A properties file: `key=value` or `key: value` a line; `#` and `!` begin comments."""
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        at = min((text.find(mark) for mark in "=:" if mark in text), default=-1)
        if at < 1:
            raise WrongUse(f"{path}: line {number} is not of the form key=value")
        found[text[:at].strip()] = text[at + 1 :].strip()
    return found


def connected(function: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Give a command the connection options, and its function a `Session`."""

    @click.option(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        envvar=BOOTSTRAP_VARIABLE,
        help=f"Where the cluster is; {BOOTSTRAP_VARIABLE} if it is set.  [default: localhost:9092]",
    )
    @click.option(
        "--config",
        "config_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A properties file with Kafka's names, for security settings above all.",
    )
    @click.option("-X", "--set", "sets", multiple=True, metavar="KEY=VALUE", help="A setting, over those of the file.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @click.pass_context
    def call(
        ctx: click.Context,
        /,
        *,
        bootstrap_server: str | None,
        config_file: Path | None,
        sets: tuple[str, ...],
        as_json: bool,
        **params: object,
    ) -> None:
        settings = {} if config_file is None else read_properties(config_file)
        settings |= parse_pairs(sets)
        if bootstrap_server is not None:
            # The environment is there by habit, while a file or an option was named just now.
            is_weak = ctx.get_parameter_source("bootstrap_server") == ParameterSource.ENVIRONMENT
            if not is_weak or "bootstrap.servers" not in settings:
                settings["bootstrap.servers"] = bootstrap_server
        out = Output(as_json)
        run(function(Session(settings, out), **params))
        if out.has_failed:
            sys.exit(1)

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call


def run(work: Awaitable[None]) -> None:
    """Run a command to its end, and turn what is raised into one line and an exit code."""

    async def main() -> None:
        try:
            await work
        except BaseExceptionGroup as errors:
            # Of tasks that ended together the first failure is the reason of the others.
            raise _first_of(errors) from None

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except ConfigError as error:
        raise WrongUse(explain(error)) from None
    except KafkaError as error:
        raise Failed(explain(error)) from None
    except BrokenPipeError:
        # What is left in the buffer has nowhere to go, and would be complained about at the very end.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(UNREAD)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        raise Failed(f"{name}{error.strerror or error}") from None


def _first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first


def confirm(out: Output, question: str, is_sure: bool) -> None:
    """Ask before something is lost. A script has to say beforehand that it is sure."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise WrongUse("this cannot be undone: add --yes")
    if not click.confirm(question, err=True):
        raise Failed("nothing was done")
