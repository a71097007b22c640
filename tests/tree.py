"""What belongs to the project: its root, its rooms and its files, for the tests that look at the tree itself."""

import ast
import os
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("broker", "client", "protocol", "storage", "spark_jobs")


@cache
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@cache
def files() -> tuple[str, ...]:
    """Every file of the project, relative to the root: what git tracks or would offer to track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        listed = []
    # A file that is deleted but still in the index is listed too. And git lists nothing at all where the
    # tree lies in an ignored folder of some other repository.
    present = [name for name in listed if name and os.path.lexists(ROOT / name)]
    return tuple(sorted(present or _walk()))


def _walk() -> Iterator[str]:
    """The same for a tree without git: everything but what tools and builds leave behind."""
    for folder, subfolders, names in os.walk(ROOT):
        here = Path(folder)
        links = [name for name in subfolders if (here / name).is_symlink()]
        skipped = {name for name in subfolders if name.startswith(".") and name != ".ci"}
        skipped |= {"build", "dist", "__pycache__", *links}
        subfolders[:] = [name for name in subfolders if name not in skipped]
        for name in (*names, *links):
            yield (here / name).relative_to(ROOT).as_posix()


@cache
def texts() -> dict[str, str]:
    """The content of every file that is text. Links are left out: what they point to is listed itself."""
    found = {}
    for name in files():
        if (ROOT / name).is_symlink():
            continue
        try:
            found[name] = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # recorded bytes
    return found


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax tree of every Python file."""
    return {name: ast.parse(text, name) for name, text in texts().items() if name.endswith(".py")}


class Function(NamedTuple):
    """One function or method, and where it stands."""

    file: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    # The class around a method, None for a function.
    owner: ast.ClassDef | None

    @property
    def body(self) -> list[ast.stmt]:
        """The statements without the docstring."""
        return self.node.body[1:] if ast.get_docstring(self.node) is not None else self.node.body

    @property
    def length(self) -> int:
        """Lines from `def` to the end, without the docstring."""
        total = _lines(self.node)
        return total if self.body is self.node.body else total - _lines(self.node.body[0])

    def __str__(self) -> str:
        return f"{self.file}:{self.node.lineno} {self.node.name}"


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@cache
def functions() -> tuple[Function, ...]:
    return tuple(function for file, tree in modules().items() for function in _functions(file, tree, None))


def _functions(file: str, around: ast.AST, owner: ast.ClassDef | None) -> Iterator[Function]:
    for node in ast.iter_child_nodes(around):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(file, node, owner)
            yield from _functions(file, node, None)
        else:
            yield from _functions(file, node, node if isinstance(node, ast.ClassDef) else owner)
