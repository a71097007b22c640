"""`make pytest`: all tests, in two processes side by side, since most of their time is waiting for clusters.

One has the tests that need nothing but a processor, and Spark's; it gives way to the other, where clusters are broken
and are to be whole again in time. What it says is shown when the other has ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

from tests.tree import ROOT

BESIDE = ("tests/protocol", "tests/schedules", "tests/sim", "tests/storage", "tests/spark")
NICENESS = "5"
SLOWEST_SHOWN = 15


def main() -> int:
    pytest = [sys.executable, "-m", "pytest", f"--durations={SLOWEST_SHOWN}"]
    with tempfile.TemporaryFile() as said:
        beside = subprocess.Popen(
            ["nice", "-n", NICENESS, *pytest, *BESIDE], cwd=ROOT, stdout=said, stderr=subprocess.STDOUT
        )
        try:
            first = subprocess.run([*pytest, *(f"--ignore={each}" for each in BESIDE)], cwd=ROOT).returncode
            second = beside.wait()
        finally:
            # Interrupted: it was, too, and ends what it has started.
            beside.wait()
            said.seek(0)
            sys.stdout.write(said.read().decode(errors="replace"))
    return first or second


if __name__ == "__main__":
    sys.exit(main())
