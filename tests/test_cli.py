"""The command `minikafka`: what it imports and when, and what it says when a room cannot be had."""

import subprocess
import sys
from types import ModuleType

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

import minikafka
from minikafka.__main__ import COMMANDS, Entry, LazyGroup, load, main

GREET = Entry("minikafka_fake_cli", "greet", "broker", "Greet somebody.")
# Loading this one fails, so whatever passes has not tried to.
BROKEN = Entry("minikafka_fake_broken", "broken", "spark", "Never loads.")


@click.command()
@click.argument("name")
def greet(name: str) -> None:
    """Greet somebody."""
    click.echo(f"hello {name}")


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> LazyGroup:
    """A group of two commands, one of them in a module made up for the test."""
    module = ModuleType(GREET.module)
    module.__dict__["greet"] = greet
    monkeypatch.setitem(sys.modules, GREET.module, module)
    return LazyGroup("fake", table={"greet": GREET, "broken": BROKEN})


def test_version() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert (result.exit_code, result.output) == (0, f"minikafka, version {minikafka.__version__}\n")


def test_runs_the_command_that_was_named(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["greet", "kafka"])
    assert (result.exit_code, result.output) == (0, "hello kafka\n")


def test_help_lists_commands_without_loading_them(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["--help"])
    assert result.exit_code == 0
    assert [line.split(maxsplit=1) for line in result.output.splitlines()[-2:]] == [
        ["greet", "Greet somebody."],
        ["broken", "Never loads."],
    ]


def test_unknown_command(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["nonsense"])
    assert result.exit_code == 2
    assert "No such command 'nonsense'" in result.output


def test_missing_packages_name_the_extra(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["broken"])
    assert result.exit_code == 2
    assert result.output == (
        "Error: 'broken' needs minikafka_fake_broken, which is not installed: pip install 'minikafka[spark]'\n"
    )


@pytest.mark.parametrize(
    "entry",
    [
        Entry("minikafka.nowhere", "x", "broker", "A module of ours that is not there."),
        Entry("minikafka_fake_broken", "x", None, "A package that the light install should have brought."),
    ],
)
def test_what_no_extra_would_mend_is_not_hidden(entry: Entry) -> None:
    with pytest.raises(ModuleNotFoundError):
        load("x", entry)


def test_an_attribute_that_is_no_command(group: LazyGroup) -> None:
    with pytest.raises(TypeError, match="minikafka_fake_cli:__name__ is not a command"):
        load("greet", GREET._replace(attribute="__name__"))


def test_shell_completion_loads_nothing(group: LazyGroup) -> None:
    complete = ShellComplete(group, {}, "fake", "_FAKE_COMPLETE")
    assert [(item.value, item.help) for item in complete.get_completions([], "bro")] == [("broken", "Never loads.")]
    assert "--help" in [item.value for item in complete.get_completions([], "--")]


def test_every_command_of_the_table_exists() -> None:
    for name, entry in COMMANDS.items():
        assert load(name, entry).get_short_help_str(limit=200) == entry.help, name


def test_starts_with_click_alone() -> None:
    """Whatever else is installed, `minikafka --help` must not pay for importing it."""
    script = (
        "import sys; before = set(sys.modules); import minikafka.__main__; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["click", "minikafka"]
