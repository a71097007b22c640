"""The guide of the client: its programs run in their order and print what it says."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.compat.running import Cluster
from tests.tree import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```\n+```output\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GUIDE = ROOT / "docs" / "client.md"


def test_every_program_prints_what_the_guide_says(up_cluster: Cluster) -> None:
    text = GUIDE.read_text()
    programs = BLOCK.findall(text)
    assert len(programs) == text.count("```python") >= 8
    for code, expected in programs:
        assert "localhost:9092" in code
        program = code.replace("localhost:9092", up_cluster.bootstrap)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
        assert (done.stdout, done.stderr) == (expected, ""), code
