"""A group of two members that reads t and commits, and a request of each generation that is over.

Its history is for the judge of groups. What the group has committed is asked for right after it, by whoever has
committed: an offset below one that was accepted before is a violation, too.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

from minikafka.broker.network.peer import PeerGone
from minikafka.client import Consumer, KafkaError, TopicPartition
from minikafka.client.structs import ConsumerGroupMetadata
from minikafka.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.chaos.history import Event, Seen
from tests.sim.campaign.load import QUICK, Load, T
from tests.sim.campaign.plan import BROKERS
from tests.sim.client import SimClient

GROUP = "group"
_OPTIONS = {
    **QUICK,
    "group_id": GROUP,
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 300,
    "max_poll_records": 20,
}


class Groups:
    """See the module's description."""

    def __init__(self, load: Load) -> None:
        self.events: list[Event] = []
        self.accepted: list[str] = []
        """Commits of generations that were over, which should have been refused."""
        self._load = load
        self._newest = -1
        self._present: ConsumerGroupMetadata | None = None
        self._past: ConsumerGroupMetadata | None = None

    def start(self) -> None:
        if self._load.plan.is_full:
            for number in range(2):
                self._load.begin(f"member-{number}", self._consume)
            self._load.begin("past-member", self._commit_too_late)

    async def _consume(self, name: str, rng: Random) -> None:
        load = self._load
        while load.is_storm:
            life = f"{name}/{load.loop.time():.6f}"
            with suppress(KafkaError):
                async with Consumer(T, clock=load.clock, rng=rng, **_OPTIONS) as consumer:
                    leaves_at = load.loop.time() + rng.uniform(1.0, 20.0)
                    while not self._is_over(leaves_at):
                        if await consumer.getmany(timeout_ms=300):
                            await self._commit(life, consumer)
                            await load.rest(rng, 0.05, 0.3)
            await asyncio.sleep(0.1)

    def _is_over(self, leaves_at: float) -> bool:
        return not self._load.is_storm or self._load.loop.time() >= leaves_at

    async def _commit(self, life: str, consumer: Consumer) -> None:
        load, before = self._load, consumer.group_metadata()
        partitions = sorted(consumer.assignment())
        offsets = {partition: await consumer.position(partition) for partition in partitions}
        if consumer.group_metadata() != before or not offsets:
            return
        self._note_generation(life, before, partitions)
        for partition, offset in offsets.items():
            self._note(life, "invoke", "commit", partition, offset, before.generation_id)
        try:
            await consumer.commit(offsets)
        except KafkaError:
            for partition, offset in offsets.items():
                self._note(life, "info", "commit", partition, offset, before.generation_id)
            raise
        load.counts["group_commits"] += 1
        for partition, offset in offsets.items():
            self._note(life, "ok", "commit", partition, offset, before.generation_id)
            self._note(life, "invoke", "offset", partition, 0, -1)
        committed = await consumer.committed_offsets(offsets)
        for partition in offsets:
            offset = committed[partition].offset if partition in committed else 0
            self._note(life, "ok", "offset", partition, offset, -1)

    def _note_generation(self, life: str, who: ConsumerGroupMetadata, partitions: list[TopicPartition]) -> None:
        owned = tuple(Seen(_place(partition), -1, -1) for partition in partitions)
        self._load.note(self.events, life, "ok", "owned", partition=GROUP, value=who.generation_id, records=owned)
        if who.generation_id > self._newest:
            self._newest, self._past, self._present = who.generation_id, self._present, who

    def _note(self, life: str, kind: object, f: str, partition: TopicPartition, offset: int, generation: int) -> None:
        fields = {"partition": _place(partition), "offset": offset, "value": generation}
        self._load.note(self.events, life, kind, f, **fields)  # type: ignore[arg-type]

    async def _commit_too_late(self, name: str, rng: Random) -> None:
        """Commit as a member was that took part in a generation before the newest: nobody may accept that."""
        load, client = self._load, SimClient(self._load.cluster.network, name, 1.0)
        while load.is_storm:
            await load.rest(rng, 0.3, 1.0)
            past = self._past
            if past is None:
                continue
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="late")
            request = OffsetCommitRequest(
                group_id=GROUP,
                generation_id_or_member_epoch=past.generation_id,
                member_id=past.member_id,
                topics=[OffsetCommitRequestTopic(name=T, partitions=[partition])],
            )
            for broker_id in BROKERS:
                with suppress(PeerGone, TimeoutError, OSError):
                    async with asyncio.timeout(1.0):
                        response = await client.ask(broker_id, request, 7)
                    load.counts["late_commits"] += 1
                    if not response.topics[0].partitions[0].error_code:
                        self.accepted.append(f"{past} at broker {broker_id}, after {self._newest}")


def _place(partition: TopicPartition) -> str:
    return f"{GROUP}/{partition.topic}-{partition.partition}"
