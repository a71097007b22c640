"""The allocator of the C library, told to keep what a broker will need again at once.

Requests and answers of a megabyte come and go. Memory of this size usually returns to the operating system when it is
freed, and the next buffer is made of new pages, one fault after the other: that took more time than everything else
that is done for such a request.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

KEPT_BYTES: Final = 64 << 20
"""So much free memory stays with the process."""

# The numbers of the C library's header. Buffers of up to this size, the largest it takes, are cut from kept memory.
_TRIM_THRESHOLD: Final = -1
_MAP_THRESHOLD: Final = -3
_MAP_THRESHOLD_BYTES: Final = 32 << 20


def keep_freed_memory() -> bool:
    """Have it so; False where the C library is another one, whose ways are its own."""
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt") or not hasattr(library, "gnu_get_libc_version"):
        return False
    is_mapped_less: bool = library.mallopt(_MAP_THRESHOLD, _MAP_THRESHOLD_BYTES) == 1
    is_kept: bool = library.mallopt(_TRIM_THRESHOLD, KEPT_BYTES) == 1
    return is_mapped_less and is_kept
