"""Large buffers, made and let go of again and again, are made of the same memory."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

BUFFERS = 200
PAGES_PER_BUFFER = 256

# In a process of its own: what is set stays set.
COUNT_FAULTS = f"""
import resource
from minikafka.broker.allocator import keep_freed_memory
assert keep_freed_memory()
bytearray({PAGES_PER_BUFFER} * 4096)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({BUFFERS}):
    # Two at a time, as one grows out of the other.
    bytearray({PAGES_PER_BUFFER} * 2048) + bytes({PAGES_PER_BUFFER} * 2048)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told how to work")
def test_freed_memory_is_used_again() -> None:
    done = subprocess.run([sys.executable, "-c", COUNT_FAULTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < BUFFERS * PAGES_PER_BUFFER / 10
