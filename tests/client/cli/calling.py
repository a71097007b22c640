"""Calling the command: inside this process, as most tests do, or in one of its own, as users do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from click.testing import CliRunner

from minikafka.__main__ import main

COMMAND = [sys.executable, "-m", "minikafka"]
CALL_S = 50


class Called(NamedTuple):
    """How a call ended, and what it has printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out, self
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The cells of a table without its head, where none has a space in it."""
        return [line.split() for line in self.out.splitlines()[1:]]

    def done(self) -> Called:
        """This, if all went well and nothing was said about it."""
        assert (self.code, self.err) == (0, ""), self
        return self


class Cli:
    """`minikafka` with the cluster in its environment."""

    def __init__(self, bootstrap: str) -> None:
        self.environment = {"MINIKAFKA_BOOTSTRAP": bootstrap}

    def __call__(self, *arguments: object, env: Mapping[str, str | None] = {}) -> Called:
        result = CliRunner().invoke(main, [*map(str, arguments)], env={**self.environment, **env})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Called(result.exit_code, result.stdout, result.stderr)

    def as_process(self, *arguments: object, stdin: str = "") -> Called:
        """The same as a user calls it."""
        words = [*COMMAND, *map(str, arguments)]
        done = subprocess.run(
            words, input=stdin, capture_output=True, text=True, env=os.environ | self.environment, timeout=CALL_S
        )
        return Called(done.returncode, done.stdout, done.stderr)

    def begin(self, *arguments: object) -> subprocess.Popen[str]:
        """A call that goes on; whoever began it ends it."""
        return subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | self.environment,
        )
