"""The command `minikafka`, put together from the rooms.

Nothing heavier than click is imported before a command has been chosen. Each room keeps its commands in
its own `cli.py` or folder `cli/`; the table below names them, with the one line that `--help` shows, so that
listing them imports no room. A command whose room needs packages that are not installed says which extra brings them.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from minikafka import __version__

INTERRUPTED: Final = 130
"""The exit code of a command that Ctrl-C has ended, as shells have it."""


class Entry(NamedTuple):
    """Where one command comes from."""

    module: str
    attribute: str
    # The extra that brings what the module imports; None if the light install has it all.
    extra: str | None
    help: str


# Listed by `--help` in this order.
COMMANDS: Mapping[str, Entry] = {
    "up": Entry("minikafka.broker.cli", "up", "broker", "Start a cluster on this machine: ZooKeeper and brokers."),
    "broker": Entry("minikafka.broker.cli", "broker", "broker", "Run one broker."),
    "topic": Entry("minikafka.client.cli.topic", "topic", None, "Create, list, describe, alter and delete topics."),
    "produce": Entry("minikafka.client.cli.produce", "produce", None, "Send lines as records."),
    "consume": Entry("minikafka.client.cli.consume", "consume", None, "Print the records of a topic."),
    "group": Entry("minikafka.client.cli.group", "group", None, "List, describe, reset and delete consumer groups."),
    "config": Entry("minikafka.client.cli.config", "config", None, "Get and set configs of topics and brokers."),
    "reassign": Entry("minikafka.client.cli.reassign", "reassign", None, "Move topics to other brokers."),
    "bench": Entry("minikafka.client.cli.bench", "bench", None, "Measure producing, consuming and latency."),
    "doctor": Entry("minikafka.client.cli.doctor", "doctor", None, "Tell what is wrong with a cluster."),
    "log": Entry("minikafka.storage.cli", "log", None, "Look into the files of a log: dump or verify them."),
}


class MissingExtra(click.ClickException):
    """The command exists, but its packages are not installed."""

    # As for any other way of calling the program wrongly.
    exit_code = 2

    def __init__(self, name: str, extra: str, missing: str) -> None:
        super().__init__(f"'{name}' needs {missing}, which is not installed: pip install 'minikafka[{extra}]'")


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports only the one that is used."""

    def __init__(self, *args: Any, table: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.table.get(cmd_name)
        return None if entry is None else load(cmd_name, entry)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # Ctrl-C while a command is being loaded; click would say "Aborted!".
            ctx.exit(INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # click's own version asks every command for its help, which would import every room.
        if self.table:
            with formatter.section("Commands"):
                formatter.write_dl([(name, entry.help) for name, entry in self.table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # Likewise. What is left for click are the options, which `Command` completes.
        commands = [CompletionItem(name, help=entry.help) for name, entry in self.table.items()]
        names = [item for item in commands if item.value.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)


def load(name: str, entry: Entry) -> click.Command:
    """Import the command `name`, or raise MissingExtra if a package of its extra is absent."""
    try:
        module = import_module(entry.module)
    except ModuleNotFoundError as error:
        missing = error.name or "a package"
        # One of our own modules missing is a broken install or a bug; no extra would mend that.
        if entry.extra is None or missing.partition(".")[0] == "minikafka":
            raise
        raise MissingExtra(name, entry.extra, missing) from error
    command = getattr(module, entry.attribute)
    if not isinstance(command, click.Command):
        raise TypeError(f"{entry.module}:{entry.attribute} is not a command")
    return command


@click.group(cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="minikafka")
def main() -> None:
    """A Kafka broker cluster in Python that speaks Kafka's own wire protocol."""


if __name__ == "__main__":
    main(prog_name="minikafka")
