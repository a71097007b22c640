"""Where the leader's log begins and ends, for a follower whose own ends elsewhere."""

from __future__ import annotations

from typing import Final

from minikafka.broker.network.peer import Peer
from minikafka.broker.replication.following import Following
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
_VERSION: Final = 9


async def ask_offset(leader: Peer, following: Following, which: int) -> int | None:
    """None if the leader does not know, or is none."""
    partition = following.partition
    asked = ListOffsetsPartition(
        partition_index=partition.index, current_leader_epoch=following.leader_epoch, timestamp=which
    )
    request = ListOffsetsRequest(
        replica_id=partition.broker_id, topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])]
    )
    answer: ListOffsetsResponse = await leader.ask(request, _VERSION)
    found = answer.topics[0].partitions[0] if answer.topics and answer.topics[0].partitions else None
    return None if found is None or found.error_code else found.offset
