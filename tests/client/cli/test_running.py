"""What all commands have in common: finding the cluster, ending, and being quiet about it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from minikafka.__main__ import COMMANDS, main
from tests.client.cli.calling import Cli
from tests.client.cli.test_records import send
from tests.compat.clients.model import eventually
from tests.compat.running import free_ports

NOWHERE = {"MINIKAFKA_BOOTSTRAP": "127.0.0.1:1"}
CLIENT_COMMANDS = [name for name, entry in COMMANDS.items() if entry.module.startswith("minikafka.client.")]


def test_where_the_cluster_is(cli: Cli, bootstrap: str, tmp_path: Path) -> None:
    """An option counts more than a setting, a setting more than a file, a file more than the environment."""
    right, wrong = tmp_path / "right.properties", tmp_path / "wrong.properties"
    right.write_text(f"# where it is\n\nbootstrap.servers = {bootstrap}\nacks: all\n! the end\n")
    wrong.write_text("bootstrap.servers=127.0.0.1:1\n")
    setting = f"bootstrap.servers={bootstrap}"
    for words in (
        ("-b", bootstrap),
        ("-b", bootstrap, "-X", "bootstrap.servers=127.0.0.1:1"),
        ("-X", setting, "--config", wrong),
        ("--config", right),
    ):
        cli("topic", "list", *words, env=NOWHERE).done()
    cli("topic", "list").done()
    called = cli("topic", "list", env=NOWHERE)
    assert (called.code, called.out) == (1, "")
    assert called.err == "Error: no broker could be reached: 127.0.0.1:1: Connection refused\n"


def test_settings_that_make_no_sense(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers\n")
    for words, text in (
        (("-X", "bootstrap.server=x:1"), "there is no option 'bootstrap.server'; did you mean 'bootstrap.servers'?"),
        (("-X", "request.timeout.ms=soon"), "request.timeout.ms cannot be 'soon'"),
        (("-X", "security.protocol=SASL_SSL"), "SASL_SSL needs sasl_plain_username"),
        (("-X", "nothing"), "KEY=VALUE"),
        (("-b", "host:port"), "no address of the form host:port"),
        (("--config", file), "line 1 is not of the form key=value"),
        (("--config", tmp_path / "missing"), "does not exist"),
    ):
        called = cli("topic", "list", *words)
        assert called.code == 2, called
        assert text in called.err, called


def test_options_of_other_clients_are_no_mistake(cli: Cli, tmp_path: Path, topic: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text("linger.ms=1\nfetch.min.bytes=1\nclient.id=me\n")
    cli("topic", "list", "--config", file).done()
    cli("consume", topic, "--config", file).done()
    assert cli("produce", topic, "--config", file, "-f", file).code == 0


def test_passwords_are_not_shown(cli: Cli) -> None:
    words = ("-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.username=me", "-X", "sasl.password=hunter2")
    called = cli("topic", "list", *words, "-X", "request.timeout.ms=2000")
    assert called.code == 1 and "hunter2" not in called.err and len(called.err.splitlines()) == 1


@pytest.mark.parametrize("name", CLIENT_COMMANDS)
def test_every_command_has_help_without_a_cluster(name: str, cli: Cli) -> None:
    called = cli(name, "--help", env=NOWHERE).done()
    assert called.out.startswith(f"Usage: main {name}")


def test_commands_import_no_broker() -> None:
    script = (
        "import sys\n"
        "from minikafka.__main__ import COMMANDS, load\n"
        f"for name in {CLIENT_COMMANDS}: load(name, COMMANDS[name])\n"
        "print(*sorted(name for name in sys.modules if name.startswith(('minikafka.broker', 'minikafka.storage'))))\n"
        "print(*sorted({'kazoo', 'uvloop', 'pyspark', 'prometheus_client'} & {*sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def complete(*words: str, incomplete: str) -> list[str]:
    found = ShellComplete(main, {}, "minikafka", "_MINIKAFKA_COMPLETE").get_completions([*words], incomplete)
    return [item.value for item in found]


def test_names_are_completed(monkeypatch: pytest.MonkeyPatch, cli: Cli, bootstrap: str, topic: str) -> None:
    monkeypatch.setenv("MINIKAFKA_BOOTSTRAP", bootstrap)
    assert complete("topic", incomplete="des") == ["describe"]
    assert complete("topic", "describe", incomplete=topic[:-4]) == [topic]
    group = f"{topic}-group"
    cli("consume", topic, "-g", group).done()
    assert complete("group", "describe", incomplete=group[:-2]) == [group]
    monkeypatch.setenv("MINIKAFKA_BOOTSTRAP", f"127.0.0.1:{free_ports(1)}")
    assert complete("topic", "describe", incomplete="") == []


def interrupt(running: subprocess.Popen[str]) -> tuple[int, str]:
    """End a command as Ctrl-C does; its exit code, and what it said to that."""
    began = time.monotonic()
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=20)
    assert time.monotonic() - began < 10
    return running.returncode, errors


def test_ctrl_c_ends_reading(cli: Cli, topic: str, tmp_path: Path, name: Callable[[], str]) -> None:
    send(cli, topic, "x\n", tmp_path)
    group = name()
    with cli.begin("consume", topic, "-f", "-g", group) as running:
        assert running.stdout is not None and running.stdout.readline() == "x\n"
        assert interrupt(running) == (130, "")
    # It has left, rather than letting the group wait for it.
    assert cli("group", "describe", group, "--json").json[0]["members"] == []


def test_ctrl_c_ends_sending_while_it_waits_for_input(cli: Cli, topic: str) -> None:
    with cli.begin("produce", topic) as running:
        assert running.stdin is not None
        running.stdin.write("typed\n")
        running.stdin.flush()
        # What was typed is sent at once, not when the input ends.
        eventually(lambda: cli("consume", topic).out, lambda out: out == "typed\n")
        assert interrupt(running) == (130, "")


def test_ctrl_c_ends_measuring_and_leaves_no_topic(cli: Cli) -> None:
    with cli.begin("bench", "latency", "-n", 100_000) as running:
        eventually(lambda: cli("topic", "list").out, lambda out: "minikafka-bench" in out)
        assert interrupt(running) == (130, "")
    assert "minikafka-bench" not in cli("topic", "list").out


def test_a_reader_that_has_enough(cli: Cli, topic: str, tmp_path: Path) -> None:
    """As `minikafka consume | head -n 1`."""
    send(cli, topic, "x" * 100 + "\n" + ("y" * 100 + "\n") * 20_000, tmp_path)
    with cli.begin("consume", topic) as running:
        assert running.stdout is not None and running.stdout.readline().startswith("x")
        running.stdout.close()
        assert running.stderr is not None
        assert running.stderr.read() == ""
        assert running.wait(20) == 141


def test_a_table_that_nobody_reads(cli: Cli, topic: str) -> None:
    with cli.begin("topic", "list") as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait(20) == 141
