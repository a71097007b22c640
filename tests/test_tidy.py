"""The tree itself: sizes, docstrings, no loose ends, nothing of one machine, and only what belongs here.

Sizes are limits on what a reader has to hold in mind at once. A file or function that outgrows them is
asking to be two.
"""

import ast
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.tree import ROOMS, ROOT, Function, files, functions, modules, texts

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
# Most functions stay well below that: in each room at most this part of them is longer than this.
FUNCTION_LINES_USUAL = 25
LONGER_PART_MAX = 0.1

TOP_LEVEL = {
    *ROOMS,
    *("deploy", "tests", "bench", "docs", "src", ".ci"),
    *("pyproject.toml", "requirements.lock", "Makefile", ".gitignore", ".gitattributes"),
    *("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE"),
}

# Hosts that the project's texts may point a reader to, or talk to in a test.
HOSTS = {
    *("localhost", "127.0.0.1", "[::1]", "example.com"),
    *("kafka.apache.org", "spark.apache.org", "www.apache.org", "zookeeper.apache.org"),
    *("keepachangelog.com", "semver.org"),
    # In the network of deploy/docker-compose.yml.
    "prometheus",
}


def report(findings: Iterable[object]) -> None:
    """Fail with all findings, one a line."""
    lines = [str(finding) for finding in findings]
    assert not lines, "\n".join(["", *lines])


def test_nothing_else_at_the_top_level() -> None:
    report(sorted({name.partition("/")[0] for name in files()} - TOP_LEVEL))


def test_files_are_short() -> None:
    lengths = {name: texts()[name].count("\n") for name in modules()}
    report(f"{name}: {length} lines" for name, length in lengths.items() if length > FILE_LINES_MAX)


def test_functions_are_short() -> None:
    report(f"{function}: {function.length} lines" for function in functions() if function.length > FUNCTION_LINES_MAX)


@pytest.mark.parametrize("room", ROOMS)
def test_most_functions_are_shorter(room: str) -> None:
    inside = [function for function in functions() if function.file.startswith(f"{room}/")]
    longer = [function for function in inside if function.length > FUNCTION_LINES_USUAL]
    # One is allowed however few functions there are.
    if len(longer) > max(1, len(inside) * LONGER_PART_MAX):
        report([f"{len(longer)} of {len(inside)} functions have more than {FUNCTION_LINES_USUAL} lines:", *longer])


def test_every_module_says_what_it_is_for() -> None:
    report(name for name, tree in modules().items() if ast.get_docstring(tree) is None)


def test_no_notes_to_self() -> None:
    # Put together here, so that this line is not a finding itself.
    marks = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
    report(
        f"{name}:{number} {line.strip()}"
        for name, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if marks.search(line)
    )


def test_no_stubs() -> None:
    report(function for function in functions() if is_stub(function))
    report(
        f"{name}:{node.lineno} raises NotImplementedError"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and node.exc is not None and "NotImplementedError" in ast.unparse(node.exc)
    )


def is_stub(function: Function) -> bool:
    """Whether a function is only there in name. One with a docstring alone says why it does nothing."""
    if not function.body or not all(isinstance(line, ast.Pass) or is_ellipsis(line) for line in function.body):
        return False
    marks = {ast.unparse(decorator).rpartition(".")[2] for decorator in function.node.decorator_list}
    bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in getattr(function.owner, "bases", ())}
    return not marks & {"overload", "abstractmethod"} and "Protocol" not in bases


def is_ellipsis(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and statement.value.value is ...
    )


def machine_paths() -> re.Pattern[str]:
    """Paths that mean something on one machine only: this checkout, its surroundings, somebody's home."""
    places = {ROOT, ROOT.parent, Path.home()} - {Path("/"), Path(tempfile.gettempdir())}
    here = [re.escape(str(place)) for place in places]
    return re.compile(r"(?<![\w.~$}])(?:" + "|".join([*here, "/home/[a-z]+", "/Users/[a-z]+"]) + r")(?:/|\b)")


def test_nothing_of_one_machine() -> None:
    pattern = machine_paths()
    report(
        f"{name}:{number} {line.strip()[:120]}"
        for name, text in texts().items()
        if name != "tests/test_tidy.py"
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    )


def test_links_lead_to_known_places() -> None:
    """Package registries and mirrors are the business of whoever installs, so no file names one."""
    url = re.compile(r"\b(?:https?|ftp|git|ssh)://(?:[^/\s@'\"]*@)?(\[[0-9a-f:]*\]|[\w.-]+)")
    report(
        f"{name}: {found.group()}"
        for name, text in texts().items()
        for found in url.finditer(text)
        if found.group(1).rstrip(".") not in HOSTS
    )


@pytest.mark.parametrize("word", ["index-url", "find-links", "trusted-host"])
def test_no_package_index_is_set(word: str) -> None:
    # `make lock` may say that it wants none of them in its output.
    option = re.compile(rf"(?<!no-emit-){word}")
    report(name for name, text in texts().items() if name != "tests/test_tidy.py" and option.search(text))
