"""A client of a simulated cluster that asks the broker it is told to ask, once, and hides nothing of the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from minikafka.broker.network.peer import Peer
from minikafka.protocol.control_codec import ControlMessage
from minikafka.protocol.errors import error_for
from minikafka.protocol.message import Request
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.messages.replicas import ElectLeadersRequest, ElectLeadersResponse, ElectLeadersTopic
from minikafka.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from minikafka.protocol.records import BatchBuilder, BatchView, iter_records, read_whole_batches
from minikafka.protocol.varint import Buffer
from tests.sim.clock import WALL_MS
from tests.sim.net import Network, SimNet

_A = TypeVar("_A", bound=ControlMessage)

TOPIC = "t"
PORT = 9092
LATEST, EARLIEST = -1, -2
_PATIENCE_SECONDS = 60.0


class Entry(NamedTuple):
    """A record, and the leader epoch in which it was written."""

    offset: int
    epoch: int
    value: bytes


class Sequence5(NamedTuple):
    """What an idempotent producer puts into a batch."""

    producer_id: int
    epoch: int
    sequence: int


def host_of(broker_id: int) -> str:
    return f"broker-{broker_id}"


def entries(data: Buffer) -> list[Entry]:
    """The records of whole batches."""
    batches, _ = read_whole_batches(data)
    return [
        Entry(record.offset, batch.leader_epoch, record.value or b"")
        for batch in map(_checked, batches)
        for record in iter_records(batch)
    ]


def _checked(batch: BatchView) -> BatchView:
    batch.check_crc()
    return batch


class SimClient:
    """See the module's description."""

    def __init__(self, network: Network, name: str = "client", patience_seconds: float = _PATIENCE_SECONDS) -> None:
        """Whoever does not answer for so long is given up."""
        self._net: SimNet = network.host(name)
        self._name = name
        self._patience_seconds = patience_seconds
        self._peers: dict[int, Peer] = {}

    async def ask(self, broker_id: int, request: Request, version: int) -> Any:
        """The answer of one broker; PeerGone if there is none."""
        peer = self._peers.get(broker_id)
        if peer is None or not peer.is_open:
            peer = self._peers[broker_id] = await Peer.connect(
                self._net, host_of(broker_id), PORT, client_id=self._name, timeout_seconds=self._patience_seconds
            )
        return await peer.ask(request, version)

    async def create_topic(
        self,
        controller_id: int,
        replicas: Sequence[Sequence[int]],
        configs: Mapping[str, str],
        topic: str = TOPIC,
    ) -> None:
        wanted = CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(each))
                for index, each in enumerate(replicas)
            ],
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        answer: CreateTopicsResponse = await self.ask(controller_id, CreateTopicsRequest(topics=[wanted]), 7)
        _check(answer.topics[0].error_code)

    async def delete_topic(self, controller_id: int, topic: str = TOPIC) -> None:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
        answer: DeleteTopicsResponse = await self.ask(controller_id, request, 5)
        _check(answer.responses[0].error_code)

    async def ask_control(self, broker_id: int, request: ControlMessage, answer: type[_A]) -> _A:
        """What only brokers ask."""
        peer = await Peer.connect(
            self._net, host_of(broker_id), PORT, client_id=self._name, timeout_seconds=self._patience_seconds
        )
        return await peer.ask_control(request, answer)

    async def elect_preferred(self, controller_id: int, topic: str = TOPIC) -> None:
        """Have the first replica of partition 0 lead."""
        await self._elect(controller_id, topic, 0)

    async def elect_unclean(self, controller_id: int, topic: str = TOPIC) -> None:
        """Have anybody lead partition 0, in sync or not."""
        await self._elect(controller_id, topic, 1)

    async def _elect(self, controller_id: int, topic: str, election_type: int) -> None:
        wanted = [ElectLeadersTopic(topic=topic, partitions=[0])]
        request = ElectLeadersRequest(election_type=election_type, topic_partitions=wanted)
        answer: ElectLeadersResponse = await self.ask(controller_id, request, 2)
        _check(answer.replica_election_results[0].partition_result[0].error_code)

    async def produce(
        self,
        broker_id: int,
        value: bytes,
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
        sequence: Sequence5 | None = None,
        partition: int = 0,
        timestamp_ms: int = WALL_MS,
    ) -> int:
        """Write one record; its offset, or the error as an exception."""
        builder = BatchBuilder()
        builder.append(timestamp_ms, None, value)
        producer = sequence or Sequence5(-1, -1, -1)
        batch = builder.build(
            producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=producer.sequence
        )
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
        )
        answer: ProduceResponse = await self.ask(broker_id, request, 9)
        part = answer.responses[0].partition_responses[0]
        _check(part.error_code)
        return part.base_offset

    async def fetch(
        self, broker_id: int, offset: int, *, partition: int = 0, version: int = 10, leader_epoch: int = -1
    ) -> list[Entry]:
        """What a consumer sees from an offset on, at once; from version 11 on a follower answers, too."""
        wanted = FetchPartition(
            partition=partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
        )
        answer: FetchResponse = await self.ask(broker_id, request, version)
        part = answer.responses[0].partitions[0]
        _check(part.error_code)
        return [each for each in entries(part.records or b"") if each.offset >= offset]

    async def list_offset(self, broker_id: int, which: int, *, partition: int = 0) -> int:
        asked = ListOffsetsPartition(partition_index=partition, timestamp=which)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])])
        answer: ListOffsetsResponse = await self.ask(broker_id, request, 7)
        part = answer.topics[0].partitions[0]
        _check(part.error_code)
        return part.offset


def _check(code: int) -> None:
    if code:
        raise error_for(code)
