"""The channels to all live brokers: who has to be told when something has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from minikafka.broker.controller.channel import Channel, Sender
from minikafka.broker.controller.gate import Gate
from minikafka.broker.controller.state import Name, Partition
from minikafka.broker.work import Work
from minikafka.protocol.control import StoppedPartition


class Channels:
    """One for each broker in each of its epochs."""

    def __init__(self, sender: Sender, work: Work) -> None:
        self._sender = sender
        self._work = work
        self._open: dict[int, tuple[Channel, asyncio.Task[None]]] = {}
        self._gate = Gate(self._on_open)

    def follow_brokers(self) -> None:
        """Have a channel for every broker that is live now, and none for any other."""
        live = self._sender.cluster.brokers
        for broker_id, (channel, task) in list(self._open.items()):
            broker = live.get(broker_id)
            if broker is None or broker.epoch != channel.broker.epoch:
                task.cancel()
                del self._open[broker_id]
        for broker_id, broker in live.items():
            if broker_id not in self._open:
                channel = Channel(self._sender, broker, self._gate)
                self._open[broker_id] = channel, self._work.spawn(channel.run(), f"channel to broker {broker_id}")

    def _on_open(self) -> None:
        for channel, _ in self._open.values():
            channel.on_open()

    def close(self) -> None:
        for _, task in self._open.values():
            task.cancel()
        self._open.clear()

    def tell_roles(self, partitions: Iterable[Partition], *, is_new: bool = False) -> list[asyncio.Future[None]]:
        """Tell all live replicas what they are; done when they have heard."""
        by_broker: dict[int, list[Name]] = {}
        for partition in partitions:
            for broker_id in partition.replicas:
                by_broker.setdefault(broker_id, []).append(partition.name)
        return [
            self._open[broker_id][0].tell_roles(names, is_new=is_new)
            for broker_id, names in by_broker.items()
            if broker_id in self._open
        ]

    def tell_roles_to(self, broker_id: int, partitions: Iterable[Partition], *, is_new: bool = False) -> None:
        if broker_id in self._open:
            self._open[broker_id][0].tell_roles([each.name for each in partitions], is_new=is_new)

    def tell_metadata(self, partitions: Iterable[Partition] = (), deleted: Sequence[str] = ()) -> None:
        """Tell everybody, in any case which brokers are live."""
        names = [each.name for each in partitions]
        for channel, _ in self._open.values():
            channel.tell_metadata(names, deleted)

    async def wait_told(self, timeout_seconds: float) -> None:
        """Until everybody has heard everything, or time is up."""
        waiting = [channel.told() for channel, _ in self._open.values()]
        if waiting:
            await asyncio.wait(waiting, timeout=timeout_seconds)

    def stop_replicas(self, broker_id: int, partitions: Iterable[Partition], *, delete: bool) -> None:
        """Have a broker stop its replicas."""
        stops = [
            StoppedPartition(
                topic=each.topic.name,
                partition=each.index,
                leader_epoch=-1 if each.state is None else each.state.leader_epoch,
                delete=delete,
                topic_id=each.topic.topic_id,
            )
            for each in partitions
        ]
        if stops and broker_id in self._open:
            self._open[broker_id][0].stop_replicas(stops)
