"""The pages of the HTTP port.

/health    200 while the broker can do its work, else 503: restart it, or mend what the page says
/ready     200 while clients are served, else 503 and the reason
/metrics   for Prometheus
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from minikafka.broker.context import Context
from minikafka.broker.coordinators.groups.group import Group
from minikafka.broker.gauges import read_gauges
from minikafka.broker.http import Answer, Page
from minikafka.broker.metrics import render, snapshot
from minikafka.broker.recent import Recent
from minikafka.broker.replication.followers import Followers
from minikafka.broker.statistics import Statistics
from minikafka.broker.work import Work
from minikafka.broker.zookeeper.coord import SessionState

_LAG_MS_MAX: Final = 5_000
"""A busy machine stays below; a loop that is later than this is stuck."""


class Observed(Protocol):
    """What of a broker is looked at: `node.Broker`."""

    @property
    def statistics(self) -> Statistics: ...

    @property
    def context(self) -> Context | None:
        """None while it starts."""

    @property
    def followers(self) -> Followers | None: ...

    @property
    def is_controller(self) -> bool: ...

    @property
    def groups(self) -> Iterable[Group]:
        """Those that are coordinated here."""


class Pages:
    """See the module's description."""

    def __init__(self, broker: Observed, recent: Recent, work: Work) -> None:
        self._broker = broker
        self._recent = recent
        self._work = work
        self.is_stopping = False

    def table(self) -> Mapping[str, Page]:
        return {"/health": self.health, "/ready": self.ready, "/metrics": self.metrics}

    async def health(self) -> Answer:
        trouble = self._trouble()
        lag_ms = self._broker.statistics.loop.lag_ms
        content = {"status": "unhealthy" if trouble else "healthy", "reasons": trouble, "event_loop_lag_ms": lag_ms}
        return Answer.of_json(503 if trouble else 200, content)

    async def ready(self) -> Answer:
        reason = self._why_not_ready()
        if reason is not None:
            return Answer.of_json(503, {"status": "not ready", "reason": reason})
        return Answer.of_json(200, {"status": "ready"})

    async def metrics(self) -> Answer:
        broker, context = self._broker, self._broker.context
        gauges = read_gauges(context, broker.followers, is_controller=broker.is_controller, groups=broker.groups)
        broker_id = -1 if context is None else context.broker_id
        taken = snapshot(broker_id, broker.statistics, gauges, self._recent)
        content_type, page = await self._work.run_blocking(lambda: render(taken))
        return Answer(200, content_type, page)

    def _trouble(self) -> list[str]:
        found = []
        if (lag_ms := self._broker.statistics.loop.lag_ms) > _LAG_MS_MAX:
            found.append(f"the event loop was {lag_ms} ms late")
        if (context := self._broker.context) is not None:
            offline = [each.path for each in context.partitions.log_dirs.dirs if each.is_offline]
            found += [f"log directory {path} is offline" for path in offline]
        return found

    def _why_not_ready(self) -> str | None:
        context = self._broker.context
        if self.is_stopping:
            return "stopping"
        if context is None:
            return "starting"
        if not context.membership.is_registered:
            return "not registered in ZooKeeper"
        if not context.metadata.is_known:
            return "waiting for the controller"
        if context.coord.session.state is SessionState.LOST:
            return "the session with ZooKeeper is lost"
        return None
