"""Which version of a request to send: the highest that this side, the broker and the caller all accept.

Some need more than one broker: what all of them can do is a feature, which the cluster finalizes (KIP-584).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import UnsupportedVersionError
from minikafka.protocol.message import Request
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

TRANSACTION_VERSION: Final = "transaction.version"


class Features(NamedTuple):
    """The finalized features as one broker knew them; those of a later epoch are newer."""

    epoch: int = -1
    levels: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, answer: ApiVersionsResponse) -> Features:
        levels = ((each.name, each.max_version_level) for each in answer.finalized_features)
        return cls(answer.finalized_features_epoch, tuple(levels))

    def level(self, feature: str) -> int:
        return dict(self.levels).get(feature, 0)


class Versions:
    """What one broker speaks."""

    def __init__(self, api_keys: Iterable[ApiVersion] = ()) -> None:
        self._ranges = {each.api_key: (each.min_version, each.max_version) for each in api_keys}
        self._chosen: dict[tuple[int, int, int | None], int] = {}

    def serves(self, api_key: int) -> bool:
        return api_key in self._ranges

    def choose(self, message: type[Request], min_version: int = 0, max_version: int | None = None) -> int:
        """The version to send; UnsupportedVersionError if there is none that suits everybody."""
        wanted = (message.api_key, min_version, max_version)
        version = self._chosen.get(wanted)
        if version is None:
            version = self._chosen[wanted] = self._choose(message, min_version, max_version)
        return version

    def _choose(self, message: type[Request], min_version: int, max_version: int | None) -> int:
        name = APIS[message.api_key].name
        if message.api_key not in self._ranges:
            raise UnsupportedVersionError(f"the broker does not serve {name}")
        their_low, their_high = self._ranges[message.api_key]
        our_low, our_high = message.versions
        low = max(min_version, our_low)
        high = our_high if max_version is None else min(max_version, our_high)
        version = min(high, their_high)
        if version < max(low, their_low):
            raise UnsupportedVersionError(
                f"{name}: the broker serves versions {their_low} to {their_high}, here {low} to {high} would do"
            )
        return version
