"""The two topics in which the coordinators keep what they know."""

from __future__ import annotations

from typing import Final

GROUP_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"


def is_internal(topic: str) -> bool:
    return topic in (GROUP_OFFSETS, TRANSACTION_STATE)
