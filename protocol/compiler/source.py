"""Python source in the making: indentation, fresh names, constants, and the final `exec`."""

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """Collects lines of one function named `made` and compiles it."""

    def __init__(self, title: str, names: dict[str, Any] | None = None) -> None:
        self.title = title
        self.lines: list[str] = []
        self.names: dict[str, Any] = dict(names or {})
        self._depth = 0
        self._serial = 0

    def __call__(self, line: str) -> None:
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, line: str) -> Iterator[None]:
        self(line)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        self._serial += 1
        return f"{prefix}{self._serial}"

    def constant(self, value: Any, prefix: str = "K") -> str:
        """A name for `value` in the function's globals; small literals stand for themselves."""
        if value is None or type(value) in (bool, int) or value in ("", b""):
            return repr(value)
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def build(self) -> Any:
        """Compile; the source is registered with linecache, so that tracebacks show its lines."""
        text = "\n".join(self.lines) + "\n"
        filename = f"<minikafka {self.title}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        exec(compile(text, filename, "exec"), self.names)  # our own declarations, never input
        made = self.names["made"]
        made.source = text
        return made
