"""What all families of the admin's calls have in common: someone to ask, while the admin is open."""

from __future__ import annotations

from minikafka.client.admin.asking import Asker
from minikafka.client.errors import ClientClosed


class Calls:
    """The base of `Admin`'s parts; each part is one family of calls."""

    _asker: Asker | None = None

    @property
    def _ask(self) -> Asker:
        if self._asker is None:
            raise ClientClosed("the admin is closed, or was not started: use `async with`, or call `start`")
        return self._asker

    def _wait_ms(self, timeout_ms: int | None) -> int:
        """How long a broker may take for something that takes its time."""
        return self._ask.cluster.config.request_timeout_ms if timeout_ms is None else timeout_ms
