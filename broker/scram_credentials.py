"""Credentials for SCRAM, as Kafka stores them under a user's name: what a password is checked with, never a password.

    salt=BASE64,stored_key=BASE64,server_key=BASE64,iterations=4096

Both keys are made of the salted password, which a client computes and which is forgotten at once (RFC 5802). Texts of
this kind are secrets too: whoever has the server key can pose as the server. They are shown by no `repr`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
"""Kafka's limits: fewer are too easy to guess by, and more would keep a broker busy at every login."""

_ITERATIONS: Final = re.compile(r"(?:.*,)?iterations=([0-9]{1,9})(?:,.*)?")


class Mechanism(IntEnum):
    """A variant of SCRAM, by the number that requests have for it."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def key(self) -> str:
        """The name of the mechanism, which is also the config that holds a credential."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()


_KEYS: Final = {each.key: each for each in Mechanism}


def is_mechanism(key: str) -> bool:
    """Whether a user's config of this name is a credential."""
    return key in _KEYS


def credential(mechanism: Mechanism, salt: bytes, salted_password: bytes, iterations: int) -> str:
    """What to store of a password."""
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    server_key = hmac.digest(salted_password, b"Server Key", mechanism.digest)
    parts = {"salt": salt, "stored_key": stored_key, "server_key": server_key}
    texts = [f"{name}={base64.b64encode(value).decode()}" for name, value in parts.items()]
    return ",".join([*texts, f"iterations={iterations}"])


def iterations_of(texts: Mapping[str, str]) -> dict[Mechanism, int]:
    """The mechanisms that a user has credentials for, with their iterations, out of the user's configs."""
    found = {}
    for key, mechanism in _KEYS.items():
        counted = _ITERATIONS.fullmatch(texts.get(key, ""))
        if counted is not None:
            found[mechanism] = int(counted[1])
    return found
