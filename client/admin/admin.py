"""The admin as its users see it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Self, Unpack

from minikafka.client.admin.acls import AclCalls
from minikafka.client.admin.asking import Asker
from minikafka.client.admin.cluster_calls import ClusterCalls
from minikafka.client.admin.configs import ConfigCalls
from minikafka.client.admin.group_offsets import GroupOffsetCalls
from minikafka.client.admin.groups import GroupCalls
from minikafka.client.admin.partitions import PartitionCalls
from minikafka.client.admin.quotas import QuotaCalls
from minikafka.client.admin.replicas import ReplicaCalls
from minikafka.client.admin.scram import ScramCalls
from minikafka.client.admin.tokens import TokenCalls
from minikafka.client.admin.topics import TopicCalls
from minikafka.client.admin.transactions import TransactionCalls
from minikafka.client.clock import Clock
from minikafka.client.cluster import Cluster
from minikafka.client.config import ClientConfig, ClientOptions
from minikafka.client.errors import ClientClosed, ConfigError
from minikafka.client.options import option
from minikafka.client.shared import see_through


@dataclass(frozen=True, kw_only=True)
class AdminConfig(ClientConfig):
    """What an admin needs to know. Looking at a topic does not create it."""

    allow_auto_create_topics: bool = option(False)


class Admin(
    TopicCalls,
    ConfigCalls,
    PartitionCalls,
    GroupCalls,
    GroupOffsetCalls,
    ReplicaCalls,
    ClusterCalls,
    TransactionCalls,
    QuotaCalls,
    ScramCalls,
    AclCalls,
    TokenCalls,
):
    """Looks after a cluster: topics, configs, groups, replicas, quotas, users.

        async with Admin(bootstrap_servers="localhost:9092") as admin:
            await admin.create_topics([NewTopic("orders", num_partitions=6, replication_factor=3)])
            for name, topic in (await admin.describe_topics()).items():
                print(name, len(topic.partitions))

    Options are those of `AdminConfig`; `Admin.from_config` takes Kafka's dotted names. Whatever is wrong is a
    `KafkaError` of the class of its code. Calls about several things try all of them and then raise if anything has
    failed; with `raise_errors=False` they return what came of each (see `Results`).
    """

    def __init__(
        self,
        *,
        config: AdminConfig | None = None,
        clock: Clock | None = None,
        rng: Random | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        if config is not None and options:
            raise ConfigError("a config and options beside it")
        self.config = AdminConfig.from_options(options) if config is None else config
        self._clock, self._rng = clock, rng
        self._is_closed = False
        self._start_lock = asyncio.Lock()
        self._starting: Cluster | None = None
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """An admin by Kafka's own names: `Admin.from_config({"bootstrap.servers": "..."})`."""
        return cls(config=AdminConfig.from_config(config))

    async def start(self) -> None:
        """Find the cluster."""
        async with self._start_lock:
            self._require_not_closed()
            if self._asker is not None:
                return
            cluster = self._starting = Cluster(self.config, clock=self._clock, rng=self._rng)
            try:
                await cluster.start()
                self._require_not_closed()
            except BaseException:
                await cluster.close()
                raise
            finally:
                self._starting = None
            self._asker = Asker(cluster)

    def _require_not_closed(self) -> None:
        if self._is_closed:
            raise ClientClosed("an admin that was closed cannot be started again")

    async def stop(self) -> None:
        """Close all connections; what waits gets a ClientClosed. May be called twice, and while it is being started."""
        self._is_closed = True
        asker, self._asker = self._asker, None
        cluster = self._starting if asker is None else asker.cluster
        if self._closing is None and cluster is not None:
            self._closing = asyncio.create_task(cluster.close(), name="close the admin")
        if self._closing is not None:
            await see_through(self._closing)

    # What aiokafka calls it.
    close = stop

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()
