"""The PromQL of rules and dashboards, and the metrics that it names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.tree import ROOT

MONITORING = ROOT / "deploy" / "monitoring"
RULES = MONITORING / "prometheus" / "rules" / "minikafka.yml"
DASHBOARD = MONITORING / "grafana" / "dashboards" / "minikafka.json"

# An expression on the line of its key, or folded over the lines below that are indented further.
_RULE = re.compile(
    r"^( *)- (?:alert|record): (\S+)\n(?:\1  #.*\n)*\1  expr: (?:>-\n((?:\1    .*\n)+)|(.*)\n)", re.MULTILINE
)

_NO_METRICS = re.compile(
    r'"[^"]*"|\{[^}]*\}|\[[^]]*\]'
    # What is grouped or matched by, and functions.
    r"|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)|\b\w+\s*(?=\()"
    r"|\b(?:and|or|unless|bool|group_left|group_right)\b|[0-9][0-9.e]*"
)


def rules() -> dict[str, str]:
    """The expression of every rule, by the name of the alert or of what is recorded."""
    text = RULES.read_text()
    found = {match[2]: " ".join((match[3] or match[4]).split()) for match in _RULE.finditer(text)}
    assert len(found) == len(re.findall(r"^ +- (?:alert|record):", text, re.MULTILINE))
    return found


def recorded() -> set[str]:
    """What rules add to the metrics of brokers."""
    return set(re.findall(r"^ +- record: (\S+)", RULES.read_text(), re.MULTILINE))


def alerts() -> set[str]:
    return rules().keys() - recorded()


def dashboard(path: Path = DASHBOARD) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def dashboard_expressions() -> Iterator[tuple[str, str]]:
    """Every expression with the title of its panel."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def metrics_of(expression: str) -> set[str]:
    """The names of metrics in an expression: what is left without its operators, functions and labels."""
    # Twice: the parentheses of a grouping stand where those of a function would.
    bare = _NO_METRICS.sub(" ", _NO_METRICS.sub(" ", expression))
    return set(re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", bare))
