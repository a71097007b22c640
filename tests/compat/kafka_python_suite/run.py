"""Runs kafka-python's integration tests and prints who passed, as a table for SCOREBOARD.md.

    python -m tests.compat.kafka_python_suite.run [--bootstrap HOST:PORT] [--sources FOLDER] [producer admin consumer]

Ends well if exactly those tests fail that are expected to.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests.compat.kafka_python_suite.lone_broker import lone_broker
from tests.compat.kafka_python_suite.sources import INTEGRATION, KAFKA_VERSION, prepare

FILES = ("producer", "admin", "consumer")
TEST_S = 20

# Why a test cannot pass.
EXPECTED = {
    "test_create_describe_delete_acls": "there is no authorizer, and Kafka without one fails here too",
}


class Result(NamedTuple):
    """How one test ended: passed, failed or skipped, and why."""

    file: str
    test: str
    outcome: str
    reason: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", default=FILES, help="producer, admin or consumer")
    parser.add_argument("--bootstrap", help="a broker that runs already, alone and with id 0")
    parser.add_argument("--sources", type=Path, help="a folder with kafka-python's sources")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = prepare(folder, options.sources)
        with given(options.bootstrap) if options.bootstrap else lone_broker(folder) as address:
            results = run(sources, address, options.files)
    show(results)
    failed = {result.test for result in results if result.outcome == "failed"}
    surprises = failed ^ {result.test for result in results if result.test in EXPECTED}
    for test in sorted(surprises):
        print(f"unexpected: {test} {'failed' if test in failed else 'passed'}")
    return 1 if surprises else 0


@contextmanager
def given(address: str) -> Iterator[str]:
    yield address


def run(sources: Path, address: str, files: list[str]) -> list[Result]:
    report = sources / "report.xml"
    tests = [str(INTEGRATION / f"test_{file}_integration.py") for file in files]
    # Not with its log level: it prints every byte. And not with the settings of the project around it.
    options = ["-q", "-o", "log_level=WARNING", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    # What passes takes a few seconds. The suite's own limit is five minutes, and ends everything.
    options += [f"--timeout={TEST_S}", "--timeout-method=signal"]
    environment = os.environ | {
        "KAFKA_VERSION": KAFKA_VERSION,
        "KAFKA_URI": f"kafka://{address}",
        "PROJECT_ROOT": str(sources),
        "PYTHONWARNINGS": "ignore",
    }
    subprocess.run([sys.executable, "-m", "pytest", *options, *tests], cwd=sources, env=environment)
    return [*read(report)]


def read(report: Path) -> Iterator[Result]:
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.attrib["classname"].rpartition(".")[2].removeprefix("test_").removesuffix("_integration")
        found = {child.tag: child.attrib.get("message", "") for child in case}
        outcome = "failed" if {"failure", "error"} & set(found) else "skipped" if "skipped" in found else "passed"
        reason = next((found[tag] for tag in ("failure", "error", "skipped") if tag in found), "")
        yield Result(file, case.attrib["name"], outcome, reason.splitlines()[0] if reason else "")


def show(results: list[Result]) -> None:
    print("\n| file | passed | failed | skipped |\n| --- | --- | --- | --- |")
    for file in sorted({result.file for result in results}):
        count = Counter(result.outcome for result in results if result.file == file)
        print(f"| {file} | {count['passed']} | {count['failed']} | {count['skipped']} |")
    print("\n| test | outcome | why |\n| --- | --- | --- |")
    for result in results:
        if result.outcome != "passed":
            print(f"| `{result.test}` | {result.outcome} | {EXPECTED.get(result.test, result.reason)} |")
    print()


if __name__ == "__main__":
    sys.exit(main())
