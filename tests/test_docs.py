"""The documents: commands marked for it are run and print what the page says, links lead somewhere.

A block is run if `<!-- run -->` stands on the line above it:

    <!-- run -->
    ```console
    $ a command, run by the shell at the root of the checkout
    its output, to the letter; `...` stands for any lines, or for a part of one
    ```

With `<!-- run with a cluster -->` the environment names a cluster of three brokers, in which commands find what those
above them have left.
"""

import os
import re
import subprocess
import sysconfig
from typing import NamedTuple

import pytest

from tests.tree import ROOT, texts

DOCUMENTS = {name: text for name, text in texts().items() if name.endswith(".md")}
BLOCK = re.compile(r"^<!-- run( with a cluster)? -->\n```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Step(NamedTuple):
    """One command of a document, and the output that is printed there."""

    document: str
    command: str
    output: str
    has_cluster: bool

    def __str__(self) -> str:
        return f"{self.document}: {self.command}"


def steps() -> list[Step]:
    """Every command to run, in the order of the documents."""
    found = []
    for document, text in DOCUMENTS.items():
        for cluster, block in BLOCK.findall(text):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                found.append(Step(document, command, output, bool(cluster)))
    return found


def matches(expected: str, output: str) -> bool:
    # Three dots alone on a line are any lines, elsewhere a part of one.
    lines = expected.splitlines(keepends=True)
    pattern = "".join(
        r"(?:.*\n)*" if line == "...\n" else ".*".join(map(re.escape, line.split("..."))) for line in lines
    )
    return re.fullmatch(pattern, output) is not None


@pytest.mark.needs("make")
@pytest.mark.parametrize("step", steps(), ids=str)
def test_command(step: Step, request: pytest.FixtureRequest) -> None:
    more = {"MINIKAFKA_BOOTSTRAP": request.getfixturevalue("up_cluster").bootstrap} if step.has_cluster else {}
    # As in a shell in which the virtual environment of this test run is active.
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    result = subprocess.run(
        step.command,
        shell=True,
        cwd=ROOT,
        # Set where make itself runs the tests, and then a make below it would report every folder it enters.
        env={name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
        | {"PATH": path, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout
    assert matches(step.output, result.stdout), result.stdout


def test_there_is_something_to_run() -> None:
    assert len(steps()) >= 3


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links(document: str) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", DOCUMENTS[document])
    lost = [target for target in targets if not (ROOT / document).parent.joinpath(target).exists()]
    assert not lost


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets(document: str) -> None:
    """Every `make something` of a document is a target."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^    )make ([a-z-]+)", DOCUMENTS[document], re.MULTILINE))
    assert named <= targets
