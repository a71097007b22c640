"""The example on the first page does what the page says, on a cluster like that of `make up`."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker.up.commands import running
from tests.tree import ROOT


@pytest.mark.needs("java")
async def test_example(tmp_path: Path) -> None:
    found = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    with running(tmp_path, "up", "--brokers", 3, "--port", 0, "--data", tmp_path / "data") as up:
        told = await up.told()
        code = found[1].replace("localhost:9092", f"localhost:{told['brokers'][0]['port']}")
        assert code != found[1]
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
        )
        assert done.stdout == "0 one\n1 two\n2 three\n"
        assert up.end(signal.SIGTERM) == 0
